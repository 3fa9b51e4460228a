// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/layout_storage.hpp"
#include "kvevict/core/state_blob.hpp"
#include "kvevict/ops/key_direction.hpp"
#include "kvevict/ops/row_norms.hpp"

namespace kvevict {

/// The norms of the keys of a sequence that goes on, on the host: each is computed once, to the
/// bits of row_norms. 4 bytes a row, twice.
class RunningKeyNorms {
 public:
  /// The norms of all rows, of which those behind the rows of the last call are read. Refers to
  /// this object until its next call. Throws invalid_argument when a head has fewer rows than then;
  /// nothing is changed then.
  template <class R, class T>
  KeyNorms<> norms(R& res, const RowsView<T>& keys) {
    const RowLayout<>& layout = keys.layout();
    if (known_.view().heads() == 0) clear(res, keys.heads());
    if (!same_rows(known_.view(), layout)) {
      next_.resize(static_cast<std::size_t>(layout.total()));
      append_row_norms(res, keys, KeyNorms<>{norms_.data(), known_.view()},
                       ScoreView<>{next_.data(), layout});
      known_.assign(res, layout);
      std::swap(norms_, next_);
    }
    return {norms_.data(), known_.view()};
  }

  /// Drops the rows that the selection does not keep. Heads of which it names rows that were not
  /// read yet are forgotten.
  template <class R>
  void compact(R& res, const SelectionView<>& kept) {
    const RowLayout<> known = known_.view();
    if (known.heads() == 0) return;
    require(kept.layout.heads() == known.heads(), "kept.heads", kept.layout.heads(),
            "equal to those of the norms,", known.heads());
    ends_.assign(1, 0);
    for (std::int64_t h = 0; h < known.heads(); ++h) {
      const std::int64_t count = kept.count(h);
      const bool read = count == 0 || kept.head(h)[count - 1] < known.rows(h);
      const float* from = norms_.data() + known.offset(h);
      float* to = norms_.data() + ends_.back();  // never behind what is read next
      for (std::int64_t i = 0; read && i < count; ++i) to[i] = from[kept.head(h)[i]];
      ends_.push_back(ends_.back() + (read ? count : 0));
    }
    known_.assign(res, ends_.data(), known.heads());
  }

  /// Forgets everything: for a new sequence, or keys that were changed.
  void reset() { known_.clear(); }

 private:
  template <class R>
  void clear(R& res, std::int64_t heads) {
    ends_.assign(static_cast<std::size_t>(heads) + 1, 0);
    known_.assign(res, ends_.data(), heads);
  }

  std::vector<float> norms_;
  std::vector<float> next_;  // what a call writes, before it is done
  LayoutStorage<> known_;    // rows whose norms these are
  std::vector<std::int64_t> ends_;
};

/// The mean directions of the keys of a sequence that goes on, on the host: KeyDiff's anchor. Kept
/// are sums in double over the rows that the last eviction left, to which new rows are added and
/// from which those that leave are subtracted, where they are the fewer and the sum is finite. A
/// sum is made anew before what its rounding may have added up to, 2^-52 of the rows for each row
/// subtracted, exceeds 1e-10 of the rows: anchors agree with those made at once to that, before
/// they are rounded to fp32.
class RunningKeyDirection {
 public:
  explicit RunningKeyDirection(std::int64_t dim) : dim_(dim) {}

  /// The mean directions of all rows, of which those behind the rows of the last `compact` are
  /// read. Refers to this object until its next call. Throws invalid_argument when a head has fewer
  /// rows than then.
  template <class R, class T>
  MeanKeyDirection<> directions(R& res, const RowsView<T>& keys) {
    detail::require_dim(dim_, keys.dim(), "dim");
    const std::int64_t heads = keys.heads();
    begin(heads);
    add_new_rows(res, keys);
    directions_.resize(static_cast<std::size_t>(heads * dim_));
    finish_direction(res, MatrixView<const double>(view_of(sums_of_all_)), keys.layout(),
                     drift_.data(), MatrixView<float>::packed(directions_.data(), heads, dim_));
    return {MatrixView<const float>::packed(directions_.data(), heads, dim_)};
  }

