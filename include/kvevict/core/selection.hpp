// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kvevict/core/error.hpp"
#include "kvevict/core/row_layout.hpp"

namespace kvevict {

/// What happened inside a call that the result alone does not show.
struct Report {
  /// Scores that were NaN; such rows rank below all others.
  std::int64_t nan_scores = 0;
  /// Capacity matrices whose weights all underflowed to zero: the scores of these (query or KV)
  /// heads are all zero.
  std::int64_t zero_capacity_heads = 0;
  /// Capacity matrices that were not positive definite to working precision (NaN or infinite
  /// input): zero scores.
  std::int64_t failed_factorizations = 0;

  friend bool operator==(const Report&, const Report&) = default;
};

/// Non-owning view of a selection: row counts and offsets as a layout, and the indices.
template <MemorySpace S = MemorySpace::host>
struct SelectionView {
  RowLayout<S> layout;
  const std::int32_t* indices = nullptr;  ///< [layout.total()]

  KVEVICT_HOST_DEVICE std::int64_t heads() const { return layout.heads(); }
  KVEVICT_HOST_DEVICE std::int64_t count(std::int64_t head) const { return layout.rows(head); }
  KVEVICT_HOST_DEVICE const std::int32_t* head(std::int64_t head) const {
    return indices + layout.offset(head);
  }
};

/// Which rows survive: for each head the ascending, unique indices of the rows to keep (row numbers
/// within the head's cache, not positions), all heads one after another at `offsets`. Heads may
/// keep different numbers of rows.
class Selection {
 public:
  std::int64_t heads() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t count(std::int64_t head) const {
    return offsets_[index(head) + 1] - offsets_[index(head)];
  }
  /// Kept rows of all heads together.
  std::int64_t total() const { return offsets_.back(); }
  /// Kept rows of one head, ascending.
  std::span<const std::int32_t> head(std::int64_t head) const KVEVICT_LIFETIMEBOUND {
    return {indices_.data() + offsets_[index(head)], static_cast<std::size_t>(count(head))};
  }
  /// [heads + 1]
  std::span<const std::int64_t> offsets() const KVEVICT_LIFETIMEBOUND { return offsets_; }
  std::span<const std::int32_t> indices() const KVEVICT_LIFETIMEBOUND { return indices_; }
  /// For writing.
  std::int32_t* indices_data() { return indices_.data(); }
  /// Row counts after compaction; refers to this object's offsets.
  RowLayout<> layout() const KVEVICT_LIFETIMEBOUND {
    return RowLayout<>::ragged(offsets_.data(), heads());
  }
  SelectionView<> view() const KVEVICT_LIFETIMEBOUND { return {layout(), indices_.data()}; }

  const Report& report() const { return report_; }
  void set_report(const Report& report) { report_ = report; }

  /// Makes room for `counts[head]` indices of each head and returns them for writing. Capacity is
  /// kept between calls.
  std::int32_t* reshape(std::span<const std::int64_t> counts) {
    offsets_.resize(counts.size() + 1);
    offsets_[0] = 0;
    for (std::size_t h = 0; h < counts.size(); ++h) offsets_[h + 1] = offsets_[h] + counts[h];
    indices_.resize(static_cast<std::size_t>(offsets_.back()));
    return indices_.data();
  }

  /// Reserves for caches of up to `rows` rows in `heads` heads, so that later calls allocate
  /// nothing.
  void reserve(std::int64_t heads, std::int64_t rows) {
    offsets_.reserve(static_cast<std::size_t>(heads) + 1);
    indices_.reserve(static_cast<std::size_t>(rows));
  }

  friend bool operator==(const Selection& a, const Selection& b) {
    return a.offsets_ == b.offsets_ && a.indices_ == b.indices_;
  }

 private:
  static std::size_t index(std::int64_t head) { return static_cast<std::size_t>(head); }

  std::vector<std::int64_t> offsets_ = {0};
  std::vector<std::int32_t> indices_;
  Report report_;
};

/// Throws invalid_argument unless `selection` has the heads of a cache with this layout and keeps
/// no more rows than each holds. O(heads).
template <MemorySpace S>
void require_counts_fit(const SelectionView<S>& selection, const RowLayout<S>& layout) {
  const RowLayout<> kept = selection.layout.host();
  const RowLayout<> rows = layout.host();
  require(kept.heads() == rows.heads(), "selection.heads", kept.heads(), "equal to", rows.heads());
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    require_for_head(kept.rows(h) <= rows.rows(h), "selection.count", h, kept.rows(h),
                     "at most the head's rows,", rows.rows(h));
  }
}

/// Throws invalid_argument unless `selection` is one of a cache with this layout: equal heads,
/// indices of each head ascending, unique and inside [0, rows). O(kept rows).
inline void require_valid(const SelectionView<>& selection, const RowLayout<>& layout) {
  require_counts_fit(selection, layout);
  for (std::int64_t h = 0; h < selection.heads(); ++h) {
    const std::int32_t* indices = selection.head(h);
    std::int64_t previous = -1;
    for (std::int64_t i = 0; i < selection.count(h); ++i) {
      require_for_head(indices[i] > previous, "selection.index", h, indices[i],
                       "above the index before it,", previous);
      previous = indices[i];
    }
    require_for_head(previous < layout.rows(h), "selection.index", h, previous,
                     "below the head's rows,", layout.rows(h));
  }
}

/// Row indices are 32-bit: the longest head that selection supports.
inline constexpr std::int64_t max_rows_per_head = std::numeric_limits<std::int32_t>::max();

}  // namespace kvevict
