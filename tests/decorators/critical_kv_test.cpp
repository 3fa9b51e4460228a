// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/critical_kv.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"
#include "decorators/two_stages.hpp"
#include "reference/selection.hpp"
#include "support/random.hpp"

using kvevict::AdaptiveBudget;
using kvevict::Budget;
using kvevict::CriticalKV;
using kvevict::KNorm;
using kvevict::Protect;
using kvevict::Selection;
using kvevict::SnapKV;
using kvevict::TOVA;
using kvevict::ValueSize;
using namespace kvevict_test;

namespace {

constexpr std::size_t outputs = 20;
constexpr std::size_t value_dim = 12;
constexpr std::size_t group = 2;

// A decorated case with an output projection of its 8 query heads.
struct CriticalCase {
  DecoratedCase given;
  std::vector<float> w = random_values(Shape::normal, 8 * outputs * value_dim, 3);
  kvevict::Evidence<> evidence = given.evidence.view();

  CriticalCase() {
    evidence.output_projection = {kvevict::MatrixBatchView<const float>::packed(
        w.data(), 8, std::int64_t{outputs}, std::int64_t{value_dim})};
  }
  std::size_t rows(std::size_t h) const { return given.inputs.values[h].rows; }
  reference::Rows held(std::size_t h, const Protect& protect) const {
    reference::Positions positions;
    for (std::size_t i = 0; i < rows(h); ++i) positions.push_back(static_cast<std::int64_t>(i));
    return reference::protected_rows(positions, protect.sinks, protect.recent);
  }

  // The rows of head h by two stages of loops in double.
  template <class P>
  reference::Rows want(const P& inner, std::size_t h, std::size_t count, const Protect& protect) {
    const auto scores = given.scores(inner, evidence);
    const auto sizes = projected_sums(given.inputs.values[h], w, h * group, group, outputs);
    return two_stage_rows(scores[h], sizes, held(h, protect), count);
  }
};

reference::Rows rows_of(const Selection& kept, std::size_t h) {
  const auto rows = kept.head(static_cast<std::int64_t>(h));
  return {rows.begin(), rows.end()};
}

// AdaKV's counts by hand: what every head has at least, then the best rows of all heads.
std::vector<std::size_t> adaptive_counts(const std::vector<std::vector<float>>& scores,
                                         const std::vector<reference::Rows>& held,
                                         const std::vector<std::size_t>& shares, double safeguard) {
  struct Open {
    double score;
    std::size_t head;
    std::size_t row;
  };
  std::vector<std::size_t> counts;
  std::vector<Open> open;
  std::size_t total = 0;
  std::size_t taken = 0;
  for (std::size_t h = 0; h < scores.size(); ++h) {
    const std::size_t floor =
        shares[h] == 0
            ? 0
            : std::max<std::size_t>(
                  1, static_cast<std::size_t>(safeguard * static_cast<double>(shares[h])));
    counts.push_back(std::max(held[h].size(), floor));
    total += shares[h];
    taken += counts[h];
    std::size_t rank = held[h].size();
    for (const std::size_t row : reference::selection_order({scores[h].begin(), scores[h].end()})) {
      if (std::find(held[h].begin(), held[h].end(), row) != held[h].end()) continue;
      if (rank++ >= floor) open.push_back({static_cast<double>(scores[h][row]), h, row});
    }
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const Open& a, const Open& b) { return a.score > b.score; });
  for (std::size_t i = 0; taken < total; ++i, ++taken) ++counts[open[i].head];
  return counts;
}

}  // namespace

TEST_CASE("half of what a head keeps is chosen by the score, the rest by values too",
          "[decorators][critical]") {
  CriticalCase critical;
  const CriticalKV<SnapKV> policy{.inner = {.window = 6, .kernel = 3}};
  TestResources res({.threads = 2});
  for (const Protect& protect : {Protect{}, Protect{.sinks = 3, .recent = 6}}) {
    for (const double ratio : {0.2, 0.5, 0.7}) {
      const Selection kept = kvevict::evict(res, policy, critical.given.cache.view(),
                                            critical.evidence, Budget::evict_ratio(ratio), protect);
      for (std::size_t h = 0; h < 4; ++h) {
        const auto count = static_cast<std::size_t>(kept.count(static_cast<std::int64_t>(h)));
        INFO("evict " << ratio << ", head " << h);
        REQUIRE(rows_of(kept, h) == critical.want(policy.inner, h, count, protect));
      }
    }
  }
}

