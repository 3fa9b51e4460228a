// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict::cuda {

/// Splits of the rows of a head between blocks: multiples of `Unit` rows, at most `Most` of them,
/// and a function of nothing but the head's rows, as its results must be.
template <int Unit, int Most>
struct RowSplits {
  /// Rows of each split but the last.
  KVEVICT_HOST_DEVICE static std::int64_t length(std::int64_t rows) {
    const std::int64_t units = ceiling(ceiling(rows, Unit), Most);
    return units > 1 ? units * Unit : Unit;
  }
  KVEVICT_HOST_DEVICE static std::int64_t count(std::int64_t rows) {
    return ceiling(rows, length(rows));
  }
  /// The most that any head of up to `rows` rows has.
  KVEVICT_HOST_DEVICE static std::int64_t most(std::int64_t rows) {
    const std::int64_t units = ceiling(rows, Unit);
    return units < Most ? units : Most;
  }

 private:
  KVEVICT_HOST_DEVICE static std::int64_t ceiling(std::int64_t count, std::int64_t size) {
    return (count + size - 1) / size;
  }
};

}  // namespace kvevict::cuda
