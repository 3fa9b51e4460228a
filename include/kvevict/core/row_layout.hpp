// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/config.hpp"
#include "kvevict/core/error.hpp"
#include "kvevict/core/memory_space.hpp"

namespace kvevict {

/// How many rows each head holds and where its entries start in an array that packs all heads one
/// after another (CSR). Either every head holds the same number of rows, or `offsets[head] ..
/// offsets[head + 1]` are the entries of a head. One head here is one KV head of one layer of one
/// sequence: a batch, or a whole model, is only more heads.
///
/// `repeated(g)` describes arrays that hold g consecutive blocks for every head, such as one score
/// row for each query head of a group.
///
/// A device layout carries its offsets twice: kernels read those in device memory, the host those
/// in host memory (`host()`), so that shapes are known without waiting for the device.
template <MemorySpace S = MemorySpace::host>
class RowLayout {
 public:
  RowLayout() = default;

  /// `heads` heads of `rows` rows each.
  static RowLayout uniform(std::int64_t heads, std::int64_t rows) {
    require(heads >= 0, "heads", heads, ">=", 0);
    require(rows >= 0, "rows", rows, ">=", 0);
    RowLayout layout;
    layout.heads_ = heads;
    layout.rows_ = rows;
    layout.total_ = heads * rows;
    layout.longest_ = heads == 0 ? 0 : rows;
    return layout;
  }

  /// Heads of different lengths: `offsets` has `heads + 1` entries, starts at 0 and never falls.
  /// O(heads).
  static RowLayout ragged(const std::int64_t* offsets,
                          std::int64_t heads) requires(S == MemorySpace::host) {
    require(heads >= 0, "heads", heads, ">=", 0);
    require(offsets != nullptr, "offsets", "null", "an array of heads + 1 entries");
    require(offsets[0] == 0, "offsets[0]", offsets[0], "0");
    RowLayout layout;
    layout.heads_ = heads;
    layout.offsets_ = offsets;
    for (std::int64_t h = 0; h < heads; ++h) {
      require(offsets[h + 1] >= offsets[h], "offsets[head + 1]", offsets[h + 1], ">=", offsets[h]);
      layout.longest_ = std::max(layout.longest_, offsets[h + 1] - offsets[h]);
    }
    layout.total_ = offsets[heads];
    return layout;
  }

  /// The same on a device: the same offsets in device memory and in host memory.
  static RowLayout ragged(const std::int64_t* device_offsets, const std::int64_t* host_offsets,
                          std::int64_t heads) requires(S == MemorySpace::device) {
    require(device_offsets != nullptr, "device_offsets", "null", "an array of heads + 1 entries");
    const RowLayout<> host = RowLayout<>::ragged(host_offsets, heads);
    RowLayout layout;
    layout.heads_ = heads;
    layout.offsets_ = device_offsets;
    layout.host_offsets_ = host_offsets;
    layout.total_ = host.total();
    layout.longest_ = host.longest();
    return layout;
  }

  /// Layout of `group` blocks per head: block `b` belongs to head `b / group`.
  KVEVICT_HOST_DEVICE RowLayout repeated(std::int64_t group) const {
    RowLayout layout = *this;
    layout.group_ = group_ * group;
    return layout;
  }

  /// The same layout for code that runs on the host.
  RowLayout<MemorySpace::host> host() const {
    if constexpr (S == MemorySpace::host) {
      return *this;
    } else {
      RowLayout<MemorySpace::host> layout;
      layout.heads_ = heads_;
      layout.rows_ = rows_;
      layout.offsets_ = host_offsets_;
      layout.total_ = total_;
      layout.longest_ = longest_;
      layout.group_ = group_;
      return layout;
    }
  }

  KVEVICT_HOST_DEVICE std::int64_t heads() const { return heads_ * group_; }
  KVEVICT_HOST_DEVICE std::int64_t total() const { return total_ * group_; }
  KVEVICT_HOST_DEVICE std::int64_t longest() const { return longest_; }
  KVEVICT_HOST_DEVICE bool is_uniform() const { return offsets_ == nullptr; }
  /// The offsets of a ragged layout in the memory of its space, null for a uniform one.
  KVEVICT_HOST_DEVICE const std::int64_t* offsets() const { return offsets_; }

  KVEVICT_HOST_DEVICE std::int64_t rows(std::int64_t head) const {
    const std::int64_t base = head / group_;
    return offsets_ == nullptr ? rows_ : offsets_[base + 1] - offsets_[base];
  }

  KVEVICT_HOST_DEVICE std::int64_t offset(std::int64_t head) const {
    const std::int64_t base = head / group_;
    const std::int64_t start = offsets_ == nullptr ? base * rows_ : offsets_[base];
    return start * group_ + (head % group_) * rows(head);
  }

 private:
  template <MemorySpace>
  friend class RowLayout;

  std::int64_t heads_ = 0;
  std::int64_t rows_ = 0;
  const std::int64_t* offsets_ = nullptr;
  const std::int64_t* host_offsets_ = nullptr;  // device layouts only
  std::int64_t total_ = 0;
  std::int64_t longest_ = 0;
  std::int64_t group_ = 1;
};

/// Equal row counts for every head. O(1) for uniform layouts, else O(heads).
template <MemorySpace S>
bool same_rows(const RowLayout<S>& first, const RowLayout<S>& second) {
  const RowLayout<> a = first.host();
  const RowLayout<> b = second.host();
  if (a.heads() != b.heads() || a.total() != b.total()) return false;
  for (std::int64_t h = 0; h < a.heads(); ++h) {
    if (a.rows(h) != b.rows(h)) return false;
    if (a.is_uniform() && b.is_uniform()) return true;
  }
  return true;
}

}  // namespace kvevict
