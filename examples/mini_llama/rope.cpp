// SPDX-License-Identifier: Apache-2.0
#include "rope.hpp"

#include <cmath>

namespace mini_llama {

RotationTable::RotationTable(std::span<const double> frequencies,
                             std::span<const std::int32_t> positions)
    : pairs_(std::ssize(frequencies)) {
  cos_sin_.reserve(2 * frequencies.size() * positions.size());
  for (const std::int32_t position : positions) {
    for (const double frequency : frequencies) {
      const double angle = position * frequency;
      cos_sin_.push_back(static_cast<float>(std::cos(angle)));
      cos_sin_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

void RotationTable::rotate(float* head, Index token) const {
  const float* turn = cos_sin_.data() + token * pairs_ * 2;
  for (Index i = 0; i < 2 * pairs_; i += 2) {
    const float x = head[i];
    const float y = head[i + 1];
    head[i] = x * turn[i] - y * turn[i + 1];
    head[i + 1] = x * turn[i + 1] + y * turn[i];
  }
}

}  // namespace mini_llama
