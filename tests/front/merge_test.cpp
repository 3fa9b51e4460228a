// SPDX-License-Identifier: Apache-2.0
// Merging between selection and compaction.
#include "kvevict/merge.hpp"

#include <cstring>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/merge_rows.hpp"
#include "support/backend.hpp"

namespace merge_test {

using namespace kvevict_test;
using kvevict::KvView;
using kvevict::Selection;
using WritablePositions = kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>;

namespace {

// Two heads of four rows of two channels; in each row 3 is parallel to row 1.
struct Cache {
  std::vector<float> keys = {1, 0, 0, 1, -1, 0, 0, 2, 0, 1, 1, 0, 0, -1, 3, 0};
  std::vector<float> values = {1, 0, 0, 1, 2, 0, 0, 3, 5, 0, 0, 5, 6, 0, 0, 5};
  std::vector<std::int32_t> positions = {0, 2, 4, 9, 1, 2, 3, 7};
  std::vector<float> attention = {1, 1, 0, 2, 1, 1, 0, 2};

  KvView<float> view() {
    return KvView<float>::hnd(keys.data(), values.data(), 2, 4, 2)
        .with_positions(WritablePositions::packed(positions.data()));
  }
  kvevict::ScoreView<> received() { return {attention.data(), view().layout()}; }
  friend bool operator==(const Cache&, const Cache&) = default;
};

const Selection kept = selection_of({{0, 1}, {0, 3}});

}  // namespace

TEST_CASE("evict, merge, compact", "[front][merge]") {
  Cache cache;
  TestResources res({.threads = 2});
  merge_evicted(res, kept, cache.view());
  compact(res, kept, cache.view());
  // Head 0: row 3 of length 3 into row 1 of length 1; row 2 has no positive cosine. Head 1: row 1
  // into row 3, which is as long.
  const float merged = (1 + 0.75f * 3) / 1.75f;
  REQUIRE(cache.values[0] == 1.0f);
  REQUIRE(cache.values[3] == Approx(merged).epsilon(1e-6));
  REQUIRE(cache.values[8] == 5.0f);
  REQUIRE(cache.values[11] == Approx(5).epsilon(1e-6));
  REQUIRE(std::vector<float>(cache.keys.begin(), cache.keys.begin() + 4) ==
          std::vector<float>{1, 0, 0, 1});
  REQUIRE(std::vector<std::int32_t>(cache.positions.begin() + 4, cache.positions.begin() + 6) ==
          std::vector<std::int32_t>{1, 7});
}

TEST_CASE("evicted values go on to the rows behind", "[front][merge]") {
  Cache cache;
  TestResources res({.threads = 2});
  // Row 3 of head 0 has no kept row behind it; in head 1 row 1 goes into row 3 if it is drawn,
  // with probability 1 / 2, and row 2 never.
  int drawn = 0;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    Cache now;
    merge_following(res, kept, now.view(), now.received(), {.seed = seed});
    Cache want;
    if (now.values[15] != want.values[15]) {
      want.values[15] = 10;
      ++drawn;
    }
    REQUIRE(now == want);
  }
  // 64 draws: a standard deviation of 4.
  REQUIRE(drawn > 12);
  REQUIRE(drawn < 52);
}

TEST_CASE("nothing evicted or nothing kept: nothing is merged", "[front][merge]") {
  TestResources res({.threads = 1});
  for (const Selection& all : {selection_of({{0, 1, 2, 3}, {}}), selection_of({{}, {}})}) {
    Cache cache;
    merge_evicted(res, all, cache.view());
    merge_following(res, all, cache.view(), cache.received());
    REQUIRE(cache == Cache());
  }
}

TEST_CASE("a merge that is refused changes nothing", "[front][merge]") {
  TestResources res({.threads = 1});
  Cache cache;
  const auto similar = [&](const Selection& rows, const kvevict::MergeOptions& options = {}) {
    return refused([&] { merge_evicted(res, rows, cache.view(), options); });
  };
  const auto following = [&](const Selection& rows, kvevict::ScoreView<> attention) {
    return refused([&] { merge_following(res, rows, cache.view(), attention); });
  };
  REQUIRE(similar(selection_of({{0}})) == "selection.heads is 1, must be equal to 2");
  REQUIRE(similar(selection_of({{0}, {4}})) ==
          "selection.index of head 1 is 4, must be below the head's rows, 4");
  REQUIRE(similar(kept, {.threshold = 2}) == "threshold is 2, must be in [0, 1]");
  REQUIRE(following(selection_of({{1, 0}, {}}), cache.received()) ==
          "selection.index of head 0 is 0, must be above the index before it, 1");
  REQUIRE(following(kept, {}) ==
          "attention is of another shape, must be one score for each row of "
          "each head");
  REQUIRE(following(kept, {nullptr, cache.view().layout()}) ==
          "attention is null, must be a pointer to scores");
  // Both heads write to the same page.
  const std::vector<std::int32_t> ids = {0, 0};
  const auto paged = KvView<float>::paged_hnd(
      cache.keys.data(), cache.values.data(),
      {.ids = ids.data(), .tables = 1, .stride = 2, .heads_per_table = 2, .pages = 2},
      kvevict::RowLayout<>::uniform(2, 4), 2, 2, 2);
  REQUIRE(refused([&] {
            merge_evicted(res, kept, paged);
          }).rfind("page_table[1] of head 0 is 0, must be another page", 0) == 0);
  REQUIRE(cache == Cache());
}

TEST_CASE("quantised values are not merged", "[front][merge]") {
  TestResources res({.threads = 1});
  std::vector<kvevict::q4_0> rows(2 * 4);
  const std::vector<kvevict::q4_0> before = rows;
  const auto cache = KvView<kvevict::q4_0>::hnd(rows.data(), rows.data(), 2, 4, 32);
  std::vector<float> received(2 * 4, 1.0f);
  const auto unsupported = kvevict::ErrorKind::unsupported;
  const std::string text = "values is quantised, must be float, half or bfloat16 to be changed";
  REQUIRE(refused([&] { merge_evicted(res, kept, cache); }, unsupported) == text);
  REQUIRE(refused(
              [&] {
                merge_following(res, kept, cache, {received.data(), cache.layout()});
              },
              unsupported) == text);
  REQUIRE(std::memcmp(rows.data(), before.data(), rows.size() * sizeof(rows[0])) == 0);
}

}  // namespace merge_test
