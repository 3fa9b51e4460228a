// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mini_llama {

// Storage types of tensors that this engine reads, with their numbers in a GGUF file.
enum class TensorType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q6_k = 14,
  bf16 = 30,
};

// A tensor is stored in blocks of `block_elements` consecutive elements of a row, each block in
// `block_bytes` bytes.
struct TensorTypeInfo {
  TensorType type;
  std::string_view name;
  std::uint64_t block_elements;
  std::uint64_t block_bytes;
};

inline constexpr std::array<TensorTypeInfo, 10> tensor_types{{
    {TensorType::f32, "F32", 1, 4},
    {TensorType::f16, "F16", 1, 2},
    {TensorType::q4_0, "Q4_0", 32, 18},
    {TensorType::q4_1, "Q4_1", 32, 20},
    {TensorType::q5_0, "Q5_0", 32, 22},
    {TensorType::q5_1, "Q5_1", 32, 24},
    {TensorType::q8_0, "Q8_0", 32, 34},
    {TensorType::q4_k, "Q4_K", 256, 144},
    {TensorType::q6_k, "Q6_K", 256, 210},
    {TensorType::bf16, "BF16", 1, 2},
}};

// The entry of a type number, or nullptr if the engine does not read that type.
constexpr const TensorTypeInfo* find_tensor_type(std::uint32_t number) {
  for (const TensorTypeInfo& info : tensor_types) {
    if (static_cast<std::uint32_t>(info.type) == number) return &info;
  }
  return nullptr;
}

constexpr const TensorTypeInfo& tensor_type_info(TensorType type) {
  return *find_tensor_type(static_cast<std::uint32_t>(type));
}

}  // namespace mini_llama
