// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kvevict/core/array.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/core/state_blob.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/query_moments.hpp"

namespace kvevict {

/// The last `window` queries of a sequence that goes on, owned, in memory space S: widened to fp32,
/// with their positions, which follow one another. What is read is one strided view: every query is
/// stored twice, `window` places apart, so that any window of them lies in one piece. Memory:
/// 2 window dim floats a head, allocated when the first queries arrive; an append writes each query
/// twice and moves nothing.
template <MemorySpace S = MemorySpace::host>
class BasicQueryRing {
 public:
  BasicQueryRing(std::int64_t heads, std::int64_t dim, std::int64_t window)
      : heads_(heads), dim_(dim), window_(window) {
    require(heads >= 1, "heads", heads, ">=", 1);
    require(dim >= 1, "dim", dim, ">=", 1);
    require(window >= 1, "window", window, ">=", 1);
  }

  std::int64_t heads() const { return heads_; }
  std::int64_t dim() const { return dim_; }
  std::int64_t window() const { return window_; }
  /// Queries held, at most `window`.
  std::int64_t count() const { return count_; }
  /// Position of the query to come; of the first one, while none is held.
  std::int64_t next_position() const { return next_; }

  /// Takes in queries [heads][n][dim] that stand at `first_position` and behind it. Throws
  /// invalid_argument for another shape, or where queries are held and these do not follow them.
  template <class R>
  requires(R::space == S) void append(R& res, const QueriesView<S>& queries,
                                      std::int64_t first_position) {
    require(queries.heads() == heads_, "queries.heads", queries.heads(), "equal to", heads_);
    require(queries.dim() == dim_, "queries.dim", queries.dim(), "equal to", dim_);
    require(first_position >= 0 && first_position + queries.count() <= INT32_MAX, "first_position",
            first_position, "in [0, 2^31 - 1) with the queries behind it");
    require(count_ == 0 || first_position == next_, "first_position", first_position,
            "behind the queries held,", next_);
    prepare(res);
    const std::int64_t added = std::min(queries.count(), window_);
    const QueriesView<S> newest = queries.last(added);
    next_ = first_position + queries.count();
    count_ = std::min(count_ + added, window_);
    // Query p lies at p mod window and once more `window` behind.
    const std::int64_t slot = added == 0 ? 0 : (next_ - added) % window_;
    const std::int64_t fitting = std::min(added, window_ - slot);
    store(res, newest, 0, slot, added);
    store(res, newest, 0, slot + window_, fitting);
    store(res, newest, fitting, 0, added - fitting);
  }

  /// The queries held, oldest first. Refers to this object.
  QueriesView<S> queries() const {
    const std::int64_t first = (next_ - count_) % window_;
    return QueriesView<S>::strided(count_ == 0 ? stored_.data() : stored_.data() + first * dim_,
                                   count_ == 0 ? 0 : heads_, count_, dim_, head_stride(), dim_);
  }
  QueryPositions<S> positions() const {
    return QueryPositions<S>::consecutive(static_cast<std::int32_t>(next_ - count_));
  }
  QueryWindow<S> view() const { return {queries(), positions()}; }

  /// Allocates what `append` needs.
  template <class R>
  requires(R::space == S) void prepare(R& res) {
    if (stored_.size() == 0) stored_.resize(res, heads_ * head_stride());
    const auto most = static_cast<std::size_t>(window_);
    if (rows_.size() < most) {
      rows_.resize(most);
      unturned_.resize(most);
    }
  }

  /// Forgets the queries: for a new sequence, whose first query may stand anywhere.
  void reset() {
    count_ = 0;
    next_ = 0;
  }

  /// A blob (core/state_blob.hpp) that `restore` reads, there or elsewhere. Waits for a device.
  template <class R>
  requires(R::space == S) std::vector<std::byte> save(R& res)
  const { return detail::save_state(res, *this, "QueryRing"); }
  /// Takes the place of the queries held. Throws invalid_argument for a blob that is damaged or of
  /// another shape, unsupported for another version; nothing is changed then.
  template <class R>
  requires(R::space == S) void restore(R& res, std::span<const std::byte> blob) {
    detail::restore_state(res, blob, "QueryRing", BasicQueryRing(heads_, dim_, window_), *this);
  }

  /// The same as part of a larger blob. `read` leaves an object that it fails for in no particular
  /// state.
  template <class R>
  requires(R::space == S) void write(R& res, StateWriter& to) const {
    to.integer(heads_);
    to.integer(dim_);
    to.integer(window_);
    to.integer(count_);
    to.integer(next_);
    if (count_ == 0) return;
    const std::vector<float> stored = stored_.download(res);
    const std::int64_t first = (next_ - count_) % window_;
    for (std::int64_t h = 0; h < heads_; ++h) {
      to.array(stored.data() + h * head_stride() + first * dim_, count_ * dim_);
    }
  }
  template <class R>
  requires(R::space == S) void read(R& res, StateReader& from) {
    from.expect("query_ring.heads", heads_);
    from.expect("query_ring.dim", dim_);
    from.expect("query_ring.window", window_);
    const std::int64_t count = from.integer("query_ring.count", 0, window_);
    const std::int64_t next = from.integer("query_ring.next_position", count, INT32_MAX);
    reset();
    next_ = next;
    if (count == 0) return;
    std::vector<float> all;
    for (std::int64_t h = 0; h < heads_; ++h) {
      const auto head = from.array<float>("query_ring.queries.size", count * dim_);
      all.insert(all.end(), head.begin(), head.end());
    }
    Array<float, S> there;
    there.assign(res, all.data(), heads_ * count * dim_);
    append(res, QueriesView<S>::packed(there.data(), heads_, count, dim_), next - count);
  }

 private:
  std::int64_t head_stride() const { return 2 * window_ * dim_; }

  /// Queries [first, first + count) of `from` to the places from `slot` on.
  template <class R>
  void store(R& res, const QueriesView<S>& from, std::int64_t first, std::int64_t slot,
             std::int64_t count) {
    if (count == 0) return;
    for (std::int64_t i = 0; i < count; ++i) {
      rows_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(first + i);
    }
    MatrixBatchView<float, S> to;
    to.data = stored_.data() + slot * dim_;
    to.shape[0] = heads_;
    to.shape[1] = count;
    to.shape[2] = dim_;
    to.stride[0] = head_stride();
    to.stride[1] = dim_;
    to.stride[2] = 1;
    // Without channels to turn, a rotation is a copy.
    rotate_queries(res, from, rows_.data(), unturned_.data(), count, Rope{.rotary_dim = 0}, to);
  }

  std::int64_t heads_;
  std::int64_t dim_;
  std::int64_t window_;
  std::int64_t count_ = 0;
  std::int64_t next_ = 0;
  Array<float, S> stored_;              // [head][2 window][dim]
  std::vector<std::int32_t> rows_;      // host scratch: [window]
  std::vector<std::int32_t> unturned_;  // zeros
};

using QueryRing = BasicQueryRing<>;

}  // namespace kvevict
