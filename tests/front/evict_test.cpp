// SPDX-License-Identifier: Apache-2.0
#include "kvevict/evict.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "front/given_scores.hpp"
#include "kvevict/cpu/baseline_scores.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/policies/keydiff.hpp"
#include "kvevict/policies/knorm.hpp"
#include "kvevict/policies/random.hpp"
#include "ops/rows_case.hpp"
#include "reference/selection.hpp"
#include "support/backend.hpp"

namespace evict_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::KNorm;
using kvevict::KvView;
using kvevict::Protect;
using kvevict::RowLayout;
using kvevict::Selection;
using HostPositions = kvevict::Positions<>;

namespace {

KvView<const float> cache_of(const RowsCase<float>& keys) { return {keys.view(), keys.view()}; }

std::vector<std::int32_t> kept_of(const Selection& selection, std::int64_t head) {
  const auto rows = selection.head(head);
  return {rows.begin(), rows.end()};
}

// Positions of a head's rows with holes: i + (i / 3).
std::vector<std::int32_t> with_holes(std::int64_t rows) {
  std::vector<std::int32_t> positions;
  for (std::int32_t i = 0; i < rows; ++i) positions.push_back(i + i / 3);
  return positions;
}

}  // namespace

TEST_CASE("every budget is met exactly for every number of rows", "[front][evict]") {
  TestResources res({.threads = 2});
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 0; n <= 40; ++n) sizes.push_back(n);
  for (const std::int64_t n : {99, 100, 127, 128, 129, 257}) sizes.push_back(n);
  for (const std::int64_t n : sizes) {
    const RowsCase<float> keys(RowsForm::head_first, {n, n}, 3, static_cast<std::uint64_t>(n + 1));
    for (const double ratio : {0.0, 0.1, 0.25, 1.0 / 3.0, 0.5, 0.6, 0.75, 0.9, 0.99, 0.999, 1.0}) {
      const std::int64_t floor = ratio < 1.0 ? std::min<std::int64_t>(n, 1) : 0;
      const std::int64_t want = std::max(reference::exact_kept_rows(n, ratio), floor);
      const Selection kept = evict(res, KNorm{}, cache_of(keys), {}, Budget::evict_ratio(ratio));
      INFO("N " << n << ", ratio " << ratio);
      REQUIRE_NOTHROW(require_valid(kept.view(), keys.layout()));
      REQUIRE(kept.count(0) == want);
      REQUIRE(kept.count(1) == want);
    }
    for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, n / 2, n, n + 5}) {
      const Selection kept = evict(res, KNorm{}, cache_of(keys), {}, Budget::rows(rows));
      REQUIRE(kept.total() == 2 * std::min(rows, n));
    }
  }
}

TEST_CASE("what is kept are the protected rows and the best of the others", "[front][evict]") {
  TestResources res({.threads = 2});
  const RowsCase<float> keys(RowsForm::packed, {60, 0, 12, 129}, 3, 4);
  const std::vector<std::vector<std::int32_t>> positions = {
      with_holes(60), {}, with_holes(12), with_holes(129)};
  std::vector<const std::int32_t*> table;
  for (const auto& head : positions) table.push_back(head.data());
  const auto cache = cache_of(keys).with_positions(HostPositions::per_head(table.data()));
  const kvevict::PositionSpan spans[] = {{20, 30}, {28, 33}};
  for (const double ratio : {0.0, 0.2, 0.5}) {
    const Protect protect{.sinks = 3, .recent = 1, .spans = spans};
    const Selection kept =
        evict(res, kvevict::KeyDiff{}, cache, {}, Budget::evict_ratio(ratio), protect);
    std::vector<float> scores(static_cast<std::size_t>(keys.layout().total()));
    score_rows(res, kvevict::KeyDiff{}, cache, {},
               kvevict::ScoreView<>{scores.data(), keys.layout()});
    for (std::int64_t h = 0; h < 4; ++h) {
      const auto& at = positions[static_cast<std::size_t>(h)];
      const reference::Rows held = reference::protected_rows(
          reference::Positions(at.begin(), at.end()), 3, 1, {{20, 30}, {28, 33}});
      const std::vector<double> head(
          scores.begin() + keys.layout().offset(h),
          scores.begin() + keys.layout().offset(h) + keys.layout().rows(h));
      std::vector<std::int32_t> want;
      for (const std::size_t row :
           reference::select_top(head,
                                 static_cast<std::size_t>(
                                     Budget::evict_ratio(ratio).kept_rows(keys.layout().rows(h))),
                                 held)) {
        want.push_back(static_cast<std::int32_t>(row));
      }
      INFO("ratio " << ratio << ", head " << h);
      REQUIRE(kept_of(kept, h) == want);
    }
  }
}

TEST_CASE("protection is a set, not a score", "[front][evict]") {
  TestResources res({.threads = 1});
  const RowsCase<float> keys(RowsForm::head_first, {6}, 2, 4);
  // Unprotected rows with the largest possible scores, protected ones with the smallest.
  constexpr float inf = std::numeric_limits<float>::infinity();
  const GivenScores policy{.scores = {-inf, inf, inf, inf, inf, std::nanf("")}};
  const Selection kept =
      evict(res, policy, cache_of(keys), {}, Budget::rows(3), {.sinks = 1, .recent = 1});
  REQUIRE(kept_of(kept, 0) == std::vector<std::int32_t>{0, 1, 5});
  REQUIRE(kept.report().nan_scores == 1);
}

TEST_CASE("all equal scores keep the first rows and the protected ones", "[front][evict]") {
  TestResources res({.threads = 1});
  const RowsCase<float> keys(RowsForm::head_first, {10}, 2, 4);
  const GivenScores policy{.scores = std::vector<float>(10, 0.5f)};
  REQUIRE(kept_of(evict(res, policy, cache_of(keys), {}, Budget::rows(5), {.recent = 3}), 0) ==
          std::vector<std::int32_t>{0, 1, 7, 8, 9});
}

