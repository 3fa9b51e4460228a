// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/projection_factor.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/projection_factor.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace projection_factor_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::ErrorKind;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;

namespace {

// Factors [head][dim][dim], equal for one and three threads.
template <class T>
std::vector<float> factors_of(const MatrixView<const T>& w_o, std::int64_t heads,
                              std::int64_t dim) {
  std::vector<float> first;
  for (const int threads : {1, 3}) {
    TestResources res({.threads = threads});
    std::vector<float> out(static_cast<std::size_t>(heads * dim * dim), -1.0f);
    projection_factors(res, w_o, MatrixBatchView<float>::packed(out.data(), heads, dim, dim));
    if (threads == 1) first = out;
    REQUIRE(out == first);
  }
  return first;
}

reference::Matrix matrix_of(const std::vector<float>& data, std::size_t which, std::size_t dim) {
  reference::Matrix m(dim, dim);
  for (std::size_t i = 0; i < dim * dim; ++i) m.data[i] = data[which * dim * dim + i];
  return m;
}

// R^T R against W^T W: the factor is stored in fp32, so an entry may be off by 2^-23 of the product
// of its columns' lengths, twice that for the two factors; a semidefinite matrix gets 1e-12 more.
void require_same_metric(const reference::Matrix& factor, const reference::Matrix& metric) {
  const reference::Matrix got = reference::product(reference::transposed(factor), factor);
  const double mean = reference::trace(metric) / static_cast<double>(metric.rows);
  for (std::size_t i = 0; i < metric.rows; ++i) {
    for (std::size_t j = 0; j < metric.cols; ++j) {
      const double bound = 0x1p-22 * std::sqrt(metric(i, i) * metric(j, j)) + 2e-12 * mean + 1e-40;
      INFO("entry " << i << ", " << j << ": " << got(i, j) << " and " << metric(i, j));
      REQUIRE(std::abs(got(i, j) - metric(i, j)) <= bound);
      if (i > j) REQUIRE(factor(i, j) == 0.0);
    }
  }
}

// The columns of one head, in double.
template <class T>
reference::Matrix metric_of(const MatrixView<const T>& w_o, std::size_t head, std::size_t dim) {
  reference::Matrix w(static_cast<std::size_t>(w_o.shape[0]), dim);
  for (std::size_t r = 0; r < w.rows; ++r) {
    for (std::size_t c = 0; c < dim; ++c) {
      w(r, c) = static_cast<double>(static_cast<float>(w_o(r, head * dim + c)));
    }
  }
  return reference::product(reference::transposed(w), w);
}

template <class T>
void check(const MatrixView<const T>& w_o, std::int64_t heads, std::int64_t dim) {
  const std::vector<float> factors = factors_of(w_o, heads, dim);
  for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
    require_same_metric(matrix_of(factors, h, static_cast<std::size_t>(dim)),
                        metric_of(w_o, h, static_cast<std::size_t>(dim)));
  }
}

