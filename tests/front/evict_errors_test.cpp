// SPDX-License-Identifier: Apache-2.0
// A call that is refused leaves cache, positions and selection usable.
#include <cmath>
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "front/given_scores.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/pooling.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/evict.hpp"
#include "support/backend.hpp"

namespace evict_errors_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::ErrorKind;
using kvevict::EvidenceKind;
using kvevict::GlobalBudget;
using kvevict::KvView;
using kvevict::Protect;
using kvevict::Selection;

namespace {

// Ten rows in each of two heads, positions stored.
struct Cache {
  std::vector<float> keys = std::vector<float>(2 * 10 * 3, 1.5f);
  std::vector<float> values = std::vector<float>(2 * 10 * 3, 2.5f);
  std::vector<std::int32_t> positions;

  Cache() {
    for (std::int32_t i = 0; i < 20; ++i) positions.push_back(2 * (i % 10));
  }
  KvView<float> view() {
    return KvView<float>::hnd(keys.data(), values.data(), 2, 10, 3)
        .with_positions(
            kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>::packed(positions.data()));
  }
  friend bool operator==(const Cache&, const Cache&) = default;
};

const GivenScores policy{.scores = std::vector<float>(20, 1.0f)};

// The error's text; afterwards the cache is as before and the next call works.
template <class... Args>
std::string refusal(ErrorKind kind, const GivenScores& with, Args&&... args) {
  Cache cache;
  const Cache before = cache;
  TestResources res({.threads = 2});
  Selection kept;
  const std::string text =
      refused([&] { evict_into(res, kept, with, cache.view(), args...); }, kind);
  REQUIRE(cache == before);
  evict_into(res, kept, policy, cache.view(), {}, Budget::rows(4));
  REQUIRE(kept.total() == 8);
  REQUIRE_NOTHROW(require_valid(kept.view(), cache.view().layout()));
  return text;
}

using Evidence = kvevict::Evidence<>;

// Allocators that break their promises.
struct Negative {
  template <class R>
  void allocate(R& res, const kvevict::AllocationInput<R::space>&, std::int64_t* counts) const {
    if (res.workspace().counting()) return;
    counts[0] = -5;
    counts[1] = 4;
  }
};
struct TooMany {
  template <class R>
  void allocate(R& res, const kvevict::AllocationInput<R::space>&, std::int64_t* counts) const {
    if (res.workspace().counting()) return;
    counts[0] = 11;
    counts[1] = 4;
  }
};

}  // namespace

TEST_CASE("protected rows that exceed the budget are a budget error", "[front][evict]") {
  REQUIRE(refusal(ErrorKind::budget, policy, Evidence{}, Budget::rows(5),
                  Protect{.sinks = 3, .recent = 4}) ==
          "protected rows of head 0 is 6, must be at most the rows that it keeps, 5");
  REQUIRE(refusal(ErrorKind::budget, policy, Evidence{}, Budget::rows(0), Protect{.recent = 1}) ==
          "protected rows of head 0 is 1, must be at most the rows that it keeps, 0");
  REQUIRE(refusal(ErrorKind::budget, policy, Evidence{}, Budget::bytes(47)) ==
          "budget.bytes is 47, must be enough for one row of each head, 48");
  REQUIRE(refusal(ErrorKind::budget, policy, Evidence{}, Budget::rows(3), Protect{.recent = 4},
                  GlobalBudget{}) ==
          "protected rows and floors is 8, must be at most the budget's rows, 6");
}

TEST_CASE("missing evidence is named before any work", "[front][evict]") {
  GivenScores needy = policy;
  needy.evidence = {EvidenceKind::query_window, EvidenceKind::probes};
  needy.scores.clear();  // scoring would complain about these
  REQUIRE(refusal(ErrorKind::invalid_argument, needy, Evidence{}, Budget::rows(5)) ==
          "evidence.query_window is missing, must be given for GivenScores");
  REQUIRE(refusal(ErrorKind::invalid_argument, needy,
                  Evidence{.query_window = kvevict::QueryWindow<>{}},
                  Budget::rows(5)) == "evidence.probes is missing, must be given for GivenScores");
}

TEST_CASE("bad protection is an invalid argument", "[front][evict]") {
  REQUIRE(refusal(ErrorKind::invalid_argument, policy, Evidence{}, Budget::rows(5),
                  Protect{.recent = -1}) == "protect.recent is -1, must be >= 0");
  const kvevict::PositionSpan backwards[] = {{4, 3}};
  REQUIRE(refusal(ErrorKind::invalid_argument, policy, Evidence{}, Budget::rows(5),
                  Protect{.spans = backwards}) == "protect.spans.end is 3, must be >= begin, 4");
}

