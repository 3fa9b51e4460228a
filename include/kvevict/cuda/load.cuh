// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kvevict/core/element.hpp"
#include "kvevict/core/view.hpp"
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
__device__ bool in_whole_pieces(const MatrixView<T, MemorySpace::device>& head) {
  constexpr std::int64_t size = piece_size<T>;
  return head.stride[1] == 1 && head.stride[0] % size == 0 && head.shape[1] % size == 0 &&
         reinterpret_cast<std::uintptr_t>(head.data) % 16 == 0;
}

namespace detail {

/// The bits of element `c` of a row, 0 outside: what a sum does not notice.
template <class T>
__device__ std::uint32_t element_bits(const T* row, std::int64_t stride, std::int64_t dim,
                                      std::int64_t c) {
  if (c >= dim) return 0;
  if constexpr (sizeof(T) == 4) {
    return kvevict::detail::bit_cast<std::uint32_t>(row[c * stride]);
  } else {
    return row[c * stride].bits;
  }
}

}  // namespace detail

/// Piece `piece` of row `row` of a head that no thread writes to; channels behind the last are 0.
/// With `Whole`, one load of 16 bytes: the head must be `in_whole_pieces` and the piece inside.
template <bool Whole, class T>
__device__ Piece load_piece(const MatrixView<const T, MemorySpace::device>& head, std::int64_t row,
                            int piece) {
  const T* start = head.data + row * head.stride[0];
  const std::int64_t first = std::int64_t{piece} * piece_size<T>;
  if constexpr (Whole) {
    return __ldg(reinterpret_cast<const Piece*>(start + first));
  } else {
    const auto word = [&](int i) {
      const auto bits = [&](int k) {
        return detail::element_bits(start, head.stride[1], head.shape[1], first + k);
      };
      if constexpr (sizeof(T) == 4) {
        return bits(i);
      } else {
        return bits(2 * i) | (bits(2 * i + 1) << 16);
      }
    };
    return Piece{word(0), word(1), word(2), word(3)};
  }
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

/// Writes rows [first, first + count) of a head as floats to shared memory, `to`[rows][pitch], by
/// all threads of a block; rows from `count` to `rows` and channels from dim to `pitch` become
/// zeros. `to` is aligned to 16 bytes and `pitch` a multiple of 8. Visible after the next barrier.
template <class T>
__device__ void load_rows(const MatrixView<const T, MemorySpace::device>& head, std::int64_t first,
                          int count, int rows, int pitch, float* to) {
  constexpr int size = piece_size<T>;
  const bool whole = in_whole_pieces(head);
  const int inside = pieces_of<T>(head.shape[1]);
  const int pieces = pitch / size;
  const int threads = static_cast<int>(blockDim.x);
  for (int i = static_cast<int>(threadIdx.x); i < rows * pieces; i += threads) {
    const int row = i / pieces;
    const int piece = i % pieces;
    Piece bits{0, 0, 0, 0};
    if (row < count && piece < inside) {
      bits = whole ? load_piece<true>(head, first + row, piece)
                   : load_piece<false>(head, first + row, piece);
    }
    float values[size];
    widen<T>(bits, values);
    KVEVICT_UNROLL
    for (int k = 0; k < size; k += 4) {
      *reinterpret_cast<float4*>(to + row * pitch + piece * size + k) =
          float4{values[k], values[k + 1], values[k + 2], values[k + 3]};
    }
  }
}

}  // namespace kvevict::cuda
