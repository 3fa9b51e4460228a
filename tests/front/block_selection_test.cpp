// SPDX-License-Identifier: Apache-2.0
// Blocks that are kept or freed as a whole, and which pages are free.
#include "kvevict/block_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/gather.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

using namespace kvevict_test;
using kvevict::BlockOptions;
using kvevict::BlockReduction;
using kvevict::Budget;
using kvevict::KvView;
using kvevict::PageList;
using kvevict::PageTable;
using kvevict::Protect;
using kvevict::RowLayout;
using kvevict::ScoreView;
using kvevict::Selection;
using HostPositions = kvevict::Positions<>;

namespace {

using Numbers = std::vector<std::vector<std::int32_t>>;

Numbers numbers_of(const PageList& pages) {
  Numbers numbers;
  for (std::size_t t = 0; t + 1 < pages.offsets.size(); ++t) {
    const auto of_table = pages.of(static_cast<std::int64_t>(t));
    numbers.emplace_back(of_table.begin(), of_table.end());
  }
  return numbers;
}

Selection kept_blocks(std::vector<float> scores, const RowLayout<>& layout,
                      const BlockOptions& options, const Budget& budget,
                      const Protect& protect = {},
                      const HostPositions& positions = HostPositions::consecutive()) {
  kvevict::CpuResources res({.threads = 1});
  Selection kept;
  kvevict::select_blocks(res, kept, ScoreView<>{scores.data(), layout}, positions, options, budget,
                         protect);
  return kept;
}

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("blocks are ranked by the mean or the maximum of their rows", "[front][blocks]") {
  // Blocks of 3 rows, the last one of a single row.
  const std::vector<float> scores = {1, 1, 1, 0, 9, 0, 2, 2, 3, 2.5f};
  const auto layout = RowLayout<>::uniform(1, 10);
  const BlockOptions mean{.rows = 3};
  const BlockOptions max{.rows = 3, .reduction = BlockReduction::max};
  REQUIRE(rows_of(kept_blocks(scores, layout, mean, Budget::rows(3))) == Numbers{{1}});
  REQUIRE(rows_of(kept_blocks(scores, layout, mean, Budget::rows(6))) == Numbers{{1, 3}});
  REQUIRE(rows_of(kept_blocks(scores, layout, mean, Budget::rows(9))) == Numbers{{1, 2, 3}});
  REQUIRE(rows_of(kept_blocks(scores, layout, max, Budget::rows(6))) == Numbers{{1, 2}});
  // Whole blocks within the budget: all only for a budget of all rows.
  REQUIRE(rows_of(kept_blocks(scores, layout, mean, Budget::rows(8))) == Numbers{{1, 3}});
  REQUIRE(rows_of(kept_blocks(scores, layout, mean, Budget::rows(2))) == Numbers{{}});
  REQUIRE(rows_of(kept_blocks(scores, layout, mean, Budget::rows(10))) == Numbers{{0, 1, 2, 3}});
  REQUIRE(rows_of(kept_blocks(scores, layout, mean, Budget::evict_ratio(0.0))) ==
          Numbers{{0, 1, 2, 3}});
}

TEST_CASE("equal blocks keep the first, NaN ranks lowest", "[front][blocks]") {
  const auto layout = RowLayout<>::uniform(1, 8);
  const BlockOptions mean{.rows = 2};
  REQUIRE(rows_of(kept_blocks(std::vector<float>(8, 1.0f), layout, mean, Budget::rows(4))) ==
          Numbers{{0, 1}});
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> scores = {not_a_number, 5, -inf, -1, not_a_number, not_a_number, -2, -2};
  const Selection kept = kept_blocks(scores, layout, mean, Budget::rows(4));
  REQUIRE(rows_of(kept) == Numbers{{1, 3}});
  REQUIRE(kept.report().nan_scores == 3);
  // A maximum leaves NaN out while there is a number.
  REQUIRE(rows_of(kept_blocks(scores, layout, {.rows = 2, .reduction = BlockReduction::max},
                              Budget::rows(6))) == Numbers{{0, 1, 3}});
}

TEST_CASE("blocks with a protected row are kept", "[front][blocks]") {
  const std::vector<float> scores = {0, 0, 5, 5, 0, 0, 9, 9, 0, 0, 0};
  const auto layout = RowLayout<>::uniform(1, 11);
  const BlockOptions blocks{.rows = 2};
  REQUIRE(rows_of(kept_blocks(scores, layout, blocks, Budget::rows(6),
                              {.sinks = 1, .recent = 1})) == Numbers{{0, 3, 5}});
  const kvevict::PositionSpan spans[] = {{5, 7}};
  REQUIRE(rows_of(kept_blocks(scores, layout, blocks, Budget::rows(4), {.spans = spans})) ==
          Numbers{{2, 3}});
  // Named by position, not by row.
  const std::vector<std::int32_t> positions = {0, 7, 8, 9, 20, 21, 22, 23, 24, 25, 26};
  REQUIRE(rows_of(kept_blocks(scores, layout, blocks, Budget::rows(4), {.sinks = 9},
                              HostPositions::shared(positions.data()))) == Numbers{{0, 1}});
}

TEST_CASE("heads that share a table decide together", "[front][blocks]") {
  // Two sequences of two heads, 4 and 6 rows.
  const std::vector<std::int64_t> offsets = {0, 4, 8, 14, 20};
  const auto layout = RowLayout<>::ragged(offsets.data(), 4);
  const std::vector<float> scores = {9, 9, 0, 0,        //
                                     0, 0, 8, 8,        //
                                     1, 1, 2, 2, 3, 3,  //
                                     9, 9, 0, 0, 0, 0};
  REQUIRE(rows_of(kept_blocks(scores, layout, {.rows = 2, .heads_together = 2}, Budget::rows(2))) ==
          Numbers{{0}, {0}});
  REQUIRE(rows_of(kept_blocks(scores, layout, {.rows = 2}, Budget::rows(2))) ==
          Numbers{{0}, {1}, {2}, {0}});
  // Layers that share the tables of their sequences: heads 0 and 1 with 2 and 3.
  const auto even = RowLayout<>::uniform(4, 4);
  const std::vector<float> layers = {0, 0, 1, 1, 5, 5, 0, 0,  //
                                     3, 3, 1, 1, 0, 0, 1, 1};
  const BlockOptions by_table{.rows = 2, .heads_together = 1, .units = 2};
  REQUIRE(rows_of(kept_blocks(layers, even, by_table, Budget::rows(2))) == Numbers{{0}, {0}});
  const BlockOptions of_table =
      BlockOptions::of(PageTable<>{nullptr, 2, 4, 1, 9}, kvevict::PageLayout::nhd(2, 1, 8));
  REQUIRE(of_table.rows == 2);
  REQUIRE(of_table.units == 2);
  REQUIRE(of_table.heads_together == 1);
}

TEST_CASE("blocks agree with a sort over all units and sizes", "[front][blocks]") {
  for (const std::int64_t rows : {1, 15, 16, 17, 100, 130}) {
    for (const std::int64_t size : {1, 3, 16, 64, 200}) {
      const auto layout = RowLayout<>::uniform(6, rows);
      const std::vector<float> scores =
          random_values(Shape::normal, 6 * rows, static_cast<std::uint64_t>(rows * 300 + size));
      for (const std::int64_t share : {std::int64_t{0}, rows / 3, rows - 1, rows}) {
        const Selection kept =
            kept_blocks(scores, layout, {.rows = size, .heads_together = 3}, Budget::rows(share));
        const std::int64_t blocks = (rows + size - 1) / size;
        for (std::int64_t u = 0; u < 2; ++u) {
          std::vector<std::pair<double, std::int32_t>> ranked;
          for (std::int64_t b = 0; b < blocks; ++b) {
            double sum = 0;
            const std::int64_t end = std::min(rows, (b + 1) * size);
            for (std::int64_t h = 3 * u; h < 3 * u + 3; ++h) {
              for (std::int64_t i = b * size; i < end; ++i) {
                sum += static_cast<double>(scores[static_cast<std::size_t>(h * rows + i)]);
              }
            }
            ranked.emplace_back(-sum / static_cast<double>(3 * (end - b * size)),
                                static_cast<std::int32_t>(b));
          }
          std::sort(ranked.begin(), ranked.end());
          ranked.resize(static_cast<std::size_t>(share == rows ? blocks : share / size));
          std::vector<std::int32_t> want;
          for (const auto& [score, block] : ranked) want.push_back(block);
          std::sort(want.begin(), want.end());
          INFO("rows " << rows << ", blocks of " << size << ", share " << share);
          REQUIRE(rows_of(kept)[static_cast<std::size_t>(u)] == want);
        }
      }
    }
  }
}

TEST_CASE("blocks that cannot be chosen are refused", "[front][blocks]") {
  const std::vector<std::int64_t> offsets = {0, 4, 9};
  const auto uneven = RowLayout<>::ragged(offsets.data(), 2);
  const std::vector<float> scores(9, 0.0f);
  Selection kept = selection_of({{7}});
  kvevict::CpuResources res({.threads = 1});
  std::vector<float> memory = scores;
  const auto problem = [&](const BlockOptions& options, const Protect& protect,
                           kvevict::ErrorKind kind = kvevict::ErrorKind::invalid_argument) {
    const std::string text = refused(
        [&] {
          kvevict::select_blocks(res, kept, ScoreView<>{memory.data(), uneven},
                                 HostPositions::consecutive(), options, Budget::rows(4), protect);
        },
        kind);
    REQUIRE(rows_of(kept) == Numbers{{7}});
    return text;
  };
  REQUIRE(problem({.rows = 2, .heads_together = 2}, {}) ==
          "rows of head 1 is 5, must be equal to those of the heads it decides with, 4");
  REQUIRE(problem({.rows = 0}, {}) == "blocks.rows is 0, must be >= 1");
  REQUIRE(problem({.rows = 2, .heads_together = 3}, {}) ==
          "cache.heads is 2, must be a multiple of blocks.heads_together, 3");
  REQUIRE(problem({.rows = 2, .heads_together = 0}, {}) ==
          "blocks.heads_together is 0, must be >= 1");
  // Three rows at the end of five lie in two blocks, with the sink in three.
  REQUIRE(problem({.rows = 2}, {.sinks = 1, .recent = 3}, kvevict::ErrorKind::budget) ==
          "blocks with protected rows of head 1 is 3, must be at most the whole blocks of its "
          "budget, 2");
}

TEST_CASE("a page is free when no head needs it", "[front][blocks]") {
  const std::vector<std::int32_t> ids = {5, 2, 7, -1, 1, 0, 3, -1};
  const PageTable<> table{ids.data(), 2, 4, 2, 8};
  const std::vector<std::int64_t> before = {0, 40, 80, 96, 112};
  const auto cache = RowLayout<>::ragged(before.data(), 4);
  const auto freed = [&](const std::vector<std::int64_t>& rows) {
    std::vector<std::int64_t> offsets = {0};
    for (const std::int64_t n : rows) offsets.push_back(offsets.back() + n);
    return numbers_of(
        kvevict::freed_pages(table, 16, cache, RowLayout<>::ragged(offsets.data(), 4)));
  };
  REQUIRE(freed({40, 40, 16, 16}) == Numbers{{}, {}});
  // One of 16 rows frees nothing; the last of a page does, if no other head has rows there.
  REQUIRE(freed({39, 39, 15, 15}) == Numbers{{}, {}});
  REQUIRE(freed({32, 33, 16, 16}) == Numbers{{}, {}});
  REQUIRE(freed({32, 32, 16, 16}) == Numbers{{7}, {}});
  REQUIRE(freed({16, 3, 0, 0}) == Numbers{{2, 7}, {1}});
  REQUIRE(freed({0, 0, 0, 1}) == Numbers{{5, 2, 7}, {}});
  REQUIRE(refused([&] {
            freed({41, 40, 16, 16});
          }) == "selection.count of head 0 is 41, must be at most the head's rows, 40");
}

TEST_CASE("keeping pages moves no row", "[front][blocks]") {
  constexpr std::int64_t page_rows = 4;
  constexpr std::int64_t dim = 8;
  // Two sequences of two heads, 14 and 9 rows.
  std::vector<std::int32_t> ids = {6, 0, 3, 5, 2, 1, 4, -1};
  const PageTable<> table{ids.data(), 2, 4, 2, 7};
  const std::vector<std::int64_t> offsets = {0, 14, 28, 37, 46};
  const auto layout = RowLayout<>::ragged(offsets.data(), 4);
  std::vector<float> k = random_values(Shape::normal, 7 * page_rows * 2 * dim, 1);
  std::vector<float> v = random_values(Shape::normal, 7 * page_rows * 2 * dim, 2);
  const auto view = [&](const RowLayout<>& of) {
    return KvView<float>::paged_nhd(k.data(), v.data(), table, of, page_rows, 2, dim);
  };
  const BlockOptions options = BlockOptions::of(table, kvevict::PageLayout::nhd(page_rows, 2, dim));
  const Selection blocks = kept_blocks(random_values(Shape::normal, 46, 3), layout, options,
                                       Budget::rows(8), {.recent = 1});
  REQUIRE(blocks.count(0) == 2);
  const Selection rows = kvevict::rows_of_blocks(blocks, layout, options);
  // What a compaction by rows would leave.
  std::vector<float> want(static_cast<std::size_t>(rows.total() * dim));
  const auto want_rows = kvevict::RowsView<float>::packed(want.data(), rows.layout(), dim, dim);
  TestResources res({.threads = 1});
  gather_rows(res, rows.view(), kvevict::RowsView<const float>(view(layout).keys()), want_rows);
  const std::vector<float> before = k;
  const std::vector<std::int32_t> old_ids = ids;
  const PageList freed = kvevict::keep_pages(blocks, table, ids.data(), page_rows, layout);
  REQUIRE(k == before);
  for (std::int64_t t = 0; t < 2; ++t) {
    // Every page is either kept or freed.
    auto pages = std::vector<std::int32_t>(ids.begin() + 4 * t, ids.begin() + 4 * t + 4);
    auto old = std::vector<std::int32_t>(old_ids.begin() + 4 * t, old_ids.begin() + 4 * t + 4);
    const std::int64_t kept = blocks.count(t);
    const std::vector<std::int32_t> behind(
        pages.begin() + kept, pages.begin() + kept + static_cast<std::int64_t>(freed.of(t).size()));
    REQUIRE(behind == std::vector<std::int32_t>(freed.of(t).begin(), freed.of(t).end()));
    std::sort(pages.begin(), pages.end());
    std::sort(old.begin(), old.end());
    REQUIRE(pages == old);
  }
  const auto now = view(rows.layout());
  for (std::int64_t h = 0; h < 4; ++h) {
    for (std::int64_t j = 0; j < rows.count(h); ++j) {
      REQUIRE(std::memcmp(now.keys().head(h).row(j), want_rows.head(h).row(j),
                          dim * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("blocks of another cache are refused and tables stay", "[front][blocks]") {
  std::vector<std::int32_t> ids = {3, 1, 0, 2};
  const std::vector<std::int32_t> before = ids;
  const PageTable<> table{ids.data(), 2, 2, 1, 4};
  const auto layout = RowLayout<>::uniform(2, 7);
  const auto problem = [&](const Selection& blocks) {
    const std::string text =
        refused([&] { kvevict::keep_pages(blocks, table, ids.data(), 4, layout); });
    REQUIRE(ids == before);
    return text;
  };
  REQUIRE(problem(selection_of({{0}})) == "selection.heads is 1, must be equal to 2");
  REQUIRE(problem(selection_of({{0}, {2}})) ==
          "selection.index of head 1 is 2, must be below the head's rows, 2");
  REQUIRE(refused([&] { kvevict::rows_of_blocks(selection_of({{0}}), layout, {.rows = 4}); }) ==
          "blocks.units is 1, must be equal to 2");
}
