// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/element.hpp"

namespace kvevict {

/// Q8_0 of GGML: 32 adjacent channels of a row in 34 bytes, a binary16 scale and a signed byte for
/// each: channel i is scale * values[i].
struct q8_0 {
  half scale;
  std::int8_t values[32];

  KVEVICT_HOST_DEVICE float operator[](std::int64_t i) const {
    return static_cast<float>(scale) * static_cast<float>(values[i]);
  }
};

/// Q4_0 of GGML: 32 adjacent channels of a row in 18 bytes, a binary16 scale and four bits for
/// each: channel i is scale * (n - 8) with n the low half of byte i for i < 16, else the high half
/// of byte i - 16.
struct q4_0 {
  half scale;
  std::uint8_t pairs[16];

  KVEVICT_HOST_DEVICE float operator[](std::int64_t i) const {
    const std::uint32_t pair = pairs[i % 16];
    const std::uint32_t n = i < 16 ? pair & 0xfu : pair >> 4;
    return static_cast<float>(scale) * static_cast<float>(static_cast<std::int32_t>(n) - 8);
  }
};

static_assert(sizeof(q8_0) == 34 && sizeof(q4_0) == 18);

/// E4M3 of OCP ("e4m3fn", the bits of CUDA's `__nv_fp8_e4m3`): 8 bits with 4 of exponent (bias 7)
/// and 3 of fraction; largest 448, no infinity, NaN is 0x7f and 0xff. Views carry the scales.
struct float8_e4m3 {
  std::uint8_t bits = 0;

  /// Moves the fields into place, which leaves the exponent off by 127 - 7, as `half::widen` does.
  KVEVICT_HOST_DEVICE constexpr operator float() const {
    const std::uint32_t magnitude = bits & 0x7fu;
    const float scaled = detail::bit_cast<float>(magnitude << 20) * 0x1p120f;
    const std::uint32_t special = magnitude == 0x7fu ? 0x7fc00000u : 0u;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
    return detail::bit_cast<float>(detail::bit_cast<std::uint32_t>(scaled) | special | sign);
  }
};

/// E5M2 of OCP (the bits of CUDA's `__nv_fp8_e5m2`): 8 bits with 5 of exponent and 2 of fraction,
/// the upper byte of a binary16. Views carry the scales.
struct float8_e5m2 {
  std::uint8_t bits = 0;

  KVEVICT_HOST_DEVICE constexpr operator float() const {
    return half::widen(static_cast<std::uint16_t>(bits << 8));
  }
};

/// Formats of one channel each, which a view scales by a factor of the head or of the row.
template <class T>
concept ScaledElement = std::same_as<T, float8_e4m3> || std::same_as<T, float8_e5m2>;

/// The scales of rows of T: read where the rows are only read.
template <class T>
using ScaleOf = std::conditional_t<std::is_const_v<T>, const float, float>;

/// Formats that hold 32 channels and their scale in a block.
template <class T>
concept BlockStorage = std::same_as<T, q8_0> || std::same_as<T, q4_0>;

/// What cached keys and values may be stored as. Rows of elements can be computed and written; the
/// others are quantised: they are read as floats and moved as bytes, and nothing else.
template <class T>
concept Storage = Element<T> || ScaledElement<T> || BlockStorage<T>;

/// Channels in one T. Pointers and strides of views step by whole Ts.
template <class T>
inline constexpr std::int64_t channels_of = BlockStorage<std::remove_const_t<T>> ? 32 : 1;

/// Bytes of a row of `dim` adjacent channels.
template <class T>
KVEVICT_HOST_DEVICE constexpr std::int64_t bytes_of_row(std::int64_t dim) {
  return dim / channels_of<T> * static_cast<std::int64_t>(sizeof(T));
}

/// Channel `channel` of the row at `row`, without a scale that the view has.
template <class T>
KVEVICT_HOST_DEVICE float channel_of(const T* row, std::int64_t channel,
                                     std::int64_t channel_stride) {
  if constexpr (BlockStorage<T>) {
    return row[channel / channels_of<T>][channel % channels_of<T>];
  } else {
    return static_cast<float>(row[channel * channel_stride]);
  }
}

}  // namespace kvevict