TEST_CASE("what a policy throws reaches the caller", "[front][evict]") {
  GivenScores wrong = policy;
  wrong.scores.resize(3);
  REQUIRE(refusal(ErrorKind::invalid_argument, wrong, Evidence{}, Budget::rows(5)) ==
          "given scores is 3, must be one for each row");
}

TEST_CASE("scores that are not comparable have no global budget", "[front][evict]") {
  GivenScores incomparable = policy;
  incomparable.comparable = false;
  REQUIRE(
      refusal(ErrorKind::unsupported, incomparable, Evidence{}, Budget::rows(5), Protect{},
              GlobalBudget{}) ==
      "GlobalBudget.allow_incomparable is false, must be true for a policy whose scores are not "
      "comparable across heads");
  Cache cache;
  TestResources res({.threads = 1});
  const Selection kept = evict(res, incomparable, cache.view(), {}, Budget::rows(5), {},
                               GlobalBudget{.allow_incomparable = true});
  REQUIRE(kept.total() == 10);
}

TEST_CASE("positions must ascend", "[front][evict]") {
  Cache cache;
  cache.positions[13] = cache.positions[12];
  const Cache before = cache;
  TestResources res({.threads = 1});
  REQUIRE(refused([&] { evict(res, policy, cache.view(), {}, Budget::rows(5)); }) ==
          "positions[row] of head 1 is 4, must be above the position before it, 4");
  REQUIRE(cache == before);
}

TEST_CASE("allocators that break their promises are refused", "[front][evict]") {
  REQUIRE(refusal(ErrorKind::invalid_argument, policy, Evidence{}, Budget::rows(5), Protect{},
                  TooMany{}) ==
          "counts of head 0 is 11, must be in [0, rows of the head], rows = 10");
  REQUIRE(refusal(ErrorKind::invalid_argument, policy, Evidence{}, Budget::rows(5), Protect{},
                  Negative{}) ==
          "counts of head 0 is -5, must be in [0, rows of the head], rows = 10");
}

TEST_CASE("scores of another shape are refused", "[front][evict]") {
  Cache cache;
  TestResources res({.threads = 1});
  std::vector<float> scores(20, 1.0f);
  const kvevict::ScoreView<> other{scores.data(), kvevict::RowLayout<>::uniform(2, 9)};
  const std::string text =
      "scores is of another shape, must be one score for each row of each head";
  REQUIRE(refused([&] { score_rows(res, policy, cache.view(), {}, other); }) == text);
  Selection kept;
  REQUIRE(refused([&] { select_rows(res, kept, other, cache.view(), true, Budget::rows(3)); }) ==
          text);
}

TEST_CASE("a selection can be made from scores that one has", "[front][evict]") {
  Cache cache;
  TestResources res({.threads = 1});
  std::vector<float> scores(20);
  for (std::size_t i = 0; i < 20; ++i) scores[i] = static_cast<float>((i * 7) % 20);
  GivenScores same = policy;
  same.scores = scores;
  Selection kept;
  const kvevict::ScoreView<> view{scores.data(), kvevict::RowLayout<>::uniform(2, 10)};
  const Protect protect{.sinks = 3, .recent = 2};
  select_rows(res, kept, view, cache.view(), true, Budget::rows(6), protect);
  REQUIRE(kept == evict(res, same, cache.view(), {}, Budget::rows(6), protect));
  select_rows(res, kept, view, cache.view(), true, Budget::rows(6), protect, GlobalBudget{});
  REQUIRE(kept == evict(res, same, cache.view(), {}, Budget::rows(6), protect, GlobalBudget{}));
  REQUIRE(refused(
              [&] {
                select_rows(res, kept, view, cache.view(), false, Budget::rows(6), {},
                            GlobalBudget{});
              },
              ErrorKind::unsupported) != "nothing was thrown");
}

TEST_CASE("a view that reads the selection's own offsets cannot be evicted into it",
          "[front][evict]") {
  Cache cache;
  TestResources res({.threads = 1});
  Selection kept = evict(res, policy, cache.view(), {}, Budget::rows(6));
  const auto rows = kvevict::RowsView<float>::strided(cache.keys.data(), 2, 10, 3, 30, 3)
                        .with_layout(kept.layout());
  const KvView<float> compacted(rows, rows);
  const GivenScores twelve{.scores = std::vector<float>(12, 1.0f)};
  REQUIRE(refused([&] { evict_into(res, kept, twelve, compacted, {}, Budget::rows(2)); }) ==
          "kept is the selection whose offsets the cache view reads, must be another one");
  // Into another one it can.
  const Selection fewer = evict(res, twelve, compacted, {}, Budget::rows(2));
  REQUIRE(fewer.total() == 4);
  REQUIRE(kept.total() == 12);
}

}  // namespace evict_errors_test
