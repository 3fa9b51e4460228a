// SPDX-License-Identifier: Apache-2.0
#include "dequantize.hpp"

#include <cstdint>

#include "byte_reader.hpp"
#include "error.hpp"
#include "half.hpp"

namespace mini_llama {
namespace {

float half_at(const std::byte* bytes) {
  return half_to_float(load_unaligned<std::uint16_t>(bytes));
}
int byte_at(const std::byte* bytes) { return std::to_integer<int>(*bytes); }

void decode_f32(const std::byte* block, float* out) { *out = load_unaligned<float>(block); }
void decode_f16(const std::byte* block, float* out) { *out = half_at(block); }
void decode_bf16(const std::byte* block, float* out) {
  *out = bfloat16_to_float(load_unaligned<std::uint16_t>(block));
}

void decode_q8_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(load_unaligned<std::int8_t>(block + 2 + i));
  }
}

// 32 elements in 16 bytes: the low nibbles are the first half of the block, the high ones the
// second. Adds the fifth bit of element i from bit i of `high_bits`, scales and shifts.
void decode_nibbles(const std::byte* bytes, std::uint32_t high_bits, float d, float m, float* out) {
  for (int i = 0; i < 16; ++i) {
    const int byte = byte_at(bytes + i);
    const int low = (byte & 15) | static_cast<int>(high_bits >> i & 1u) << 4;
    const int high = (byte >> 4) | static_cast<int>(high_bits >> (i + 16) & 1u) << 4;
    out[i] = d * static_cast<float>(low) + m;
    out[i + 16] = d * static_cast<float>(high) + m;
  }
}

void decode_q4_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_nibbles(block + 2, 0, d, -8.0f * d, out);
}

void decode_q4_1(const std::byte* block, float* out) {
  decode_nibbles(block + 4, 0, half_at(block), half_at(block + 2), out);
}

void decode_q5_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  decode_nibbles(block + 6, load_unaligned<std::uint32_t>(block + 2), d, -16.0f * d, out);
}

void decode_q5_1(const std::byte* block, float* out) {
  const auto high_bits = load_unaligned<std::uint32_t>(block + 4);
  decode_nibbles(block + 8, high_bits, half_at(block), half_at(block + 2), out);
}

struct ScaleAndMin {
  int scale;
  int min;
};

// Eight six-bit scales and eight six-bit minima in 12 bytes: the first four of each use the low six
// bits of a byte, the others are put together from nibbles and the spare two bits.
ScaleAndMin unpack_q4_k(const std::byte* packed, int i) {
  const auto at = [packed](int j) { return byte_at(packed + j); };
  if (i < 4) return {at(i) & 63, at(i + 4) & 63};
  return {(at(i + 4) & 15) | (at(i - 4) >> 6) << 4, (at(i + 4) >> 4) | (at(i) >> 6) << 4};
}

void decode_q4_k(const std::byte* block, float* out) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const auto [scale, min] = unpack_q4_k(block + 4, sub);
    const float step = d * static_cast<float>(scale);
    const float shift = dmin * static_cast<float>(min);
    // Two sub-blocks share 32 bytes: the even one has the low nibbles.
    const std::byte* nibbles = block + 16 + sub / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int q = byte_at(nibbles + i) >> (sub % 2 * 4) & 15;
      out[sub * 32 + i] = step * static_cast<float>(q) - shift;
    }
  }
}

void decode_q6_k(const std::byte* block, float* out) {
  const float d = half_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    // Each half block of 128 has 64 bytes of low nibbles, 32 bytes of upper bit pairs and 8 scales;
    // its four quarters of 32 take turns in them.
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int lane = i % 32;
    const int low_byte = byte_at(block + half * 64 + quarter % 2 * 32 + lane);
    const int low = low_byte >> (quarter / 2 * 4) & 15;
    const int high = byte_at(block + 128 + half * 32 + lane) >> (quarter * 2) & 3;
    const int scale = load_unaligned<std::int8_t>(block + 192 + i / 16);
    out[i] = d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
  }
}

template <TensorType type, void (*decode)(const std::byte*, float*)>
void decode_blocks(std::span<const std::byte> blocks, float* out) {
  constexpr TensorTypeInfo info = tensor_type_info(type);
  for (std::size_t at = 0; at < blocks.size(); at += info.block_bytes) {
    decode(blocks.data() + at, out);
    out += info.block_elements;
  }
}

}  // namespace

void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
  const TensorTypeInfo& info = tensor_type_info(type);
  if (out.size() % info.block_elements != 0 ||
      blocks.size() != out.size() / info.block_elements * info.block_bytes) {
    throw ArgumentError(concat("dequantize: ", blocks.size(), " bytes of ", info.name,
                               " do not hold exactly ", out.size(), " elements"));
  }
  switch (type) {
    case TensorType::f32:
      return decode_blocks<TensorType::f32, decode_f32>(blocks, out.data());
    case TensorType::f16:
      return decode_blocks<TensorType::f16, decode_f16>(blocks, out.data());
    case TensorType::bf16:
      return decode_blocks<TensorType::bf16, decode_bf16>(blocks, out.data());
    case TensorType::q8_0:
      return decode_blocks<TensorType::q8_0, decode_q8_0>(blocks, out.data());
    case TensorType::q4_0:
      return decode_blocks<TensorType::q4_0, decode_q4_0>(blocks, out.data());
    case TensorType::q4_1:
      return decode_blocks<TensorType::q4_1, decode_q4_1>(blocks, out.data());
    case TensorType::q5_0:
      return decode_blocks<TensorType::q5_0, decode_q5_0>(blocks, out.data());
    case TensorType::q5_1:
      return decode_blocks<TensorType::q5_1, decode_q5_1>(blocks, out.data());
    case TensorType::q4_k:
      return decode_blocks<TensorType::q4_k, decode_q4_k>(blocks, out.data());
    case TensorType::q6_k:
      return decode_blocks<TensorType::q6_k, decode_q6_k>(blocks, out.data());
  }
}

}  // namespace mini_llama
