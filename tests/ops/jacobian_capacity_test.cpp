// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/jacobian_capacity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/jacobian_capacity.hpp"
#include "ops/rows_case.hpp"
#include "reference/attention.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"

namespace jacobian_capacity_test {

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::JacobianCapacityOptions;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;
using kvevict::Noise;

namespace {

// Query statistics of random queries, in float and in double.
struct Stats {
  std::int64_t heads;
  std::int64_t dim;
  std::vector<float> mean;
  std::vector<float> diagonal;
  std::vector<float> covariance;

  Stats(std::int64_t query_heads, std::int64_t d, std::uint64_t seed, float size = 1.0f)
      : heads(query_heads), dim(d), mean(random_values(Shape::normal, query_heads * d, seed)) {
    for (float& m : mean) m *= size;
    const std::vector<float> x = random_values(Shape::normal, heads * d * d, seed + 1);
    const auto at = [&](std::int64_t q, std::int64_t r, std::int64_t c) {
      return x[static_cast<std::size_t>((q * d + r) * d + c)];
    };
    for (std::int64_t q = 0; q < heads; ++q) {
      for (std::int64_t r = 0; r < d; ++r) {
        for (std::int64_t c = 0; c < d; ++c) {
          float sum = 0.0f;
          for (std::int64_t k = 0; k < d; ++k) sum += at(q, r, k) * at(q, c, k);
          covariance.push_back(sum);
          if (r == c) diagonal.push_back(sum);
        }
      }
    }
  }

