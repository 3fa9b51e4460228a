// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kvevict/core/budget.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/freed_pages.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// What the score of a block is of those of its rows.
enum class BlockReduction { mean, max };

/// How rows form blocks that are kept or freed as a whole. Heads whose rows lie in the same pages
/// decide together: head h belongs to unit (h / heads_together) % units, as heads find their page
/// tables.
struct BlockOptions {
  std::int64_t rows = 16;           ///< of a block; the last one of a head may be filled partly
  std::int64_t heads_together = 1;  ///< consecutive heads of a unit
  std::int64_t units = 0;           ///< 0: as many as the heads make
  BlockReduction reduction = BlockReduction::mean;

  /// Pages as blocks, and a unit for each table.
  template <MemorySpace S>
  static BlockOptions of(const PageTable<S>& table, const PageLayout& page,
                         BlockReduction reduction = BlockReduction::mean) {
    return {page.rows, table.heads_per_table, table.tables, reduction};
  }
};

namespace detail {

/// The units of a cache and how many rows the heads of each hold.
class BlockUnits {
 public:
  BlockUnits(const BlockOptions& options, const RowLayout<>& layout)
      : options_(options), layout_(layout) {
    require(options.rows >= 1, "blocks.rows", options.rows, ">=", 1);
    require(options.heads_together >= 1, "blocks.heads_together", options.heads_together, ">=", 1);
    require(options.units >= 0, "blocks.units", options.units, ">=", 0);
    require(layout.heads() % options.heads_together == 0, "cache.heads", layout.heads(),
            "a multiple of blocks.heads_together,", options.heads_together);
    const std::int64_t all = layout.heads() / options.heads_together;
    count_ = options.units == 0 ? all : std::min(options.units, all);
    for (std::int64_t h = 0; h < layout.heads(); ++h) {
      const std::int64_t first = of(h) * options.heads_together;
      require_for_head(layout.rows(h) == layout.rows(first), "rows", h, layout.rows(h),
                       "equal to those of the heads it decides with,", layout.rows(first));
    }
  }

  std::int64_t count() const { return count_; }
  std::int64_t of(std::int64_t head) const { return head / options_.heads_together % count_; }
  std::int64_t rows(std::int64_t unit) const {
    return layout_.rows(unit * options_.heads_together);
  }
  std::int64_t blocks(std::int64_t unit) const {
    return (rows(unit) + options_.rows - 1) / options_.rows;
  }
  /// Blocks of the longest unit.
  std::int64_t most_blocks() const {
    return (layout_.longest() + options_.rows - 1) / options_.rows;
  }
  /// Calls use(head) for the heads of a unit.
  template <class Use>
  void for_each_head(std::int64_t unit, Use&& use) const {
    for (std::int64_t first = unit * options_.heads_together; first < layout_.heads();
         first += count_ * options_.heads_together) {
      for (std::int64_t h = first; h < first + options_.heads_together; ++h) use(h);
    }
  }

 private:
  BlockOptions options_;
  RowLayout<> layout_;
  std::int64_t count_ = 0;
};

/// scores[block] over the rows of a unit's heads. A mean with a NaN is NaN; a maximum leaves NaN
/// out while there is a number.
inline std::int64_t score_blocks(const BlockUnits& units, std::int64_t unit,
                                 const BlockOptions& options, const ScoreView<>& rows,
                                 double* scores) {
  std::int64_t nans = 0;
  const std::int64_t n = units.rows(unit);
  for (std::int64_t b = 0; b < units.blocks(unit); ++b) {
    const std::int64_t begin = b * options.rows;
    const std::int64_t end = std::min(n, begin + options.rows);
    double sum = 0.0;
    double largest = std::numeric_limits<double>::quiet_NaN();
    std::int64_t heads = 0;
    units.for_each_head(unit, [&](std::int64_t h) {
      const float* of_head = rows.head(h);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto score = static_cast<double>(of_head[i]);
        nans += std::isnan(score) ? 1 : 0;
        sum += score;
        if (!(score <= largest) && !std::isnan(score)) largest = score;
      }
      ++heads;
    });
    scores[b] = options.reduction == BlockReduction::mean
                    ? sum / static_cast<double>(heads * (end - begin))
                    : largest;
  }
  return nans;
}

}  // namespace detail

