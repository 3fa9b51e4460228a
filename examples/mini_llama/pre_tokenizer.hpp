// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace mini_llama {

// Cuts text into the pieces that merges never cross, as the pre-tokenizer "smollm" does: every
// number character is a piece of its own, and what lies between is cut by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// with the classes of unicode.hpp. The pieces joined are the text. Cost: linear.
std::vector<std::string_view> split_smollm(std::string_view text);

}  // namespace mini_llama