  kvevict::QueryStatsView<> view() const {
    return {MatrixView<const float>::packed(mean.data(), heads, dim),
            MatrixView<const float>::packed(diagonal.data(), heads, dim),
            MatrixBatchView<const float>::packed(covariance.data(), heads, dim, dim)};
  }
  reference::Matrix exact(std::size_t q, Covariance which) const {
    const auto d = static_cast<std::size_t>(dim);
    reference::Matrix out(d, d);
    for (std::size_t r = 0; r < d; ++r) {
      for (std::size_t c = 0; c < d; ++c) {
        if (r == c || which == Covariance::full) {
          out(r, c) = static_cast<double>(covariance[(q * d + r) * d + c]);
        }
      }
    }
    return out;
  }
};

struct Losses {
  std::vector<double> capacities;
  std::vector<double> losses;
  kvevict::Report report;
};

template <class T>
Losses losses_of(const kvevict::RowsView<const T>& keys, const kvevict::RowsView<const T>& values,
                 const Stats& stats, const JacobianCapacityOptions& options,
                 const MatrixBatchView<const float>& transforms = {}) {
  kvevict::CpuResources res({.threads = 2});
  Losses out;
  const std::int64_t group = stats.heads / std::max<std::int64_t>(keys.heads(), 1);
  out.capacities.resize(static_cast<std::size_t>(stats.heads));
  out.losses.resize(static_cast<std::size_t>(keys.layout().repeated(group).total()));
  jacobian_capacity_losses(res, keys, values, stats.view(), transforms, options, out.capacities,
                           out.losses);
  out.report = res.report();
  return out;
}

// J Lambda J^T by its definition: J = U^T (diag(a) - a a^T) K / (tau sqrt d).
reference::Matrix channel(const reference::Matrix& k, const reference::Matrix& u,
                          const std::vector<double>& mu, const reference::Matrix& lambda,
                          double temperature) {
  const std::vector<double> a = reference::softmax(reference::logits(mu.data(), k, temperature));
  reference::Matrix middle(k.rows, k.rows);
  const double scale = 1.0 / (temperature * std::sqrt(static_cast<double>(k.cols)));
  for (std::size_t i = 0; i < k.rows; ++i) {
    for (std::size_t j = 0; j < k.rows; ++j) {
      middle(i, j) = scale * ((i == j ? a[i] : 0.0) - a[i] * a[j]);
    }
  }
  const reference::Matrix jacobian =
      reference::product(reference::product(reference::transposed(u), middle), k);
  return reference::product(reference::product(jacobian, lambda), reference::transposed(jacobian));
}

double capacity(reference::Matrix s, double s2) {
  for (double& value : s.data) value /= s2;
  for (std::size_t c = 0; c < s.cols; ++c) s(c, c) += 1.0;
  return 0.5 * reference::LinearSystem(s).log_determinant();
}

reference::Matrix without(const reference::Matrix& m, std::size_t row) {
  reference::Matrix out(m.rows - 1, m.cols);
  for (std::size_t i = 0; i < out.rows; ++i) {
    for (std::size_t c = 0; c < m.cols; ++c) out(i, c) = m(i + (i >= row ? 1 : 0), c);
  }
  return out;
}

// Every row is really taken out.
void check_head(const reference::Matrix& k, const reference::Matrix& u, const Stats& stats,
                std::size_t q, const JacobianCapacityOptions& options, double got_capacity,
                const double* got_losses) {
  const auto first = stats.mean.begin() + static_cast<std::ptrdiff_t>(q * k.cols);
  const std::vector<double> mu(first, first + static_cast<std::ptrdiff_t>(k.cols));
  const reference::Matrix lambda = stats.exact(q, options.covariance);
  const reference::Matrix all = channel(k, u, mu, lambda, options.temperature);
  const double s2 = options.noise.kind == Noise::Kind::absolute
                        ? options.noise.value
                        : options.noise.value * reference::trace(all) / static_cast<double>(u.cols);
  const double whole = capacity(all, s2);
  CHECK(got_capacity == Approx(whole).epsilon(1e-10).margin(1e-12));
  for (std::size_t j = 0; j < k.rows; ++j) {
    const double rest =
        capacity(channel(without(k, j), without(u, j), mu, lambda, options.temperature), s2);
    // The difference of two capacities, each right to about 1e-13 of itself.
    CHECK(got_losses[j] == Approx(whole - rest).epsilon(1e-9).margin(1e-11 * (1.0 + whole)));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("losses of capacity are those of taking each row out", "[ops][jacobian]", float,
                   kvevict::half) {
  std::uint64_t seed = 1;
  for (const float size : {0.5f, 3.0f, 12.0f}) {
    for (const Covariance covariance : {Covariance::diagonal, Covariance::full}) {
      for (const Noise noise : {Noise::relative(0.01), Noise::absolute(1.0)}) {
        const RowsCase<TestType> keys(RowsForm::per_head, {20, 2, 0}, 6, seed);
        const RowsCase<TestType> values(RowsForm::per_head, {20, 2, 0}, 5, seed + 100);
        const Stats stats(6, 6, seed + 200, size);
        const JacobianCapacityOptions options{
            .temperature = seed % 2 == 0 ? 1.0 : 10.0, .covariance = covariance, .noise = noise};
        const Losses got = losses_of<TestType>(keys.view(), values.view(), stats, options);
        for (std::size_t q = 0; q < 4; ++q) {
          INFO("size " << size << ", query head " << q << ", temperature " << options.temperature);
          check_head(keys.exact()[q / 2], values.exact()[q / 2], stats, q, options,
                     got.capacities[q], &got.losses[q < 2 ? 20 * q : 40 + 2 * (q - 2)]);
        }
        CHECK(got.capacities[4] == 0.0);
        CHECK(got.report == kvevict::Report{.zero_capacity_heads = 2});  // the ones without rows
        ++seed;
      }
    }
  }
}

TEST_CASE("losses of capacity through a projection", "[ops][jacobian]") {
  const RowsCase<float> keys(RowsForm::packed, {15}, 6, 31);
  const RowsCase<float> values(RowsForm::packed, {15}, 4, 32);
  const Stats stats(2, 6, 33, 2.0f);
  const std::vector<float> matrices = random_values(Shape::normal, 2 * 7 * 4, 34);
  const JacobianCapacityOptions options;
  const Losses got =
      losses_of<float>(keys.view(), values.view(), stats, options,
                       MatrixBatchView<const float>::packed(matrices.data(), 2, 7, 4));
  for (std::size_t q = 0; q < 2; ++q) {
    reference::Matrix r(7, 4);
    r.data.assign(matrices.begin() + static_cast<std::ptrdiff_t>(28 * q),
                  matrices.begin() + static_cast<std::ptrdiff_t>(28 * (q + 1)));
    check_head(keys.exact()[0], reference::product(values.exact()[0], reference::transposed(r)),
               stats, q, options, got.capacities[q], &got.losses[15 * q]);
  }
}

TEST_CASE("a row that saturates the softmax has a negative loss", "[ops][jacobian]") {
  // All but 1e-6 of the weight on row 0: without it the others share it and pass far more.
  const std::vector<float> keys = {14, 0, 0.5f, -0.5f};
  const std::vector<float> values = {1, 2, -1, 3};
  const auto k = kvevict::RowsView<const float>::strided(keys.data(), 1, 4, 1, 4, 1);
  const auto v = kvevict::RowsView<const float>::strided(values.data(), 1, 4, 1, 4, 1);
  Stats stats(1, 1, 41);
  stats.mean = {1.0f};
  const Losses got = losses_of<float>(k, v, stats, {.noise = Noise::absolute(1e-3)});
  CHECK(got.losses[0] < -0.1);
  for (std::size_t j = 1; j < 4; ++j) CHECK(std::abs(got.losses[j]) < 1e-3);
}

TEST_CASE("losses of capacity: one row, equal rows, what is not finite", "[ops][jacobian]") {
  std::vector<float> keys = {1, 2, 1, 2, 1, 2};
  const std::vector<float> values = {3, 4, 3, 4, 3, 4};
  const Stats stats(1, 2, 51);
  const auto run = [&](std::int64_t rows) {
    return losses_of<float>(
        kvevict::RowsView<const float>::strided(keys.data(), 1, rows, 2, 6, 2),
        kvevict::RowsView<const float>::strided(values.data(), 1, rows, 2, 6, 2), stats, {});
  };
  for (const std::int64_t rows : {1, 3}) {
    const Losses none = run(rows);
    CHECK(none.capacities[0] == 0.0);
    CHECK(none.losses == std::vector<double>(static_cast<std::size_t>(rows), 0.0));
    CHECK(none.report == kvevict::Report{.zero_capacity_heads = 1});
  }
  keys[3] = std::numeric_limits<float>::quiet_NaN();
  const Losses broken = run(3);
  CHECK(std::isnan(broken.capacities[0]));
  for (const double loss : broken.losses) CHECK(std::isnan(loss));
}

TEST_CASE("jacobian_capacity_losses refuses what does not fit", "[ops][jacobian]") {
  const RowsCase<float> keys(RowsForm::packed, {3, 2}, 4, 61);
  const RowsCase<float> values(RowsForm::packed, {3, 2}, 5, 62);
  const RowsCase<float> fewer(RowsForm::packed, {3, 1}, 5, 62);
  const Stats stats(2, 4, 63);
  const auto problem = [&](const RowsCase<float>& of_values, const kvevict::QueryStatsView<>& given,
                           const JacobianCapacityOptions& options, std::size_t size = 5) {
    return refused([&] {
      kvevict::CpuResources res({.threads = 1});
      std::vector<double> capacities(2);
      std::vector<double> losses(size);
      jacobian_capacity_losses(res, keys.view(), of_values.view(), given, {}, options, capacities,
                               losses);
    });
  };
  kvevict::QueryStatsView<> diagonal = stats.view();
  diagonal.covariance = {};
  CHECK(problem(values, stats.view(), {.temperature = 0.0}) ==
        "temperature is 0, must be finite and > 0");
  CHECK(problem(values, stats.view(), {.covariance = Covariance::none}) ==
        "covariance is none, must be diagonal or full");
  CHECK(problem(values, stats.view(), {.noise = Noise::relative(-1.0)}) ==
        "noise is -1, must be finite and > 0");
  CHECK(problem(values, diagonal, {}) ==
        "evidence.query_stats.covariance is missing, must be given for jacobian_capacity_losses");
  CHECK(problem(values, Stats(3, 4, 1).view(), {}) ==
        "query_stats.mean.heads is 3, must be a positive multiple of the KV heads, 2");
  CHECK(problem(values, Stats(2, 3, 1).view(), {}) ==
        "query_stats.mean.dim is 3, must be equal to the dimension of the rows, 4");
  CHECK(problem(fewer, stats.view(), {}) == "values is of another shape, must be one for each key");
  CHECK(problem(values, stats.view(), {}, 4) ==
        "losses.size is 4, must be one for each row of each query head, 5");
}

}  // namespace jacobian_capacity_test
