// SPDX-License-Identifier: Apache-2.0
// Heads of one view whose tables name the same pages: what may be moved in place, and what not.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/copy_rows.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/merge_rows.hpp"
#include "kvevict/cpu/rerotate_keys.hpp"
#include "kvevict/merge.hpp"
#include "kvevict/ops/rerotate_keys.hpp"
#include "kvevict/refit.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

using namespace kvevict_test;
using kvevict::KvView;
using kvevict::RowLayout;
using kvevict::RowsView;
using kvevict::Selection;

namespace {

using Rows = std::vector<std::int32_t>;

// A pool of 16 pages of 3 rows, each with rows of `in_page` heads, and heads that read it.
struct Pool {
  static constexpr std::int64_t page_rows = 3;
  static constexpr std::int64_t stride = 4;
  static constexpr std::int64_t dim = 2;
  static constexpr std::int64_t pages = 16;

  std::int64_t in_page;
  std::vector<std::int32_t> ids;      // [tables][stride]
  std::vector<std::int64_t> offsets;  // of the heads' rows
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<std::int32_t> positions;

  Pool(std::int64_t heads_in_page, std::vector<std::int32_t> tables,
       const std::vector<std::int64_t>& rows)
      : in_page(heads_in_page), ids(std::move(tables)), offsets{0} {
    for (const std::int64_t count : rows) {
      for (std::int32_t i = 0; i < count; ++i) positions.push_back(i);
      offsets.push_back(offsets.back() + count);
    }
    for (std::int64_t i = 0; i < pages * page_rows * in_page * dim; ++i) {
      keys.push_back(static_cast<float>(i));
      values.push_back(static_cast<float>(-i));
    }
  }

  std::int64_t heads() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t rows(std::int64_t h) const {
    return offsets[static_cast<std::size_t>(h) + 1] - offsets[static_cast<std::size_t>(h)];
  }
  std::int64_t tables() const { return static_cast<std::int64_t>(ids.size()) / stride; }
  RowLayout<> layout() const { return RowLayout<>::ragged(offsets.data(), heads()); }
  kvevict::PageTable<> table() const { return {ids.data(), tables(), stride, in_page, pages}; }
  KvView<float> view() {
    return KvView<float>::paged_nhd(keys.data(), values.data(), table(), layout(), page_rows,
                                    in_page, dim)
        .with_positions(kvevict::MutablePositions<>::packed(positions.data()));
  }
  std::int32_t page(std::int64_t h, std::int64_t row) const {
    const std::int64_t entry = h / in_page % tables() * stride + row / page_rows;
    return ids[static_cast<std::size_t>(entry)];
  }
  friend bool operator==(const Pool&, const Pool&) = default;
};

// The kept rows of every head, [head][row][dim].
std::vector<std::vector<float>> copies(const RowsView<float>& rows, const Selection& kept) {
  std::vector<std::vector<float>> out;
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    auto& head = out.emplace_back();
    for (const std::int32_t row : kept.head(h)) {
      for (std::int64_t c = 0; c < rows.dim(); ++c) head.push_back(rows.head(h)(row, c));
    }
  }
  return out;
}

Selection fronts(const Selection& kept) {
  std::vector<Rows> rows;
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    rows.push_back(rows_from(0, static_cast<std::int32_t>(kept.count(h))));
  }
  return selection_of(rows);
}

