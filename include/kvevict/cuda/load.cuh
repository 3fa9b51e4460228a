// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kvevict/core/element.hpp"
#include "kvevict/core/head_view.hpp"
#include "kvevict/cuda/compat.cuh"

namespace kvevict::cuda {

/// Rows are read in pieces of 16 bytes, the widest load a thread has: 4 floats or 8 numbers of 16
/// bits. A piece travels as bits (4 registers, whatever its type), so that several can be on their
/// way before the first is widened to floats.
using Piece = uint4;

template <class T>
inline constexpr int piece_size = 16 / static_cast<int>(sizeof(T));

/// Pieces of a row of `dim` channels; the last one may be partly outside.
template <class T>
KVEVICT_HOST_DEVICE constexpr int pieces_of(std::int64_t dim) {
  return static_cast<int>((dim + piece_size<T> - 1) / piece_size<T>);
}

/// Whether every piece of every row of a head is 16 adjacent, aligned bytes. Found in the kernel,
/// once for a block, since heads may come from a table of pointers.
template <class T>
__device__ bool in_whole_pieces(const HeadView<T, MemorySpace::device>& head) {
  constexpr std::int64_t size = piece_size<T>;
  return head.channel_stride == 1 && head.row_stride % size == 0 && head.dim % size == 0 &&
         head.page_stride % size == 0 && reinterpret_cast<std::uintptr_t>(head.data) % 16 == 0;
}

/// Piece `piece` from `start` on, of rows that are in whole pieces and that no thread writes to.
template <class T>
__device__ Piece load_piece(const T* start, int piece) {
  return __ldg(reinterpret_cast<const Piece*>(start) + piece);
}

/// The bits of one number: what a piece is put together from where rows are not in whole pieces.
template <class T>
using ElementBits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

template <class T>
__device__ ElementBits<T> bits_of(T value) {
  return kvevict::detail::bit_cast<ElementBits<T>>(value);
}

/// The numbers of a piece as floats, exactly.
template <class T>
__device__ void widen(const Piece& piece, float (&values)[piece_size<T>]) {
  const std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
  KVEVICT_UNROLL
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, float>) {
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
