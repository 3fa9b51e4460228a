// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "ops/weighted_rows_case.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::MatrixBatchView;

namespace {

// Gram matrices [block][dim][dim], equal for one and three threads.
template <class T>
std::vector<double> grams_of(const RowsCase<T>& rows, Roots& roots) {
  const std::int64_t blocks = roots.layout.heads();
  std::vector<double> first;
  for (const int threads : {1, 3}) {
    TestResources res({.threads = threads});
    std::vector<double> out(static_cast<std::size_t>(blocks * rows.dim() * rows.dim()), -1.0);
    weighted_gram(res, rows.view(), roots.view(),
                  MatrixBatchView<double>::packed(out.data(), blocks, rows.dim(), rows.dim()));
    if (threads == 1) first = out;
    REQUIRE(out == first);
  }
  return first;
}

}  // namespace

TEMPLATE_TEST_CASE("weighted Gram matrices agree with a double loop", "[ops][capacity]", float,
                   half, bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        for (const std::int64_t group : {1, 2}) {
          Roots roots(rows.layout(), group, 4);
          std::vector<double> want;
          for (std::int64_t m = 0; m < rows.heads() * group; ++m) {
            const reference::Matrix& v = rows.exact()[static_cast<std::size_t>(m / group)];
            const std::vector<double> w = roots.weights(m);
            for (std::size_t a = 0; a < v.cols; ++a) {
              for (std::size_t b = 0; b < v.cols; ++b) {
                double sum = 0;
                for (std::size_t i = 0; i < v.rows; ++i) sum += w[i] * v(i, a) * v(i, b);
                want.push_back(sum);
              }
            }
          }
          const Comparison comparison =
              compare(grams_of(rows, roots), want, tolerance::float64_sum);
          INFO(rows.describe() << ", group " << group << ": " << comparison.describe());
          REQUIRE(comparison.within());
        }
      },
      {1, 2, 17, 64});
}

TEST_CASE("Gram matrices of tiny weights do not underflow", "[ops][capacity]") {
  // Weights of 1e-60 are beyond fp32, their roots are not.
  const RowsCase<float> rows(RowsForm::head_first, {10}, 3, 2);
  Roots roots(rows.layout(), 1, 5);
  const std::vector<double> before = grams_of(rows, roots);
  for (float& root : roots.data) root *= 0x1p-100f;
  std::vector<double> scaled = grams_of(rows, roots);
  for (double& value : scaled) value *= 0x1p200;
  REQUIRE(scaled == before);
}

TEST_CASE("Gram matrices may be written with strides", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::head_first, {10, 10}, 3, 2);
  Roots roots(rows.layout(), 1, 5);
  const std::vector<double> packed = grams_of(rows, roots);
  std::vector<double> memory(2 * 40, -7.0);
  MatrixBatchView<double> strided = MatrixBatchView<double>::packed(memory.data(), 2, 3, 3);
  strided.stride[0] = 40;
  strided.stride[1] = 9;
  TestResources res({.threads = 1});
  weighted_gram(res, rows.view(), roots.view(), strided);
  int untouched = 0;
  for (const double value : memory) untouched += value == -7.0 ? 1 : 0;
  REQUIRE(untouched == 80 - 18);
  for (int h = 0; h < 2; ++h) {
    for (int a = 0; a < 3; ++a) {
      for (int b = 0; b < 3; ++b) {
        REQUIRE(strided(h, a, b) == packed[static_cast<std::size_t>((h * 3 + a) * 3 + b)]);
      }
    }
  }
}

TEST_CASE("Gram matrices of another shape are refused", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::packed, {3, 5}, 4, 1);
  Roots roots(rows.layout(), 1, 5);
  TestResources res({.threads = 1});
  std::vector<double> out(200);
  const auto problem = [&](int blocks, int dim) {
    return refused([&] {
      weighted_gram(res, rows.view(), roots.view(),
                    MatrixBatchView<double>::packed(out.data(), blocks, dim, dim));
    });
  };
  REQUIRE(problem(3, 4) == "gram.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(2, 5) == "gram.dim is 5, must be equal to the dimension of the rows, 4");
  REQUIRE(problem(4, 4) ==
          "root_weights is of another shape, must be one score for each row of each head");
}
