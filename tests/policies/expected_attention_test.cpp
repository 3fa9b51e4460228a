// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/expected_attention.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/query_stats.hpp"
#include "reference/random_inputs.hpp"
#include "reference/score.hpp"
#include "reference/selection.hpp"

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::Epsilon;
using kvevict::ExpectedAttention;
using kvevict::ValueNorm;

namespace {

reference::Rows order_of(const std::vector<float>& scores) {
  return reference::selection_order({scores.begin(), scores.end()});
}

}  // namespace

TEST_CASE("ExpectedAttention: scores are those of the double-precision loops",
          "[policies][expected_attention]") {
  check_varied("ExpectedAttention", {}, attention_score);
  for (const char* const log_domain : {"false", "true"}) {
    for (const char* const covariance : {"none", "diagonal"}) {
      check_varied("ExpectedAttention", {{"covariance", covariance}, {"log_domain", log_domain}},
                   attention_score);
    }
    for (const char* const value_norm : {"none", "output_projection"}) {
      check_varied("ExpectedAttention", {{"value_norm", value_norm}, {"log_domain", log_domain}},
                   attention_score);
    }
    for (const char* const epsilon : {"absolute:0.02", "per_row:0.5"}) {
      for (const char* const value_norm : {"norm", "output_projection"}) {
        check_varied("ExpectedAttention",
                     {{"epsilon", epsilon}, {"value_norm", value_norm}, {"log_domain", log_domain}},
                     attention_score);
      }
    }
    for (const char* const reduction : {"max", "sum"}) {
      check_varied("ExpectedAttention", {{"reduction", reduction}, {"log_domain", log_domain}},
                   attention_score);
    }
    for (const char* const skip_first : {"0", "10"}) {
      check_varied("ExpectedAttention", {{"skip_first", skip_first}, {"log_domain", log_domain}},
                   attention_score);
    }
  }
}

TEST_CASE("ExpectedAttention: attention after the skipped rows sums to one",
          "[policies][expected_attention]") {
  const reference::Inputs inputs = reference::random_inputs({.group = 3, .rows = {90}}, 1);
  for (const std::int64_t skip : {0, 4}) {
    const std::vector<float> scores = library_scores(
        ExpectedAttention{.value_norm = ValueNorm::none, .skip_first = skip}, inputs);
    CHECK(std::accumulate(scores.begin() + skip, scores.end(), 0.0) == Approx(1).epsilon(1e-5));
  }
}

TEST_CASE("ExpectedAttention: no spread of the queries is no covariance",
          "[policies][expected_attention]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {50}, .queries = 1}, 2);
  // The covariance of one query.
  for (const reference::Matrix& covariance : inputs.stats.covariance) {
    CHECK(std::count(covariance.data.begin(), covariance.data.end(), 0.0) == 64);
  }
  const std::vector<float> none =
      library_scores(ExpectedAttention{.covariance = Covariance::none}, inputs);
  for (const Covariance covariance : {Covariance::diagonal, Covariance::full}) {
    CHECK(library_scores(ExpectedAttention{.covariance = covariance}, inputs) == none);
  }
}

TEST_CASE("ExpectedAttention: only the distance of keys and future matters",
          "[policies][expected_attention]") {
  const reference::Inputs before =
      reference::random_inputs({.group = 2, .rows = {60}, .dim = 16, .queries = 40}, 3);
  const reference::Rope rope{reference::rope_frequencies(10000, 16), reference::Pairing::half, 1};
  const auto at = [&](std::int64_t offset) {
    reference::Inputs inputs = before;
    reference::Positions positions(60);
    std::iota(positions.begin(), positions.end(), offset);
    inputs.keys[0] = reference::rotated(before.keys[0], positions, rope);
    inputs.stats = reference::future_query_stats(before.queries, 4, 60 + offset, 32, rope);
    return inputs;
  };
  for (const Covariance covariance : {Covariance::none, Covariance::full}) {
    const ExpectedAttention policy{.covariance = covariance};
    // Keys and statistics are rounded to float after each rotation.
    const Comparison comparison = compare(library_scores(policy, at(1000)),
                                          library_scores(policy, at(0)), tolerance::float32_sum);
    INFO(comparison.describe());
    CHECK(comparison.within());
  }
  // The diagonal of a rotated covariance is not that of the covariance.
  const ExpectedAttention diagonal{.covariance = Covariance::diagonal};
  CHECK_FALSE(compare(library_scores(diagonal, at(1000)), library_scores(diagonal, at(0)),
                      Tolerance{1e-2, 0})
                  .within());
}

