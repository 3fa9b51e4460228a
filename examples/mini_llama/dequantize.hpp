// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "tensor_type.hpp"

namespace mini_llama {

// Decodes whole blocks of a tensor to fp32, element order kept. `blocks` need not be aligned.
// Throws ArgumentError unless `out` has room for exactly the elements of `blocks`.
// Formulas per block, q unsigned unless said otherwise, d and m half:
//   Q8_0: y = d q, q signed          Q4_0: y = d (q - 8)        Q4_1: y = d q + m
//   Q5_0: y = d (q - 16)             Q5_1: y = d q + m
//   Q4_K: y = (d s) q - (m t), with 6-bit s and t per 32 elements
//   Q6_K: y = (d s) (q - 32), with signed 8-bit s per 16 elements
void dequantize(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace mini_llama
