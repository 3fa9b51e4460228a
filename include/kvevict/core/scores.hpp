// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/row_layout.hpp"

namespace kvevict {

/// Scores of cached rows: fp32, higher = keep, packed [head][row] by the layout. The single
/// currency between policies, allocators and selection. With a layout `repeated(group)` it holds
/// one block for each query head.
template <MemorySpace S = MemorySpace::host>
struct ScoreView {
  float* data = nullptr;
  RowLayout<S> layout;

  KVEVICT_HOST_DEVICE float* head(std::int64_t head) const { return data + layout.offset(head); }
};

}  // namespace kvevict
