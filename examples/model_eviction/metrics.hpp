// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mini_llama/engine.hpp"
#include "query_capture.hpp"

namespace demo {

/// What the full cache makes of the continuation: the yardstick of every eviction.
struct Reference {
  mini_llama::Matrix log_probabilities;       ///< [token][vocabulary]
  std::vector<mini_llama::TokenId> top;       ///< most probable next token after each
  QueryCapture queries;                       ///< of the continuation
  mini_llama::RaggedCache cache;              ///< context and continuation
  std::vector<mini_llama::Matrix> attention;  ///< [layer] outputs [token][query_head * dim]
  std::vector<double> next;                   ///< [token - 1] log p of the text's next token
  double loss = 0.0;                          ///< mean of -next
};

/// Runs the continuation over a copy of the context's full cache.
Reference run_reference(mini_llama::Engine& engine, const mini_llama::RaggedCache& context,
                        std::span<const mini_llama::TokenId> continuation);

/// How far an evicted cache is from the full one.
struct Distance {
  double mean_kl;                 ///< nats, full || evicted, over the continuation's tokens
  double kl_99;                   ///< the quantile 0.99 of the same
  double top1_agreement;          ///< share of tokens with the same most probable next token
  double attention_output_error;  ///< mean over layers, query heads and tokens of |o - o'| / |o|
  std::vector<double> next;       ///< [token - 1] log p of the text's next token
};

/// The smallest of the values that a share `q` of them, in (0, 1], does not exceed.
double quantile(std::vector<double> values, double q);

/// Continues with the same tokens over the evicted cache. For the attention error the queries and
/// the continuation's own rows are those of the reference, in both.
Distance measure(mini_llama::Engine& engine, const Reference& reference,
                 const mini_llama::RaggedCache& evicted,
                 std::span<const mini_llama::TokenId> continuation);

}  // namespace demo