TEST_CASE("ExpectedAttention: scores scale with the values", "[policies][expected_attention]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {50}}, 4);
  std::vector<float> four_times = library_scores(ExpectedAttention{}, inputs);
  for (float& score : four_times) score *= 4;
  inputs.values = scaled(inputs.values, -4);
  CHECK(library_scores(ExpectedAttention{}, inputs) == four_times);
}

TEST_CASE("ExpectedAttention: a large epsilon ranks by the norm of the value",
          "[policies][expected_attention]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {50}}, 5);
  const std::vector<float> scores =
      library_scores(ExpectedAttention{.epsilon = Epsilon::absolute(1e9), .skip_first = 0}, inputs);
  reference::Inputs values_as_keys = inputs;
  values_as_keys.keys = inputs.values;
  std::vector<float> norms = library_scores(kvevict::KNorm{}, values_as_keys);
  for (float& norm : norms) norm = -norm;
  CHECK(order_of(scores) == order_of(norms));
}

TEST_CASE("ExpectedAttention: epsilon in units of a uniform weight",
          "[policies][expected_attention]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {64}}, 6);
  CHECK(library_scores(ExpectedAttention{.epsilon = Epsilon::per_row(0.5)}, inputs) ==
        library_scores(ExpectedAttention{.epsilon = Epsilon::absolute(0.5 / 64)}, inputs));
}

TEST_CASE("ExpectedAttention: the log domain keeps the order of saturated heads",
          "[policies][expected_attention]") {
  reference::Inputs inputs = reference::random_inputs({.group = 2, .rows = {80}}, 7);
  for (std::vector<double>& mean : inputs.stats.mean) {
    for (double& value : mean) value *= 1024;
  }
  ExpectedAttention policy{.covariance = Covariance::none};
  const std::vector<float> plain = library_scores(policy, inputs);
  CHECK(std::count(plain.begin(), plain.end(), 0.0f) > 40);  // underflown to ties
  policy.log_domain = true;
  const std::vector<float> logarithms = library_scores(policy, inputs);
  CHECK(std::set<float>(logarithms.begin() + 4, logarithms.end()).size() == 76);
  const reference::Scores want = reference::score(
      "ExpectedAttention", {{"covariance", "none"}, {"log_domain", "true"}}, inputs);
  CHECK(order_of(logarithms) == reference::selection_order(want[0]));
}

TEST_CASE("ExpectedAttention: the log domain orders as the scores do",
          "[policies][expected_attention]") {
  const reference::Inputs inputs = reference::random_inputs({.group = 3, .rows = {80}}, 8);
  for (const Epsilon epsilon : {Epsilon::absolute(0), Epsilon::absolute(0.01)}) {
    ExpectedAttention policy{.epsilon = epsilon};
    const std::vector<float> plain = library_scores(policy, inputs);
    policy.log_domain = true;
    CHECK(order_of(library_scores(policy, inputs)) == order_of(plain));
  }
}

TEST_CASE("ExpectedAttention: no more rows than are skipped tie",
          "[policies][expected_attention]") {
  for (const std::size_t rows : {1u, 3u, 4u}) {
    for (const bool log_domain : {false, true}) {
      const reference::Inputs inputs = reference::random_inputs({.rows = {rows}}, rows);
      const std::vector<float> scores =
          library_scores(ExpectedAttention{.log_domain = log_domain}, inputs);
      CHECK(scores == std::vector<float>(rows, 0.0f));
    }
  }
}

TEST_CASE("ExpectedAttention: the skipped rows rank first", "[policies][expected_attention]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {40}}, 9);
  const std::vector<float> scores = library_scores(ExpectedAttention{}, inputs);
  const float largest = *std::max_element(scores.begin() + 4, scores.end());
  CHECK(std::count(scores.begin(), scores.begin() + 4, largest) == 4);
}

TEST_CASE("ExpectedAttention: needs follow the parameters", "[policies][expected_attention]") {
  using kvevict::EvidenceKind;
  const auto needs = [](const ExpectedAttention& policy) { return policy.needs(); };
  CHECK(needs({.covariance = Covariance::none}) == kvevict::EvidenceSet{EvidenceKind::query_stats});
  CHECK(needs({.covariance = Covariance::diagonal})
            .contains(EvidenceKind::query_covariance_diagonal));
  CHECK(needs({}).contains(EvidenceKind::query_covariance_full));
  CHECK(needs({.value_norm = ValueNorm::output_projection})
            .contains(EvidenceKind::output_projection));
  CHECK(ExpectedAttention::published() == ExpectedAttention{});
  CHECK(ExpectedAttention::leaderboard().epsilon == Epsilon::absolute(0.01));
}
