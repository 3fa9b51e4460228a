// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kvevict/core/row_layout.hpp"
#include "kvevict/core/workspace.hpp"

namespace kvevict::detail {

/// Offsets of a row layout in workspace memory, written anew for each of several layouts of the
/// same heads, so that a policy can score a part of the rows of each head.
template <class R>
class CarvedLayout {
 public:
  CarvedLayout(R& res, WorkspaceScope& scope, WorkspaceScope& host_scope, std::int64_t heads)
      : heads_(heads), host_(host_scope.template carve<std::int64_t>("layout.offsets", heads + 1)) {
    if constexpr (R::space == MemorySpace::device) {
      device_ = scope.template carve<std::int64_t>("layout.device_offsets", heads + 1);
    }
    // Where sizes are counted carves can be mere addresses, but shapes are needed.
    if (!res.workspace().counting()) return;
    counting_.resize(static_cast<std::size_t>(heads) + 1);
    host_ = counting_.data();
  }

  /// The layout with `count(head)` rows in each head, until the next one.
  template <class Count>
  RowLayout<R::space> with(R& res, Count&& count) {
    host_[0] = 0;
    for (std::int64_t h = 0; h < heads_; ++h) host_[h + 1] = host_[h] + count(h);
    if constexpr (R::space == MemorySpace::device) {
      if (!res.workspace().counting()) upload_offsets_impl(res, host_, heads_ + 1, device_);
      return RowLayout<R::space>::ragged(device_, host_, heads_);
    } else {
      return RowLayout<R::space>::ragged(host_, heads_);
    }
  }

 private:
  std::int64_t heads_;
  std::int64_t* host_;
  std::int64_t* device_ = nullptr;
  std::vector<std::int64_t> counting_;
};

}  // namespace kvevict::detail
