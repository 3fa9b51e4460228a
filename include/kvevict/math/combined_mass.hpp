// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/core/config.hpp"

namespace kvevict {

/// What a row has after it received more: the sum, or the larger of both; a NaN among them stays.
KVEVICT_HOST_DEVICE inline double combined_mass(double mass, double received, bool largest) {
  if (!largest) return mass + received;
  return received > mass || received != received ? received : mass;
}

}  // namespace kvevict
