// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kvevict/core/parameter.hpp"

namespace kvevict {

/// What multiplies an attention weight.
enum class ValueNorm {
  none,
  norm,              ///< |v|_2
  output_projection  ///< |W_O v|_2, by the factor of the query head
};

inline std::span<const EnumName<ValueNorm>> enum_names(ValueNorm) {
  static constexpr EnumName<ValueNorm> names[] = {
      {ValueNorm::none, "none"},
      {ValueNorm::norm, "norm"},
      {ValueNorm::output_projection, "output_projection"}};
  return names;
}

}  // namespace kvevict
