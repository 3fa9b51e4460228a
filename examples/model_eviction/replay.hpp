// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include <kvevict/cpu/resources.hpp>
#include <kvevict/policies/kvzip.hpp>

#include "mini_llama/engine.hpp"

namespace demo {

/// What a model reads again behind the cache: a prompt that asks for the context, and the context.
std::vector<mini_llama::TokenId> replay_of(const mini_llama::Tokenizer& tokenizer,
                                           std::span<const mini_llama::TokenId> context);

/// What the rows of a cache receive from a replay: the evidence of kvevict::KVzip. `cache` holds
/// every row of the context and is put back afterwards. Takes what reading the context takes, with
/// as many rows to attend to in addition.
kvevict::KVzip::State replayed_attention(kvevict::CpuResources& res, mini_llama::Engine& engine,
                                         mini_llama::RaggedCache& cache,
                                         std::span<const mini_llama::TokenId> replay);

}  // namespace demo
