// SPDX-License-Identifier: Apache-2.0
#include "reference/query_stats.hpp"

#include <stdexcept>

#include "catch.hpp"
#include "reference/linear.hpp"
#include "reference/policies.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

TEST_CASE("mean and biased covariance of three queries") {
  Matrix queries(4, 2);
  queries.data = {9, 9, 0, 0, 3, 6, 6, 0};
  const QueryStats stats = query_stats({queries}, 1);
  CHECK(compare(stats.mean[0], std::vector<double>{3, 2}, tolerance::float64_sum).within());
  CHECK(compare(stats.covariance[0].data, std::vector<double>{6, 0, 0, 8}, tolerance::float64_sum)
            .within());
}

TEST_CASE("one query has no covariance, none is an error") {
  Matrix queries(1, 2);
  queries.data = {1, -5};
  const QueryStats stats = query_stats({queries}, 0);
  CHECK(stats.mean[0] == std::vector<double>{1, -5});
  CHECK(stats.covariance[0].data == std::vector<double>{0, 0, 0, 0});
  CHECK_THROWS_AS(query_stats({queries}, 1), std::invalid_argument);
}

TEST_CASE("a future of one position is a plain rotation of the queries") {
  const Heads queries = random_inputs({}, 3).queries;
  const Rope rope{rope_frequencies(10000, 8), Pairing::half, 1};
  const QueryStats stats = future_query_stats(queries, 2, 40, 1, rope);
  Heads turned;
  for (const Matrix& head : queries) {
    turned.push_back(rotated(head, Positions(head.rows, 40), rope));
  }
  const QueryStats want = query_stats(turned, 2);
  for (std::size_t h = 0; h < queries.size(); ++h) {
    CHECK(compare(stats.mean[h], want.mean[h], tolerance::float64_sum).within());
    CHECK(compare(stats.covariance[h].data, want.covariance[h].data, tolerance::float64_sum)
              .within());
  }
}

TEST_CASE("keys and future turned by the same offset: scores stay for full covariance") {
  const Inputs inputs = random_inputs({.group = 1, .rows = {20}}, 8);
  const Rope rope{rope_frequencies(100, 8), Pairing::half, 1};
  const auto score_at = [&](std::int64_t offset, Covariance part) {
    Inputs moved = inputs;
    moved.keys[0] = rotated(inputs.keys[0], Positions(20, offset), rope);
    moved.stats = future_query_stats(inputs.queries, 0, 30 + offset, 4, rope);
    ExpectedAttention policy;
    policy.covariance = part;
    return score(policy, moved)[0];
  };
  const auto change = [&](Covariance part) {
    return compare(score_at(13, part), score_at(0, part), tolerance::float64_sum);
  };
  CHECK(change(Covariance::full).within());
  CHECK(change(Covariance::none).within());
  CHECK_FALSE(change(Covariance::diagonal).within());
}
