// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include <kvevict/cpu/resources.hpp>

#include "mini_llama/engine.hpp"
#include "mini_llama/tokenizer.hpp"
#include "options.hpp"

namespace demo {

/// Reads the text and generates on under the limit, with each policy, and prints what it took. No
/// text is read when the options say where to go on from.
void run_decoding(const Options& options, const mini_llama::Tokenizer& tokenizer,
                  std::span<const mini_llama::TokenId> text, mini_llama::Engine& engine,
                  kvevict::CpuResources& res);

}  // namespace demo