// What an error may say: every row that would be moved into a page of another head.
std::set<std::string> conflicts(const Pool& pool, const Selection& kept) {
  std::set<std::string> found;
  const auto text = [](auto number) { return std::to_string(number); };
  for (std::int64_t h = 0; h < pool.heads(); ++h) {
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      if (kept.head(h)[static_cast<std::size_t>(j)] == j) continue;
      for (std::int64_t g = 0; g < pool.heads(); ++g) {
        for (std::int64_t i = 0; i < pool.rows(g); ++i) {
          const bool together = g != h && g % pool.in_page == h % pool.in_page;
          if (!together || pool.page(g, i) != pool.page(h, j)) continue;
          found.insert("page_table[" + text(j / Pool::page_rows) + "] of head " + text(h) + " is " +
                       text(pool.page(h, j)) +
                       ", must be another page, since rows are written, than that of entry " +
                       text(i / Pool::page_rows) + " of head " + text(g));
        }
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a common prefix may be read by several sequences that are evicted",
          "[front][compact][paged]") {
  // Two sequences of two heads. Pages 7 and 2 are the prefix of both, 6 rows.
  const std::vector<std::int32_t> tables = {7, 2, 5, 1, 7, 2, 9, 0};
  Pool pool(2, tables, {12, 12, 11, 12});
  TestResources res({.threads = 2});

  // All of it is kept, and what lies behind moves.
  const Rows some = {0, 1, 2, 3, 4, 5, 8, 10};
  Selection kept = selection_of({some, some, some, some});
  const auto keys = copies(pool.view().keys(), kept);
  const auto values = copies(pool.view().values(), kept);
  compact(res, kept, pool.view());
  CHECK(copies(pool.view().keys(), fronts(kept)) == keys);
  CHECK(copies(pool.view().values(), fronts(kept)) == values);

  // A front of it is kept and nothing behind: no row moves. The other sequence still reads it.
  Pool shorter(2, tables, {12, 12, 11, 12});
  kept = selection_of({{0, 1}, {}, some, rows_from(0, 12)});
  const auto before = copies(shorter.view().keys(), kept);
  compact(res, kept, shorter.view());
  CHECK(copies(shorter.view().keys(), fronts(kept)) == before);

  // One row of one head is moved into the prefix.
  const Pool untouched = pool;
  kept = selection_of({some, some, some, {0, 1, 2, 3, 5}});
  CHECK(refused([&] { compact(res, kept, pool.view()); }) ==
        "page_table[1] of head 3 is 2, must be another page, since rows are written, than that of "
        "entry 1 of head 1");
  CHECK(pool == untouched);
}

TEST_CASE("tables of any kind: what is moved is right, or refused and untouched",
          "[front][compact][paged]") {
  const Random random(77);
  std::uint64_t next = 0;
  const auto drawn = [&](std::int64_t count) { return random.integer(next++, count); };
  TestResources res({.threads = 2});
  int moved = 0;
  int refusals = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t in_page = 1 + drawn(3);
    const std::int64_t tables = 1 + drawn(3);
    // More heads than tables: those of a second layer in the same pool.
    const std::int64_t heads = in_page * (tables + (drawn(6) == 0 ? 1 : 0));
    // Pages of few ids, so that some are shared; no table names one twice.
    const std::int64_t of = 6 + drawn(11);
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < tables; ++t) {
      const auto order = random_permutation(std::min(of, Pool::pages), next++);
      for (std::size_t i = 0; i < Pool::stride; ++i) {
        ids.push_back(static_cast<std::int32_t>(order[i]));
      }
      // A prefix of the first table.
      for (std::int64_t i = drawn(3); t > 0 && i > 0; --i) {
        const auto entry = ids.end() - Pool::stride + (i - 1);
        const std::int32_t shared = ids[static_cast<std::size_t>(i - 1)];
        std::replace(ids.end() - Pool::stride, ids.end(), shared, *entry);
        *entry = shared;
      }
    }
    std::vector<std::int64_t> rows;
    std::vector<Rows> chosen;
    for (std::int64_t h = 0; h < heads; ++h) {
      rows.push_back(drawn(Pool::stride * Pool::page_rows + 1));
      const std::int64_t front = drawn(rows.back() + 1);
      const std::int64_t density = 1 + drawn(3);
      Rows& head = chosen.emplace_back();
      for (std::int32_t i = 0; i < rows.back(); ++i) {
        if (i < front || drawn(4) >= density) head.push_back(i);
      }
    }
    Pool pool(in_page, ids, rows);
    const Selection kept = selection_of(chosen);
    const std::set<std::string> problems = conflicts(pool, kept);
    INFO("round " << round);
    if (problems.empty()) {
      const auto keys = copies(pool.view().keys(), kept);
      const auto values = copies(pool.view().values(), kept);
      compact(res, kept, pool.view());
      REQUIRE(copies(pool.view().keys(), fronts(kept)) == keys);
      REQUIRE(copies(pool.view().values(), fronts(kept)) == values);
      ++moved;
    } else {
      const Pool before = pool;
      REQUIRE(problems.count(refused([&] { compact(res, kept, pool.view()); })) == 1);
      REQUIRE(pool == before);
      ++refusals;
    }
  }
  CHECK(moved > 300);
  CHECK(refusals > 300);
}

TEST_CASE("layers that share tables have pools of their own", "[front][compact][paged]") {
  Pool pool(1, {3, 1, 4, 2}, {12, 12});
  std::vector<float> second = pool.keys;
  const Selection kept = selection_of({{2, 5, 11}, {0, 4}});
  TestResources res({.threads = 1});
  const auto of = [&](float* first_base, float* second_base) {
    const std::vector<float*> bases = {first_base, second_base};
    const auto page = kvevict::PageLayout::nhd(Pool::page_rows, 1, Pool::dim);
    const auto rows =
        RowsView<float>::paged_per_head(bases.data(), page, pool.table(), pool.layout(), Pool::dim);
    const KvView<float> cache(rows, rows);
    return refused([&] { compact(res, kept, cache); });
  };
  CHECK(of(pool.keys.data(), second.data()) == "nothing was thrown");
  CHECK(of(pool.keys.data(), pool.keys.data()) ==
        "page_table[0] of head 0 is 3, must be another page, since rows are written, than that of "
        "entry 0 of head 1");
}

