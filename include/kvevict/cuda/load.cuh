// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <numeric>
#include <type_traits>

#include "kvevict/core/element.hpp"
#include "kvevict/core/head_view.hpp"
#include "kvevict/cuda/compat.cuh"

namespace kvevict::cuda {

/// Rows are read in pieces of 16 bytes, the widest load a thread has: 4 floats or 8 numbers of 16
/// bits. A piece travels as bits (4 registers, whatever its type), so that several can be on their
/// way before the first is widened to floats.
using Piece = uint4;

/// What the numbers of a row travel as: those of quantised rows as floats, one by one.
template <class T>
using Loaded = std::conditional_t<Element<T>, T, float>;

template <class T>
inline constexpr int piece_size = 16 / static_cast<int>(sizeof(Loaded<std::remove_const_t<T>>));

/// How many adjacent Ts fill whole pieces: 8 blocks, or as many others as a piece has bytes for.
template <class T>
inline constexpr std::int64_t units_of_pieces = 16 /
                                                std::gcd(std::int64_t{16}, std::int64_t{sizeof(T)});

/// Whether every row of a head is adjacent, aligned bytes in pieces of 16. Found in the kernel,
/// once for a block, since heads may come from a table of pointers.
template <class T>
__device__ bool in_whole_pieces(const HeadView<T, MemorySpace::device>& head) {
  constexpr std::int64_t size = units_of_pieces<T>;
  return head.channel_stride == 1 && head.row_stride % size == 0 &&
         head.dim / channels_of<T> % size == 0 && head.page_stride % size == 0 &&
         reinterpret_cast<std::uintptr_t>(head.data) % 16 == 0;
}

/// Piece `piece` from `start` on, of rows that are in whole pieces and that no thread writes to.
template <class T>
__device__ Piece load_piece(const T* start, int piece) {
  return __ldg(reinterpret_cast<const Piece*>(start) + piece);
}

/// The bits of one number: what a piece is put together from where rows are not in whole pieces.
template <class T>
using ElementBits = std::conditional_t<sizeof(Loaded<T>) == 4, std::uint32_t, std::uint16_t>;

template <class T>
__device__ ElementBits<T> load_bits(const HeadView<const T, MemorySpace::device>& head,
                                    std::int64_t row, std::int64_t channel) {
  if constexpr (Element<T>) {
    return kvevict::detail::bit_cast<ElementBits<T>>(head(row, channel));
  } else {
    return kvevict::detail::bit_cast<ElementBits<T>>(head.value(row, channel));
  }
}

/// The numbers of a piece as floats, exactly.
template <class T>
__device__ void widen(const Piece& piece, float (&values)[piece_size<T>]) {
  const std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
  KVEVICT_UNROLL
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<Loaded<T>, float>) {
      values[i] = kvevict::detail::bit_cast<float>(words[i]);
    } else if constexpr (std::is_same_v<T, half>) {
      const auto number = [](std::uint32_t bits) {
        return __half2float(__half_raw{static_cast<unsigned short>(bits)});
      };
      values[2 * i] = number(words[i] & 0xffffu);
      values[2 * i + 1] = number(words[i] >> 16);
    } else {
      values[2 * i] = kvevict::detail::bit_cast<float>(words[i] << 16);
      values[2 * i + 1] = kvevict::detail::bit_cast<float>(words[i] & 0xffff0000u);
    }
  }
}

}  // namespace kvevict::cuda
