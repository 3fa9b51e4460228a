// SPDX-License-Identifier: Apache-2.0
#include "block.hpp"

namespace kvevict_ptx {

std::uint32_t Block::special_value(Special what, std::uint32_t thread, std::uint32_t lane) const {
  const dim3 size = grid_.threads;
  const std::uint32_t bit = 1u << lane;
  switch (what) {
    case Special::tid_x:
      return thread % size.x;
    case Special::tid_y:
      return thread / size.x % size.y;
    case Special::tid_z:
      return thread / (size.x * size.y);
    case Special::ntid_x:
      return size.x;
    case Special::ntid_y:
      return size.y;
    case Special::ntid_z:
      return size.z;
    case Special::ctaid_x:
      return index_.x;
    case Special::ctaid_y:
      return index_.y;
    case Special::ctaid_z:
      return index_.z;
    case Special::nctaid_x:
      return grid_.blocks.x;
    case Special::nctaid_y:
      return grid_.blocks.y;
    case Special::nctaid_z:
      return grid_.blocks.z;
    case Special::laneid:
      return lane;
    case Special::warpid:
      return thread / warp_lanes;
    case Special::nwarpid:
      return static_cast<std::uint32_t>(warps_.size());
    case Special::lanemask_eq:
      return bit;
    case Special::lanemask_lt:
      return bit - 1;
    case Special::lanemask_le:
      return bit | (bit - 1);
    case Special::lanemask_gt:
      return ~(bit | (bit - 1));
    case Special::lanemask_ge:
      return ~(bit - 1);
    case Special::dynamic_smem_size:
      return static_cast<std::uint32_t>(grid_.dynamic_shared);
    case Special::total_smem_size:
      return static_cast<std::uint32_t>(shared_bytes_);
    case Special::zero:
      return 0;
    case Special::one:
      return 1;
  }
  return 0;
}

}  // namespace kvevict_ptx