TEST_CASE("CriticalKV divides a budget as AdaKV does", "[decorators][critical]") {
  CriticalCase critical;
  const CriticalKV<TOVA> policy;
  REQUIRE(policy.comparable_across_heads());
  TestResources res({.threads = 2});
  for (const Protect& protect : {Protect{}, Protect{.sinks = 2, .recent = 4}}) {
    const auto scores = critical.given.scores(policy.inner, critical.evidence);
    std::vector<reference::Rows> held;
    std::vector<std::size_t> shares;
    for (std::size_t h = 0; h < 4; ++h) {
      held.push_back(critical.held(h, protect));
      shares.push_back(critical.rows(h) / 2);
    }
    for (const double safeguard : {0.2, 0.6}) {
      const Selection kept =
          kvevict::evict(res, policy, critical.given.cache.view(), critical.evidence,
                         Budget::evict_ratio(0.5), protect, AdaptiveBudget{.safeguard = safeguard});
      const auto counts = adaptive_counts(scores, held, shares, safeguard);
      std::size_t uneven = 0;
      for (std::size_t h = 0; h < 4; ++h) {
        INFO("safeguard " << safeguard << ", head " << h);
        REQUIRE(rows_of(kept, h) == critical.want(policy.inner, h, counts[h], protect));
        uneven += counts[h] != shares[h] ? 1 : 0;
      }
      REQUIRE(uneven > 0);
    }
    const Selection global =
        kvevict::evict(res, policy, critical.given.cache.view(), critical.evidence,
                       Budget::evict_ratio(0.5), protect, kvevict::GlobalBudget{});
    for (std::size_t h = 0; h < 4; ++h) {
      const auto count = static_cast<std::size_t>(global.count(static_cast<std::int64_t>(h)));
      REQUIRE(rows_of(global, h) == critical.want(policy.inner, h, count, protect));
    }
  }
}

TEST_CASE("a first stage of all or of none", "[decorators][critical]") {
  CriticalCase critical;
  TestResources res({.threads = 1});
  const auto evicted = [&](const auto& policy) {
    return kvevict::evict(res, policy, critical.given.cache.view(), critical.evidence,
                          Budget::evict_ratio(0.6), Protect{.recent = 2});
  };
  const SnapKV inner{.window = 6, .kernel = 3};
  REQUIRE(evicted(CriticalKV<SnapKV>{.inner = inner, .first_stage = 1.0}) == evicted(inner));
  for (const ValueSize size : {ValueSize::norm, ValueSize::projected, ValueSize::projected_sum}) {
    REQUIRE(evicted(CriticalKV<SnapKV>{.inner = inner, .size = size, .first_stage = 0.0}) ==
            evicted(kvevict::ValueWeighted<SnapKV>{.inner = inner, .size = size}));
  }
}

TEST_CASE("CriticalKV is a policy of two stages", "[decorators][critical]") {
  STATIC_REQUIRE(kvevict::TwoStagePolicy<CriticalKV<SnapKV>>);
  // What scores without a budget refuses it, when it is compiled.
  STATIC_REQUIRE_FALSE(kvevict::EvictionPolicy<CriticalKV<SnapKV>>);
  REQUIRE(refused([] { CriticalKV<KNorm>{.epsilon = -1}.validate(); }) ==
          "epsilon is -1, must be finite and >= 0");
  REQUIRE(refused([] { CriticalKV<KNorm>{.first_stage = 1.5}.validate(); }) ==
          "first_stage is 1.5, must be in [0, 1]");
  CriticalCase critical;
  TestResources res({.threads = 1});
  Selection kept;
  const auto refusal = [&](const auto& policy, const kvevict::Evidence<>& evidence,
                           const auto& allocator, kvevict::ErrorKind kind) {
    return refused(
        [&] {
          evict_into(res, kept, policy, critical.given.cache.view(), evidence, Budget::rows(5), {},
                     allocator);
        },
        kind);
  };
  const auto invalid = kvevict::ErrorKind::invalid_argument;
  kvevict::Evidence<> missing = critical.evidence;
  missing.output_projection.reset();
  REQUIRE(refusal(CriticalKV<TOVA>{}, missing, kvevict::UniformBudget{}, invalid) ==
          "evidence.output_projection is missing, must be given for CriticalKV");
  kvevict::Evidence<> narrow = critical.evidence;
  narrow.output_projection = {
      kvevict::MatrixBatchView<const float>::packed(critical.w.data(), 8, 20, 11)};
  REQUIRE_FALSE(refusal(CriticalKV<TOVA>{}, narrow, kvevict::UniformBudget{}, invalid).empty());
  REQUIRE_FALSE(refusal(CriticalKV<KNorm>{}, critical.evidence, AdaptiveBudget{},
                        kvevict::ErrorKind::unsupported)
                    .empty());
  REQUIRE(kept.heads() == 0);
}
