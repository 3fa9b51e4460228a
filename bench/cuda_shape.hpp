// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "shape.hpp"

namespace bench {

/// What runs when no filter is given: seconds even under an emulator.
inline constexpr Shape cuda_smoke_shape = {2, 128, 64, 2};

/// Sizes of caches on a GPU.
inline constexpr Shape cuda_shapes[] = {
    cuda_smoke_shape,
    {8, 32768, 128, 4},    // one layer of a model of 8B parameters after a long prompt
    {256, 32768, 128, 4},  // the whole model: 32 layers
};

/// "N:32768/d:128/heads:256/group:4"
inline std::string cuda_shape_name(const Shape& shape) {
  std::string name = "N:" + std::to_string(shape.rows);
  if (shape.dim > 0) name += "/d:" + std::to_string(shape.dim);
  return name + "/heads:" + std::to_string(shape.heads) + "/group:" + std::to_string(shape.group);
}

}  // namespace bench
