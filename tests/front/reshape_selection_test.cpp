// SPDX-License-Identifier: Apache-2.0
#include "kvevict/reshape_selection.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "front/given_scores.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/allocators/mass.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/cpu/shared_scores.hpp"
#include "reference/selection.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace reshape_selection_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::GroupReduction;
using kvevict::KvView;
using kvevict::Protect;
using kvevict::RowLayout;
using kvevict::ScoreView;
using kvevict::Selection;
using HostPositions = kvevict::Positions<>;

namespace {

// Heads of a cache whose rows nobody reads, with scores.
struct Scored {
  std::vector<std::int64_t> offsets = {0};
  std::vector<float> scores;
  std::vector<float> rows;

  Scored(const std::vector<std::int64_t>& lengths, std::uint64_t seed, std::int64_t levels = 0) {
    const Random random(seed);
    for (const std::int64_t n : lengths) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::uint64_t>(scores.size());
        scores.push_back(levels == 0 ? static_cast<float>(random.normal(at))
                                     : static_cast<float>(random.integer(at, levels)));
      }
      offsets.push_back(offsets.back() + n);
    }
    rows.resize(scores.size());
  }
  std::int64_t heads() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  RowLayout<> layout() const { return RowLayout<>::ragged(offsets.data(), heads()); }
  KvView<const float> cache() const {
    return KvView<const float>::ragged(rows.data(), rows.data(), layout(), 1);
  }
  ScoreView<> view() { return {scores.data(), layout()}; }
  std::vector<double> head(std::int64_t h) const {
    return {scores.begin() + offsets[static_cast<std::size_t>(h)],
            scores.begin() + offsets[static_cast<std::size_t>(h) + 1]};
  }
};

std::vector<std::int32_t> kept_of(const Selection& selection, std::int64_t head) {
  const auto rows = selection.head(head);
  return {rows.begin(), rows.end()};
}

std::vector<std::int32_t> best_of(const std::vector<double>& scores, std::int64_t count,
                                  const Protect& protect) {
  reference::Positions positions;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    positions.push_back(static_cast<std::int64_t>(i));
  }
  const reference::Rows rows =
      reference::select_top(scores, static_cast<std::size_t>(count),
                            reference::protected_rows(positions, protect.sinks, protect.recent));
  return {rows.begin(), rows.end()};
}

}  // namespace

TEST_CASE("short heads are filled with their next best rows", "[front][reshape]") {
  const Protect protect{.sinks = 2, .recent = 3};
  TestResources res({.threads = 2});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Scored given({50, 40, 60, 30, 30, 45}, seed, seed % 2 == 0 ? 0 : 5);
    Selection kept;
    select_rows(res, kept, given.view(), given.cache(), true, Budget::evict_ratio(0.7), protect,
                kvevict::GlobalBudget{.cap = 25});
    Selection filled;
    fill_to_uniform_counts(res, filled, kept, given.view(), given.cache(), protect, 3);
    for (std::int64_t h = 0; h < 6; ++h) {
      const std::int64_t first = h / 3 * 3;
      const std::int64_t most =
          std::max({kept.count(first), kept.count(first + 1), kept.count(first + 2)});
      REQUIRE(kept_of(filled, h) == best_of(given.head(h), most, protect));
      const auto now = kept_of(filled, h);
      const auto before = kept_of(kept, h);
      REQUIRE(std::includes(now.begin(), now.end(), before.begin(), before.end()));
    }
    // In place, and a second time nothing changes.
    fill_to_uniform_counts(res, kept, kept, given.view(), given.cache(), protect, 3);
    REQUIRE(kept == filled);
    fill_to_uniform_counts(res, kept, kept, given.view(), given.cache(), protect, 3);
    REQUIRE(kept == filled);
  }
}

TEST_CASE("a head that is too short for its group is a budget error", "[front][reshape]") {
  TestResources res({.threads = 1});
  Scored given({10, 4}, 1);
  Selection kept;
  select_rows(res, kept, given.view(), given.cache(), true, Budget::rows(6));
  Selection filled;
  REQUIRE(refused_budget([&] {
            fill_to_uniform_counts(res, filled, kept, given.view(), given.cache(), {}, 2);
          }) == "rows of head 1 is 4, must be at least what its group keeps, 6");
  REQUIRE(filled.heads() == 0);
  REQUIRE(refused([&] {
            fill_to_uniform_counts(res, filled, kept, given.view(), given.cache(), {}, 3);
          }) == "heads_per_group is 3, must be a divisor of the heads, 2");
  REQUIRE(refused([&] {
            fill_to_uniform_counts(res, filled, Selection(), given.view(), given.cache(), {}, 2);
          }) == "selection.heads is 0, must be equal to 2");
  REQUIRE(refused_budget([&] {
            fill_to_uniform_counts(res, filled, kept, given.view(), given.cache(), {.recent = 7},
                                   1);
          }) == "protected rows of head 0 is 7, must be at most the rows that it keeps, 6");
}

