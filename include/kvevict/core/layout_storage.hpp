// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kvevict/core/array.hpp"
#include "kvevict/core/row_layout.hpp"

namespace kvevict {

/// A row layout with offsets of its own, for what outlives the view that it was described by.
template <MemorySpace S = MemorySpace::host>
class LayoutStorage {
 public:
  /// The row counts of `layout`. O(heads).
  template <class R>
  void assign(R& res, const RowLayout<S>& layout) {
    const RowLayout<> host = layout.host();
    clear();
    for (std::int64_t h = 0; h < host.heads(); ++h) append(host.rows(h));
    upload(res);
  }

  /// The row counts between ascending offsets in host memory, [heads + 1]. O(heads).
  template <class R>
  void assign(R& res, const std::int64_t* offsets, std::int64_t heads) {
    clear();
    for (std::int64_t h = 0; h < heads; ++h) append(offsets[h + 1] - offsets[h]);
    upload(res);
  }

  /// Refers to this object until the next `assign`. O(heads).
  RowLayout<S> view() const {
    if (uniform_) return RowLayout<S>::uniform(heads(), heads() == 0 ? 0 : offsets_[1]);
    if constexpr (S == MemorySpace::device) {
      return RowLayout<S>::ragged(device_offsets_.data(), offsets_.data(), heads());
    } else {
      return RowLayout<S>::ragged(offsets_.data(), heads());
    }
  }

  void clear() {
    offsets_.assign(1, 0);
    uniform_ = true;
  }

 private:
  std::int64_t heads() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }

  void append(std::int64_t rows) {
    offsets_.push_back(offsets_.back() + rows);
    uniform_ = uniform_ && rows == offsets_[1];
  }

  template <class R>
  void upload(R& res) {
    if constexpr (S == MemorySpace::device) {
      if (!uniform_) device_offsets_.assign(res, offsets_.data(), heads() + 1);
    }
  }

  std::vector<std::int64_t> offsets_ = {0};
  Array<std::int64_t, S> device_offsets_;  // unused on the host
  bool uniform_ = true;
};

}  // namespace kvevict