template <class T>
std::vector<T> random_projection(std::int64_t hidden, std::int64_t columns) {
  std::vector<T> out;
  for (const float value : random_values(Shape::normal, hidden * columns, 3)) {
    out.push_back(static_cast<T>(value));
  }
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("factors have the metric of the output projection", "[ops][projection]", float,
                   half, bfloat16) {
  for (const std::int64_t dim : {1, 2, 7, 64}) {
    for (const std::int64_t hidden : {64, 127, 300}) {
      const auto w = random_projection<TestType>(hidden, 3 * dim);
      INFO("dim " << dim << ", hidden " << hidden);
      check(MatrixView<const TestType>::packed(w.data(), hidden, 3 * dim), 3, dim);
    }
  }
}

TEST_CASE("transposed and padded projections", "[ops][projection]") {
  const auto memory = random_projection<float>(100, 50);
  MatrixView<const float> transposed;  // stored [column][hidden]
  transposed.data = memory.data();
  transposed.shape[0] = 40;
  transposed.shape[1] = 16;
  transposed.stride[0] = 1;
  transposed.stride[1] = 50;
  check(transposed, 2, 8);
  MatrixView<const float> padded = MatrixView<const float>::packed(memory.data(), 60, 16);
  padded.stride[0] = 50;
  check(padded, 4, 4);
}

TEST_CASE("projections of lower rank", "[ops][projection]") {
  // Fewer hidden channels than dimensions, repeated and zero columns, columns of very different
  // size: Gram matrices that are only semidefinite.
  const auto wide = random_projection<float>(5, 32);
  check(MatrixView<const float>::packed(wide.data(), 5, 32), 2, 16);
  for (const float size : {1.0f, 1e3f, 1e-3f, 1e5f}) {
    auto repeated = random_projection<float>(64, 24);
    for (std::size_t r = 0; r < 64; ++r) {
      repeated[r * 24 + 3] = size * repeated[r * 24];
      repeated[r * 24 + 7] = repeated[r * 24 + 1] + repeated[r * 24 + 2];
      repeated[r * 24 + 5] = 0.0f;
    }
    INFO("size " << size);
    check(MatrixView<const float>::packed(repeated.data(), 64, 24), 2, 12);
  }
  const std::vector<float> nothing(64, 0.0f);
  check(MatrixView<const float>::packed(nothing.data(), 8, 8), 2, 4);
}

TEST_CASE("projections that are not finite are a numerical error naming the head",
          "[ops][projection]") {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    auto w = random_projection<float>(20, 12);
    w[5 * 12 + 7] = bad;
    REQUIRE(refused([&] { factors_of(MatrixView<const float>::packed(w.data(), 20, 12), 3, 4); },
                    ErrorKind::numerical) == "w_o of query head is 1, must be finite");
  }
}

TEST_CASE("a stacked factor has the sum of its group's metrics", "[ops][projection]") {
  constexpr std::int64_t dim = 6;
  for (const std::int64_t group : {1, 2, 4}) {
    const std::vector<float> factors = random_values(Shape::normal, 2 * group * dim * dim, 4);
    std::vector<float> out(2 * dim * dim, -1.0f);
    TestResources res({.threads = 2});
    stack_factors(res, MatrixBatchView<const float>::packed(factors.data(), 2 * group, dim, dim),
                  MatrixBatchView<float>::packed(out.data(), 2, dim, dim));
    for (std::size_t h = 0; h < 2; ++h) {
      reference::Matrix sum(dim, dim);
      for (std::size_t g = 0; g < static_cast<std::size_t>(group); ++g) {
        const reference::Matrix one =
            matrix_of(factors, h * static_cast<std::size_t>(group) + g, dim);
        const reference::Matrix metric = reference::product(reference::transposed(one), one);
        for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += metric.data[i];
      }
      require_same_metric(matrix_of(out, h, dim), sum);
    }
  }
}

TEST_CASE("projections of another shape are refused", "[ops][projection]") {
  TestResources res({.threads = 1});
  std::vector<float> data(400);
  const auto matrices = [&](int count, int dim) {
    return MatrixBatchView<float>::packed(data.data(), count, dim, dim);
  };
  REQUIRE(refused([&] {
            projection_factors(res, MatrixView<const float>::packed(data.data(), 5, 11),
                               matrices(3, 4));
          }) == "w_o.columns is 11, must be query heads * dim = 12");
  REQUIRE(refused([&] {
            stack_factors(res, MatrixBatchView<const float>(matrices(3, 4)), matrices(2, 4));
          }) == "output_projection.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(refused([&] {
            stack_factors(res, MatrixBatchView<const float>(matrices(4, 3)), matrices(2, 4));
          }) == "output_projection.dim is 3, must be equal to the dimension of the rows, 4");
}

TEST_CASE("factors that are not finite are an error, or counted on a device", "[ops][projection]") {
  TestResources res({.threads = 1});
  std::vector<float> data(4 * 16, 1.0f);
  data[17] = std::nanf("");
  std::vector<float> out(2 * 16, -1.0f);
  const auto stack = [&] {
    stack_factors(res, MatrixBatchView<const float>::packed(data.data(), 4, 4, 4),
                  MatrixBatchView<float>::packed(out.data(), 2, 4, 4));
  };
  if (on_cpu) {
    REQUIRE(refused(stack, ErrorKind::numerical) ==
            "output_projection of KV head is 0, must be finite");
    return;
  }
  stack();
  REQUIRE(res.report().failed_factorizations == 1);
  REQUIRE(std::isnan(out[0]));
  REQUIRE(out[16] > 0.0f);
}

}  // namespace projection_factor_test