TEST_CASE("pages shared by the values alone", "[front][compact][paged]") {
  Pool pool(1, {0, 1, 2, 3, 4, 5, 6, 7}, {12, 12});
  const std::vector<std::int32_t> others = {0, 1, 2, 3, 4, 1, 6, 7};
  const auto page = kvevict::PageLayout::nhd(Pool::page_rows, 1, Pool::dim);
  const auto values = RowsView<float>::paged(pool.values.data(), page,
                                             {others.data(), 2, Pool::stride, 1, Pool::pages},
                                             pool.layout(), Pool::dim);
  const KvView<float> cache(pool.view().keys(), values);
  const Pool before = pool;
  TestResources res({.threads = 1});
  CHECK(refused([&] {
          compact(res, selection_of({{0, 1, 2, 4}, rows_from(0, 12)}), cache);
        }) ==
        "page_table[1] of head 0 is 1, must be another page, since rows are written, than that of "
        "entry 1 of head 1");
  CHECK(pool == before);
}

TEST_CASE("shared pages are not merged into, refitted or copied to", "[front][merge][paged]") {
  // Page 7 is the first of both.
  Pool pool(1, {7, 2, 5, 1, 7, 3, 9, 0}, {12, 12});
  const Pool before = pool;
  TestResources res({.threads = 1});
  const std::string shared =
      "page_table[0] of head 0 is 7, must be another page, since rows are written, than that of "
      "entry 0 of head 1";
  // The first page stays where it is, and so compaction alone may run; its values would change.
  const Rows some = {0, 1, 2, 5, 6};
  const Selection kept = selection_of({some, some});
  CHECK(refused([&] { kvevict::merge_evicted(res, kept, pool.view()); }) == shared);
  const std::vector<float> attention(24, 1.0f);
  std::vector<float> copy = attention;
  const kvevict::ScoreView<> mass{copy.data(), pool.layout()};
  CHECK(refused([&] { kvevict::merge_following(res, kept, pool.view(), mass); }) == shared);
  std::vector<float> refitted(10 * Pool::dim, 1.0f);
  const auto rows = RowsView<float>::packed(refitted.data(), kept.layout(), Pool::dim, Pool::dim);
  CHECK(refused([&] {
          kvevict::compact_refitted(res, kept, pool.view(), {rows, rows});
        }) == shared);
  std::vector<float> source(24 * Pool::dim, 1.0f);
  const auto from = KvView<const float>::hnd(source.data(), source.data(), 2, 12, Pool::dim);
  const Selection all = selection_of({rows_from(0, 12), rows_from(0, 12)});
  CHECK(refused([&] { kvevict::compact_into(res, all, from, pool.view()); }) == shared);
  CHECK(pool == before);

  // Where the rows of the page are evicted, or nothing is, it is not merged into.
  const Selection behind = selection_of({{4, 6}, rows_from(0, 12)});
  CHECK_NOTHROW(kvevict::merge_evicted(res, behind, pool.view()));
  CHECK(std::equal(pool.keys.begin(), pool.keys.end(), before.keys.begin()));
  const auto page = pool.values.begin() + 7 * Pool::page_rows * Pool::dim;
  CHECK(std::equal(page, page + Pool::page_rows * Pool::dim,
                   before.values.begin() + 7 * Pool::page_rows * Pool::dim));
}

TEST_CASE("keys do not turn in a page that another head reads", "[front][rerotate][paged]") {
  // Page 7 is the first of both: a common prefix.
  Pool pool(1, {7, 2, 5, 1, 7, 3, 9, 0}, {12, 12});
  const Pool before = pool;
  TestResources res({.threads = 1});
  const kvevict::Rope rope{.theta = 100.0};
  using kvevict::Positions;
  const auto turn = [&](const std::vector<std::int32_t>& to) {
    return refused([&] {
      kvevict::rerotate_keys(res, pool.view().keys(), Positions<>::consecutive(),
                             Positions<>::shared(to.data()), rope);
    });
  };
  CHECK(turn({0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) ==
        "page_table[0] of head 0 is 7, must be another page, since rows are written, than that of "
        "entry 0 of head 1");
  CHECK(pool == before);
  // The prefix stays where it is, what follows turns, in pages of its own.
  CHECK(turn({0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12}) == "nothing was thrown");
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t row = 0; row < 12; ++row) {
      const auto at = static_cast<std::size_t>(
          (pool.page(h, row) * Pool::page_rows + row % Pool::page_rows) * Pool::dim);
      CHECK((pool.keys[at] == before.keys[at]) == (row < 3));
    }
  }
  // A page that one head names twice.
  Pool twice(1, {7, 2, 7, 1}, {12});
  CHECK(refused([&] {
          kvevict::rerotate_keys(res, twice.view().keys(), Positions<>::consecutive(),
                                 Positions<>::consecutive(1), rope);
        }) ==
        "page_table[2] of head 0 is 7, must be another page, since rows are written, than "
        "that of entry 0");
}
