// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "matrix.hpp"

namespace mini_llama {

// Rotary position embedding as GGUF's "llama" architecture stores it: elements 2i and 2i+1 of a
// head turn by the angle position * frequency[i], elements from 2 * frequencies on stay. Holds
// cosines and sines of the positions of one chunk, computed in double.
class RotationTable {
 public:
  // frequencies [pairs], positions [token].
  RotationTable(std::span<const double> frequencies, std::span<const std::int32_t> positions);

  // Rotates one head of token number `token` of the chunk in place.
  void rotate(float* head, Index token) const;

 private:
  Index pairs_;
  std::vector<float> cos_sin_;  // [token][pair][cos, sin]
};

}  // namespace mini_llama