/// Chooses whole blocks from scores of rows: kept.head(unit) are the numbers of the blocks that
/// survive, ascending. A unit keeps floor(share / rows of a block) blocks, all if its share is all
/// its rows: those with a protected row in any of its heads, and the best of the others by the mean
/// or the maximum of their rows' scores over all heads of the unit (descending, then the first;
/// NaN lowest). What is kept need not move: `keep_pages` takes the others out of the tables.
///
/// On the host, in one thread: which pages are free is what the host's page allocator asks. For a
/// device cache give host copies of the scores and of stored positions. O(rows + blocks log
/// blocks). Throws invalid_argument when heads of a unit differ in length and a budget error when
/// blocks with protected rows do not fit; `kept` is untouched then.
template <class R>
requires(R::space == MemorySpace::host)  //
    void select_blocks(R& res, Selection& kept, ScoreView<> scores, const Positions<>& positions,
                       const BlockOptions& options, const Budget& budget,
                       const Protect& protect = {}, std::int64_t row_bytes = 1) {
  const RowLayout<>& layout = scores.layout;
  const detail::BlockUnits units(options, layout);
  detail::require_scores(scores, layout, 1);
  require_valid(protect);
  require(layout.longest() <= max_rows_per_head, "rows", layout.longest(), "<=", max_rows_per_head);
  WorkspaceScope scope(res.host_workspace());
  const std::int64_t most = units.most_blocks();
  auto* shares = scope.template carve<std::int64_t>("select_blocks.shares", layout.heads());
  auto* counts = scope.template carve<std::int64_t>("select_blocks.counts", units.count());
  auto* held = scope.template carve<std::uint8_t>("select_blocks.held", units.count() * most);
  auto* block_scores = scope.template carve<double>("select_blocks.scores", most);
  auto* order = scope.template carve<std::int32_t>("select_blocks.order", most);
  if (res.workspace().counting()) return;
  budget.shares(layout, row_bytes, shares);
  for (std::int64_t u = 0; u < units.count(); ++u) {
    std::uint8_t* of_unit = held + u * most;
    std::fill_n(of_unit, most, std::uint8_t{0});
    std::int64_t share = units.rows(u);
    units.for_each_head(u, [&](std::int64_t h) {
      share = std::min(share, shares[h]);
      for_each_protected_range(protect, positions.row(h, layout), layout.rows(h),
                               [&](std::int64_t begin, std::int64_t end) {
                                 std::fill(of_unit + begin / options.rows,
                                           of_unit + (end - 1) / options.rows + 1, std::uint8_t{1});
                               });
    });
    counts[u] = share == units.rows(u) ? units.blocks(u) : share / options.rows;
    const auto protected_blocks =
        static_cast<std::int64_t>(std::count(of_unit, of_unit + units.blocks(u), 1));
    require_for_head(protected_blocks <= counts[u], "blocks with protected rows",
                     u * options.heads_together, protected_blocks,
                     "at most the whole blocks of its budget,", counts[u], ErrorKind::budget);
  }
  std::int32_t* out =
      kept.reshape(std::span<const std::int64_t>(counts, static_cast<std::size_t>(units.count())));
  Report report;
  for (std::int64_t u = 0; u < units.count(); ++u) {
    report.nan_scores += detail::score_blocks(units, u, options, scores, block_scores);
    const std::uint8_t* of_unit = held + u * most;
    for (std::int64_t b = 0; b < units.blocks(u); ++b) order[b] = static_cast<std::int32_t>(b);
    const auto before = [&](std::int32_t a, std::int32_t b) {
      if (of_unit[a] != of_unit[b]) return of_unit[a] > of_unit[b];
      const double x = block_scores[a];
      const double y = block_scores[b];
      if (std::isnan(x) || std::isnan(y))
        return std::isnan(x) == std::isnan(y) ? a < b : !std::isnan(x);
      return x != y ? x > y : a < b;
    };
    std::nth_element(order, order + counts[u], order + units.blocks(u), before);
    std::sort(order, order + counts[u]);
    out = std::copy_n(order, counts[u], out);
  }
  kept.set_report(report);
}

/// The rows of kept blocks: what state that is kept by row, such as positions or attention mass, is
/// compacted by. Refers to no cache.
inline Selection rows_of_blocks(const Selection& blocks, const RowLayout<>& layout,
                                const BlockOptions& options) {
  const detail::BlockUnits units(options, layout);
  require(blocks.heads() == units.count(), "blocks.units", blocks.heads(), "equal to",
          units.count());
  std::vector<std::int64_t> counts;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    std::int64_t count = 0;
    for (const std::int32_t b : blocks.head(units.of(h))) {
      count += std::min(options.rows, layout.rows(h) - b * options.rows);
    }
    counts.push_back(count);
  }
  Selection rows;
  std::int32_t* out = rows.reshape(counts);
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    for (const std::int32_t b : blocks.head(units.of(h))) {
      const std::int64_t begin = b * options.rows;
      const std::int64_t end = std::min(layout.rows(h), begin + options.rows);
      for (std::int64_t i = begin; i < end; ++i) *out++ = static_cast<std::int32_t>(i);
    }
  }
  return rows;
}

/// Takes the pages that are not kept out of the tables, where no row moves: the ids of kept pages
/// go to the front of each table, in order, and those of freed ones behind them. Returns the freed
/// pages of each table. `ids` are those of `table`, for writing; `blocks` has a unit for each table
/// (BlockOptions::of), `layout` the row counts before. Throws invalid_argument for blocks of
/// another cache; the tables are untouched then.
inline PageList keep_pages(const Selection& blocks, const PageTable<>& table, std::int32_t* ids,
                           std::int64_t page_rows, const RowLayout<>& layout) {
  const PageRows page(page_rows);
  detail::require_pages(table, page, layout);
  const std::vector<std::int64_t> used = detail::pages_in_use(table, page, layout);
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t pages : used) offsets.push_back(offsets.back() + pages);
  require_valid(blocks.view(), RowLayout<>::ragged(offsets.data(), table.tables));
  PageList freed;
  std::vector<std::int32_t> kept_ids;
  for (std::int64_t t = 0; t < table.tables; ++t) {
    std::int32_t* of_table = ids + t * table.stride;
    kept_ids.clear();
    const auto kept = blocks.head(t);
    auto next = kept.begin();
    for (std::int64_t b = 0; b < used[static_cast<std::size_t>(t)]; ++b) {
      const bool stays = next != kept.end() && *next == b;
      (stays ? kept_ids : freed.ids).push_back(of_table[b]);
      if (stays) ++next;
    }
    const std::int64_t first = freed.offsets.back();
    freed.offsets.push_back(static_cast<std::int64_t>(freed.ids.size()));
    const auto end = std::copy(kept_ids.begin(), kept_ids.end(), of_table);
    std::copy(freed.ids.begin() + first, freed.ids.end(), end);
  }
  return freed;
}

}  // namespace kvevict
