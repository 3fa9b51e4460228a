// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/error.hpp"

namespace kvevict {

/// Which heads of every layer this process holds when the heads of each layer are spread over
/// several processes (tensor parallel), and how to add up numbers over all of them. Allocators that
/// compare heads give every process the counts that one process with all heads would get, bit by
/// bit: the order of heads is that of the layers, in a layer that of `first_head`.
///
/// `sum(context, values, count)` replaces the integers by their sums over all processes, as
/// MPI_Allreduce with MPI_SUM does; every process calls it equally often. Integers, so that the
/// order of summation does not matter. Null: this process holds all heads. Size queries
/// (`workspace_bytes`) do not call it. Errors that depend on the sums are thrown by every process;
/// what only one process sees (its arguments, its scores' shapes) it must check before.
struct HeadRanks {
  void (*sum)(void* context, std::int64_t* values, std::int64_t count) = nullptr;
  void* context = nullptr;
  std::int64_t first_head = 0;   ///< of this process, among the heads of a layer
  std::int64_t heads = 0;        ///< of a layer in this process
  std::int64_t layer_heads = 0;  ///< of a layer in all processes together

  bool alone() const { return sum == nullptr; }

  /// Adds up over all processes, in place.
  void add(std::int64_t* values, std::int64_t count) const {
    if (!alone() && count > 0) sum(context, values, count);
  }

  /// Heads in all processes together, `local` being those in this one.
  std::int64_t all_heads(std::int64_t local) const {
    return alone() ? local : local / heads * layer_heads;
  }

  /// Number among all heads of a head of this process.
  std::int64_t global_head(std::int64_t head) const {
    return alone() ? head : head / heads * layer_heads + first_head + head % heads;
  }

  /// all[h] = value of head h of all processes: `value(h)` gives that of a head in this one.
  template <class Value>
  void gather(std::int64_t local, Value&& value, std::int64_t* all) const {
    std::fill_n(all, all_heads(local), 0);
    for (std::int64_t h = 0; h < local; ++h) all[global_head(h)] = value(h);
    add(all, all_heads(local));
  }

  friend bool operator==(const HeadRanks&, const HeadRanks&) = default;
};

/// Throws invalid_argument unless `heads` heads are whole layers of `ranks`.
inline void require_valid(const HeadRanks& ranks, std::int64_t heads) {
  if (ranks.alone()) return;
  require(ranks.heads >= 1, "ranks.heads", ranks.heads, ">=", 1);
  require(ranks.first_head >= 0, "ranks.first_head", ranks.first_head, ">=", 0);
  require(ranks.first_head + ranks.heads <= ranks.layer_heads, "ranks.layer_heads",
          ranks.layer_heads, "at least first_head + heads,", ranks.first_head + ranks.heads);
  require(heads % ranks.heads == 0, "heads", heads, "a multiple of ranks.heads,", ranks.heads);
}

}  // namespace kvevict