  /// The first half of `compact`, which may throw: reads the rows that leave, where they still
  /// stand.
  template <class R, class T>
  void subtract_leaving(R& res, const SelectionView<>& kept, const RowsView<T>& keys) {
    begin(keys.heads());
    if (!same_rows(all_rows_.view(), keys.layout())) add_new_rows(res, keys);
    next_rows_.resize(rows_.size());
    next_drift_.resize(rows_.size());
    next_sums_.resize(sums_.size());
    sum_leaving_directions(res, kept, keys, view_of(next_sums_));
    for (std::int64_t h = 0; h < keys.heads(); ++h) {
      const auto head = static_cast<std::size_t>(h);
      const std::int64_t rows = keys.rows(h);
      const std::int64_t stay = kept.count(h);
      const double drift =
          drift_[head] + 0x1p-52 * static_cast<double>(rows - stay) * static_cast<double>(rows);
      bool holds = fewer_leave(rows, stay) && drift <= 1e-10 * static_cast<double>(stay);
      for (std::int64_t c = 0; holds && c < dim_; ++c) {
        const auto at = static_cast<std::size_t>(h * dim_ + c);
        next_sums_[at] = sums_of_all_[at] - next_sums_[at];
        holds = std::isfinite(next_sums_[at]);  // a NaN would stay when its key has left
      }
      if (!holds) std::fill_n(next_sums_.begin() + h * dim_, dim_, 0.0);
      next_rows_[head] = holds ? stay : 0;
      next_drift_[head] = holds ? drift : 0.0;
    }
  }

  /// The second half: takes note that the rows have left.
  void leave() {
    std::swap(rows_, next_rows_);
    std::swap(drift_, next_drift_);
    std::swap(sums_, next_sums_);
    all_rows_.clear();
  }

  /// Drops the rows that the selection does not keep, of keys that may have moved already: their
  /// heads are summed anew next time.
  void forget_leaving(const SelectionView<>& kept) {
    all_rows_.clear();
    for (std::int64_t h = 0; h < static_cast<std::int64_t>(rows_.size()); ++h) {
      const auto head = static_cast<std::size_t>(h);
      std::int64_t first = 0;
      while (first < kept.count(h) && kept.head(h)[first] == first) ++first;
      if (first >= rows_[head]) continue;
      rows_[head] = 0;
      drift_[head] = 0.0;
      std::fill_n(sums_.begin() + h * dim_, dim_, 0.0);
    }
  }

  /// Forgets everything: for a new sequence, or keys that were changed.
  void reset() {
    rows_.clear();
    drift_.clear();
    sums_.clear();
    all_rows_.clear();
  }

  /// As part of a larger blob. `read` leaves an object that it fails for in no particular state.
  void write(StateWriter& to) const {
    const auto heads = static_cast<std::int64_t>(rows_.size());
    to.text("KeyDiff.anchor");
    to.integer(dim_);
    to.integer(heads);
    to.array(rows_.data(), heads);
    to.array(drift_.data(), heads);
    to.array(sums_.data(), heads * dim_);
  }
  void read(StateReader& from) {
    from.expect("part", "KeyDiff.anchor");
    from.expect("KeyDiff.dim", dim_);
    const std::int64_t heads = from.integer("KeyDiff.heads", 0, INT32_MAX);
    rows_ = from.array<std::int64_t>("KeyDiff.rows.size", heads);
    drift_ = from.array<double>("KeyDiff.drift.size", heads);
    sums_ = from.array<double>("KeyDiff.sums.size", heads * dim_);
    all_rows_.clear();
    for (const std::int64_t rows : rows_) {
      require(rows >= 0 && rows <= max_rows_per_head, "KeyDiff.rows", rows,
              "in [0, rows of a head]");
    }
  }

  /// Rows of head h that are in the sums: at most those that it holds.
  std::int64_t heads() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t rows(std::int64_t h) const { return rows_[static_cast<std::size_t>(h)]; }

 private:
  void begin(std::int64_t heads) {
    if (rows_.empty()) {
      rows_.assign(static_cast<std::size_t>(heads), 0);
      drift_.assign(static_cast<std::size_t>(heads), 0.0);
      sums_.assign(static_cast<std::size_t>(heads * dim_), 0.0);
    }
    require(static_cast<std::int64_t>(rows_.size()) == heads, "keys.heads", heads,
            "equal to those of the sums,", static_cast<std::int64_t>(rows_.size()));
  }

  MatrixView<double> view_of(std::vector<double>& sums) const {
    return MatrixView<double>::packed(sums.data(), static_cast<std::int64_t>(rows_.size()), dim_);
  }

  /// sums_of_all_ = sums_ and the directions of the rows behind.
  template <class R, class T>
  void add_new_rows(R& res, const RowsView<T>& keys) {
    all_rows_.clear();
    sums_of_all_ = sums_;
    add_directions(res, keys, rows_.data(), view_of(sums_of_all_));
    all_rows_.assign(res, keys.layout());
  }
  std::int64_t dim_;
  std::vector<std::int64_t> rows_;  // [heads] in the sums
  std::vector<double> drift_;       // [heads] by which the sums may be off
  std::vector<double> sums_;        // [heads][dim]
  // What calls write.
  std::vector<double> sums_of_all_;  // [heads][dim], of these rows:
  LayoutStorage<> all_rows_;         // no heads: of none that still stand
  std::vector<float> directions_;
  std::vector<std::int64_t> next_rows_;
  std::vector<double> next_drift_;
  std::vector<double> next_sums_;
};

}  // namespace kvevict
