// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/cpu/query_stats.hpp"
#include "kvevict/query_stats.hpp"
#include "ops/attention_case.hpp"
#include "reference/linear.hpp"
#include "reference/rope.hpp"
#include "support/backend.hpp"

namespace query_stats_facts_test {

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::QueryStats;
using kvevict::Rope;
using kvevict::RunningQueryStats;

namespace {

constexpr std::int64_t dim = 12;

// k . mu / sqrt(d) + k^T Lambda k / (2 d) of one key, in double.
double log_moment(QueryStats& stats, const std::vector<double>& key) {
  double linear = 0;
  double quadratic = 0;
  const bool full = stats.covariance() == Covariance::full;
  for (std::size_t i = 0; i < dim; ++i) {
    linear += key[i] * static_cast<double>(stats.mean(0)[i]);
    for (std::size_t j = 0; j < dim; ++j) {
      const double entry = full     ? static_cast<double>(stats.second(0)[i * dim + j])
                           : i == j ? static_cast<double>(stats.second(0)[i])
                                    : 0.0;
      quadratic += key[i] * key[j] * entry;
    }
  }
  return linear / std::sqrt(static_cast<double>(dim)) + quadratic / (2.0 * dim);
}

}  // namespace

TEST_CASE("rotating keys and future by the same offset changes no logit, but for a diagonal",
          "[front][query_stats]") {
  TestResources res({.threads = 1});
  const QueriesCase<float> queries(1, 50, dim, 3);
  const std::vector<float> key_numbers = random_values(Shape::normal, dim, 4);
  const Rope rope{.theta = 1e4};
  const reference::Rope same{reference::rope_frequencies(1e4, dim), reference::Pairing::half, 1};
  const auto rotated_key = [&](std::int64_t position) {
    return reference::product(reference::rotation_matrix(same, position, dim),
                              std::vector<double>(key_numbers.begin(), key_numbers.end()));
  };
  const auto moment = [&](Covariance kind, std::int64_t offset) {
    QueryStats stats = estimate_query_stats(
        res, queries.view(), rope,
        {.next_position = 50 + offset, .future = 20, .skip_first = 0, .covariance = kind});
    return log_moment(stats, rotated_key(7 + offset));
  };
  for (const std::int64_t offset : {1, 100, 5000}) {
    INFO("offset " << offset);
    REQUIRE(moment(Covariance::full, offset) == Approx(moment(Covariance::full, 0)).epsilon(1e-5));
  }
  // A diagonal is not carried along by a rotation.
  REQUIRE(std::abs(moment(Covariance::diagonal, 100) - moment(Covariance::diagonal, 0)) > 1e-3);
}

TEST_CASE("the mean rotation is the mean of rotations", "[front][query_stats]") {
  for (const std::int64_t future : {1, 2, 512}) {
    for (const std::int64_t next : {0, 3, 100000}) {
      const Rope rope{.theta = 1e5, .rotary_dim = 8, .attention_factor = 1.1};
      const auto rotation = kvevict::mean_rotation(rope, dim, {next, future});
      const reference::Matrix want = reference::mean_rotation(
          {reference::rope_frequencies(1e5, 8), reference::Pairing::half, 1.1}, next, future, dim);
      REQUIRE(rotation.cosine.size() == 4);
      for (std::size_t pair = 0; pair < 4; ++pair) {
        REQUIRE(rotation.cosine[pair] == Approx(want(pair, pair)).margin(1e-12));
        REQUIRE(rotation.sine[pair] == Approx(want(pair + 4, pair)).margin(1e-12));
      }
    }
  }
}

TEST_CASE("a table of frequencies need not outlive its rope", "[front][query_stats]") {
  TestResources res({.threads = 1});
  const QueriesCase<float> queries(1, 20, dim, 5);
  std::vector<double> table = {1.0, 0.5, 0.25, 0.125, 0.06, 0.03};
  RunningQueryStats running(1, dim, Rope{.frequencies = table}, Covariance::full);
  running.observe(res, queries.view());
  QueryStats before = running.finish(res, {20, 5});
  std::fill(table.begin(), table.end(), 7.0);
  QueryStats after = running.finish(res, {20, 5});
  for (std::size_t c = 0; c < dim; ++c) REQUIRE(before.mean(0)[c] == after.mean(0)[c]);
}

TEST_CASE("NaN queries make the statistics of their head NaN", "[front][query_stats]") {
  TestResources res({.threads = 1});
  QueriesCase<float> queries(2, 20, dim, 6);
  queries.data[3 * dim + 2] = std::nanf("");
  QueryStats stats = window_query_stats(res, queries.view(), Covariance::diagonal);
  REQUIRE(std::isnan(stats.mean(0)[2]));
  REQUIRE(std::isnan(stats.second(0)[2]));
  for (std::size_t c = 0; c < dim; ++c) REQUIRE(std::isfinite(stats.mean(1)[c]));
}

TEST_CASE("statistics refuse what they cannot use", "[front][query_stats]") {
  TestResources res({.threads = 1});
  const QueriesCase<float> queries(2, 10, dim, 6);
  const auto problem = [&](const Rope& rope, const kvevict::QueryStatsOptions& options) {
    return refused([&] { estimate_query_stats(res, queries.view(), rope, options); });
  };
  // The next position is never guessed from a number of rows.
  REQUIRE(problem({}, {}) == "next_position is -1, must be given and >= 0");
  REQUIRE(problem({}, {.next_position = 10, .future = 0}) == "future is 0, must be >= 1");
  REQUIRE(problem({}, {.next_position = 10, .skip_first = 10}) ==
          "queries.count is 10, must be above skip_first, 10");
  REQUIRE(problem({}, {.next_position = 10, .skip_first = -1}) == "skip_first is -1, must be >= 0");
  REQUIRE(problem({.rotary_dim = 14}, {.next_position = 10}) ==
          "rope.rotary_dim is 14, must be -1 or in [0, dim], dim = 12");
  REQUIRE(refused([] { RunningQueryStats(0, 4, Rope{}, Covariance::full); }) ==
          "query_heads is 0, must be >= 1");
  REQUIRE(refused([] { RunningQueryStats(-1, 4, Rope{}, Covariance::full); }) ==
          "query_heads is -1, must be >= 1");
  REQUIRE(refused([] { RunningQueryStats(1, 0, Rope{}, Covariance::full); }) ==
          "dim is 0, must be >= 1");

  RunningQueryStats running(2, dim, Rope{}, Covariance::full);
  REQUIRE(refused([&] { running.finish(res, {10, 5}); }) == "observed queries is 0, must be >= 1");
  REQUIRE(refused([&] { running.observe(res, QueriesCase<float>(3, 4, dim, 1).view()); }) ==
          "queries.heads is 3, must be equal to 2");
  REQUIRE(refused([&] { running.observe(res, QueriesCase<float>(2, 4, 10, 1).view()); }) ==
          "queries.dim is 10, must be equal to the dimension of the rows, 12");
  REQUIRE(refused([&] { running.observe(res, queries.view(), 11); }) ==
          "first is 11, must be in [0, queries.count], count = 10");
  REQUIRE(refused([&] {
            running.merge(res, RunningQueryStats(3, dim, Rope{}, Covariance::full));
          }) == "other.query_heads is 3, must be equal to 2");
  REQUIRE(refused([&] {
            running.merge(res, RunningQueryStats(2, 10, Rope{}, Covariance::full));
          }) == "other.dim is 10, must be equal to 12");
  REQUIRE(refused([&] {
            running.merge(res, RunningQueryStats(2, dim, Rope{}, Covariance::diagonal));
          }) == "other.covariance is 18, must be of the same kind, of size 144");
}

}  // namespace query_stats_facts_test
