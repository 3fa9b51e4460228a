// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "attention.hpp"
#include "matrix.hpp"
#include "model.hpp"
#include "ragged_cache.hpp"
#include "thread_pool.hpp"
#include "tokenizer.hpp"

namespace mini_llama {

// The queries of one layer for one chunk of tokens, before and after RoPE, both
// [token][query head][key_dim] and contiguous. Valid during the call only.
struct LayerQueries {
  Index layer;
  std::span<const std::int32_t> positions;  // [token]
  ConstMatrixRef pre_rope;                  // [tokens, query heads * key_dim]
  ConstMatrixRef post_rope;                 // the same shape
};

// Called once per layer and chunk, in order, from the calling thread. An exception ends the pass.
using QueryObserver = std::function<void(const LayerQueries&)>;

// Tokens done and to do. An exception (to cancel, say) ends the pass.
using Progress = std::function<void(Index done, Index total)>;

// What Engine::forward takes, of one sequence among several.
struct SequenceChunk {
  RaggedCache& cache;
  std::span<const TokenId> tokens;
  std::span<const Index> logit_rows;
  QueryObserver observer;
};

// Runs a model over sequences, each of which is a RaggedCache. Same result for any number of
// threads. The model must outlive the engine. One call at a time.
class Engine {
 public:
  // Throws ArgumentError unless 1 <= threads <= 1024.
  Engine(const Model& model, int threads);

  const Model& model() const { return model_; }
  int threads() const { return pool_.threads(); }

  // An empty cache of the model's shape.
  RaggedCache make_cache(RowType type) const;

  // Feeds tokens at the sequence's next positions, as one chunk: every token sees the rows of the
  // cache at its position or before, the chunk's own included; the chunk's rows are appended to
  // every head. Returns the next-token logits [logit_rows, vocabulary] of the chunk's tokens whose
  // numbers logit_rows lists; logits cost as much as four layers, so ask for what is needed. Throws
  // ArgumentError, before anything changes, for an empty chunk, a token or row number out of range,
  // a sequence that would exceed the model's context, or a cache of another shape or with unordered
  // positions. If anything fails later the cache is put back as it was.
  Matrix forward(RaggedCache& cache, std::span<const TokenId> tokens,
                 std::span<const Index> logit_rows, const QueryObserver& observer = {});

  // forward() for several sequences at once, which stand where they like: the weights are read once
  // for all. Each gets what it would get alone up to the rounding of matrix products, whose order
  // of summation depends on the number of tokens. Returns the logits of each. Throws ArgumentError
  // also for no sequence and for the same cache twice; if anything fails all caches are as they
  // were.
  std::vector<Matrix> forward(std::span<const SequenceChunk> chunks);

  // As forward, in chunks of `chunk` tokens, and returns the logits [vocabulary] after the last
  // token. If a chunk fails, those before it stay in the cache.
  Vector prefill(RaggedCache& cache, std::span<const TokenId> tokens, Index chunk = 256,
                 const Progress& progress = {}, const QueryObserver& observer = {});

  // One token; returns the logits [vocabulary] after it.
  Vector decode(RaggedCache& cache, TokenId token);

  // attend() of attention.hpp with this engine's threads: what a layer's queries read from a cache.
  Matrix attention_output(const RaggedCache& cache, Index layer, const Queries& queries);

 private:
  struct Activations;

  void check_arguments(const RaggedCache& cache, std::span<const TokenId> tokens,
                       std::span<const Index> logit_rows) const;
  void run_layers(std::span<const SequenceChunk> chunks, Activations& a);
  void attend_layer(std::span<const SequenceChunk> chunks, Index layer, Activations& a);
  void append_rows(RaggedCache& cache, Index layer, Index first, Index tokens, Activations& a);
  std::vector<Matrix> compute_logits(std::span<const SequenceChunk> chunks, const Matrix& hidden);

  const Model& model_;
  ThreadPool pool_;
  std::vector<AttentionScratch> scratch_;
};

// Number of the largest logit, the first among equals.
TokenId argmax(const Vector& logits);

// Greedy decoding from the logits of the last token: up to `count` tokens, each fed back;
// `on_token` sees every token and returns false to stop after it. Returns the tokens, without `end`
// at which it stops.
std::vector<TokenId> generate(Engine& engine, RaggedCache& cache, const Vector& logits, Index count,
                              std::optional<TokenId> end,
                              const std::function<bool(TokenId)>& on_token = {});

}  // namespace mini_llama