TEST_CASE("one set of rows for all heads of a group", "[front][reshape]") {
  const Protect protect{.sinks = 1, .recent = 2};
  TestResources res({.threads = 2});
  for (const auto reduction : {GroupReduction::sum, GroupReduction::mean, GroupReduction::max}) {
    for (const std::int64_t levels : {0, 4}) {
      Scored given({40, 40, 25, 25, 0, 0}, 3, levels);
      std::vector<std::vector<double>> shared;
      for (std::int64_t h = 0; h < 6; h += 2) {
        std::vector<double> sum = given.head(h);
        const std::vector<double> other = given.head(h + 1);
        for (std::size_t i = 0; i < sum.size(); ++i) {
          sum[i] = reduction == GroupReduction::max
                       ? std::max(sum[i], other[i])
                       // As scores are: rounded to fp32.
                       : static_cast<double>(static_cast<float>(sum[i] + other[i]));
        }
        shared.push_back(sum);
      }
      Selection kept;
      const GivenScores policy{given.scores};
      evict_same_rows_into(res, kept, policy, given.cache(), {}, 2, reduction,
                           Budget::evict_ratio(0.5), protect);
      const std::int64_t counts[] = {20, 12, 0};
      for (std::int64_t h = 0; h < 6; ++h) {
        const auto g = static_cast<std::size_t>(h / 2);
        REQUIRE(kept_of(kept, h) == best_of(shared[g], counts[g], protect));
      }
    }
  }
}

TEST_CASE("layers keep as many of their shared rows as their mass asks for", "[front][reshape]") {
  // PrefixKV as published: 94 % of the first layer's mass lie on three rows, of the second's on
  // five.
  TestResources res({.threads = 2});
  Scored given({8, 8, 8, 8}, 1);
  given.scores = {1, 50, 1, 1,  1,  40, 1,  1,  3, 40, 2, 1,  1,  54, 1,  1,  //
                  1, 20, 0, 19, 16, 0,  18, 17, 1, 18, 2, 19, 20, 0,  18, 17};
  const auto policy = GivenScores{given.scores};
  std::vector<float> shared(given.scores.size());
  const ScoreView<> scores{shared.data(), given.layout()};
  score_rows(res, policy, given.cache(), {}, scores);
  share_scores(res, scores, 2, GroupReduction::mean);
  Selection kept;
  select_rows(res, kept, scores, given.cache(), policy.comparable_across_heads(),
              Budget::evict_ratio(0.5), {}, kvevict::MassBudget::published(2));
  for (const std::int64_t h : {0, 1})
    REQUIRE(kept_of(kept, h) == std::vector<std::int32_t>{0, 1, 5});
  for (const std::int64_t h : {2, 3}) {
    REQUIRE(kept_of(kept, h) == std::vector<std::int32_t>{1, 3, 4, 6, 7});
  }
}

TEST_CASE("a budget in bytes keeps the same number in all heads of a group", "[front][reshape]") {
  TestResources res({.threads = 1});
  Scored given({20, 20, 20, 20}, 3);
  Selection kept;
  // 8 bytes a row: 30 rows, which are 7 for each of four heads and two over.
  select_same_rows(res, kept, given.view(), given.cache(), 4, GroupReduction::sum,
                   Budget::bytes(8 * 30));
  for (std::int64_t h = 0; h < 4; ++h) REQUIRE(kept.count(h) == 7);
}

TEST_CASE("heads with other positions cannot keep the same rows", "[front][reshape]") {
  TestResources res({.threads = 1});
  Scored given({3, 3}, 3);
  Selection kept;
  const std::vector<std::int32_t> first = {0, 5, 9};
  const std::vector<std::int32_t> second = {0, 6, 9};
  const auto select = [&](const std::vector<const std::int32_t*>& table) {
    select_same_rows(res, kept, given.view(),
                     given.cache().with_positions(HostPositions::per_head(table.data())), 2,
                     GroupReduction::sum, Budget::rows(2));
  };
  select({first.data(), first.data()});
  REQUIRE(kept.count(0) == 2);
  REQUIRE(refused([&] {
            select({first.data(), second.data()});
          }) == "positions[row] of head 1 is 6, must be that of the first head of its group, 5");
  Scored ragged({3, 4}, 3);
  REQUIRE(refused([&] {
            select_same_rows(res, kept, ragged.view(), ragged.cache(), 2, GroupReduction::sum,
                             Budget::rows(2));
          }) == "rows of head 1 is 4, must be those of the first head of its group, 3");
}

}  // namespace reshape_selection_test