TEST_CASE("a batch is evicted as its members are alone, bit by bit", "[front][evict]") {
  const RowsCase<float> together(RowsForm::packed, {200, 3, 0, 131, 57}, 16, 9);
  TestResources res({.threads = 3});
  const Budget budget = Budget::evict_ratio(0.6);
  const Protect protect{.sinks = 1, .recent = 1};
  const auto check = [&](const auto& policy) {
    const Selection all = evict(res, policy, cache_of(together), {}, budget, {.recent = 0});
    const Selection guarded = evict(res, policy, cache_of(together), {}, Budget::rows(2), protect);
    for (std::int64_t h = 0; h < together.heads(); ++h) {
      const auto head = together.view().head(h);
      const auto rows = kvevict::RowsView<const float>::strided(
          head.data, 1, head.rows, 16, 0, head.row_stride, head.channel_stride);
      const KvView<const float> alone(rows, rows);
      INFO("head " << h);
      REQUIRE(kept_of(all, h) == kept_of(evict(res, policy, alone, {}, budget), 0));
      REQUIRE(kept_of(guarded, h) ==
              kept_of(evict(res, policy, alone, {}, Budget::rows(2), protect), 0));
    }
  };
  check(KNorm{});
  check(kvevict::KeyDiff{});
}

TEST_CASE("a selection object is used again, whatever it held", "[front][evict]") {
  TestResources res({.threads = 1});
  Selection kept;
  const RowsCase<float> large(RowsForm::packed, {300, 200}, 4, 1);
  const RowsCase<float> small(RowsForm::head_first, {5}, 4, 2);
  const GivenScores with_nan{.scores = {1, std::nanf(""), 3, 4, 5}};
  for (int round = 0; round < 2; ++round) {
    evict_into(res, kept, KNorm{}, cache_of(large), {}, Budget::rows(100));
    REQUIRE(kept.heads() == 2);
    REQUIRE(kept.total() == 200);
    REQUIRE(kept.report() == kvevict::Report{});
    evict_into(res, kept, with_nan, cache_of(small), {}, Budget::rows(2));
    REQUIRE(kept_of(kept, 0) == std::vector<std::int32_t>{3, 4});
    // Counted anew in every call.
    REQUIRE(kept.report().nan_scores == 1);
  }
}

namespace {

// Counts into the report, as capacity policies do.
struct Counting : GivenScores {
  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache,
             const kvevict::Evidence<R::space>& given, kvevict::ScoreView<R::space> out) const {
    GivenScores::score(res, cache, given, out);
    ++res.report().failed_factorizations;
  }
};

}  // namespace

TEST_CASE("a report is that of its call", "[front][evict]") {
  TestResources res({.threads = 1});
  const RowsCase<float> keys(RowsForm::head_first, {3}, 2, 4);
  const Counting policy{{.scores = {1, std::nanf(""), 3}}};
  const kvevict::Report want{.nan_scores = 1, .failed_factorizations = 1};
  for (int round = 0; round < 3; ++round) {
    const Selection kept = evict(res, policy, cache_of(keys), {}, Budget::rows(2));
    REQUIRE(kept.report() == want);
  }
  // Selecting again by the same scores keeps what the scoring found and counts NaN anew.
  std::vector<float> scores = policy.scores;
  Selection again;
  for (int round = 0; round < 2; ++round) {
    select_rows(res, again, kvevict::ScoreView<>{scores.data(), keys.layout()}, cache_of(keys),
                true, Budget::rows(1));
    REQUIRE(again.report() == want);
  }
}

TEST_CASE("caches without rows or heads evict to nothing", "[front][evict]") {
  TestResources res({.threads = 2});
  for (const Budget& budget : {Budget::rows(4), Budget::evict_ratio(0.5), Budget::bytes(1000)}) {
    REQUIRE(evict(res, KNorm{}, KvView<const float>(), {}, budget).heads() == 0);
    const auto no_rows = KvView<const float>::hnd(nullptr, nullptr, 3, 0, 8);
    const Selection kept = evict(res, KNorm{}, no_rows, {}, budget, {.sinks = 4, .recent = 32});
    REQUIRE(kept.heads() == 3);
    REQUIRE(kept.total() == 0);
  }
}

TEST_CASE("byte budgets count keys and values of every head", "[front][evict]") {
  TestResources res({.threads = 1});
  const RowsCase<float> keys(RowsForm::packed, {40, 10}, 6, 3);
  const RowsCase<float> values(RowsForm::packed, {40, 10}, 2, 4);
  const KvView<const float> cache(keys.view(), values.view());
  const Selection kept = evict(res, KNorm{}, cache, {}, Budget::bytes(32 * 30 + 31));
  REQUIRE(kept.count(0) == 20);
  REQUIRE(kept.count(1) == 10);
}

TEST_CASE("writable and read-only caches, braces for evidence", "[front][evict]") {
  TestResources res({.threads = 1});
  RowsCase<float> keys(RowsForm::head_first, {9, 9}, 4, 1);
  const KvView<float> writable(keys.writable(), keys.writable());
  const Selection one = evict(res, KNorm{}, writable, {}, Budget::rows(4));
  const Selection two = evict(res, KNorm{}, cache_of(keys), {.query_window = {}}, Budget::rows(4));
  REQUIRE(one == two);
  // The random baseline is drawn for each head of the call.
  const Selection random = evict(res, kvevict::Random{.seed = 3}, writable, {}, Budget::rows(4));
  REQUIRE(kept_of(random, 0) != kept_of(random, 1));
}

}  // namespace evict_test
