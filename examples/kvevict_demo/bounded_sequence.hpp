// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kvevict/any_policy.hpp>
#include <kvevict/cpu/resources.hpp>
#include <kvevict/decode_evictor.hpp>

#include "mini_llama/engine.hpp"
#include "model_eviction/eviction.hpp"
#include "model_eviction/query_capture.hpp"

namespace demo {

struct BoundedChunk;

/// How a sequence is kept within a limit.
struct SequenceLimit {
  kvevict::DecodeSchedule schedule;
  BudgetKind budget = BudgetKind::uniform;  ///< global: heads share the limit
};

/// A sequence whose cache keeps a limit: the engine's cache, and an evictor that is told before and
/// after every chunk. The model must outlive it.
class BoundedSequence {
 public:
  BoundedSequence(mini_llama::Engine& engine, mini_llama::RowType rows,
                  const kvevict::AnyPolicy& policy, const SequenceLimit& limit);

  /// Feeds tokens as one chunk, with room made for them first: engine.forward over the bounded
  /// cache. `given` is evidence that is not collected (output projections, query filters); keys
  /// before RoPE are made from the cached ones when they are needed.
  mini_llama::Matrix forward(kvevict::CpuResources& res,
                             std::span<const mini_llama::TokenId> tokens,
                             std::span<const mini_llama::Index> logit_rows,
                             const kvevict::Evidence<>& given = {});

  /// Milliseconds that the eviction, the collecting of its evidence and the moving of rows took in
  /// the last chunk: what the limit costs, beside the attention.
  double evictor_milliseconds() const { return evictor_milliseconds_; }

  const mini_llama::RaggedCache& cache() const { return cache_; }
  std::int64_t next_position() const { return evictor_.next_position(); }
  /// Bytes of what the evictor has collected beside the cache, as saved.
  std::int64_t state_bytes(kvevict::CpuResources& res) const {
    return static_cast<std::int64_t>(evictor_.save(res).size());
  }

  /// Cache and evictor as one checked blob, and back, in another process too: throws kvevict::Error
  /// for a blob that is damaged, or of another model, row type or policy; nothing is changed then.
  std::vector<std::byte> save(kvevict::CpuResources& res) const;
  void restore(kvevict::CpuResources& res, std::span<const std::byte> blob);

 private:
  friend std::vector<mini_llama::Matrix> forward_together(kvevict::CpuResources& res,
                                                          mini_llama::Engine& engine,
                                                          std::span<const BoundedChunk> chunks,
                                                          const kvevict::Evidence<>& given);

  /// Before and after the engine has fed `tokens` tokens.
  void make_room(kvevict::CpuResources& res, std::int64_t tokens, kvevict::Evidence<> given);
  void observe(kvevict::CpuResources& res, std::int64_t tokens);

  mini_llama::Engine* engine_;
  mini_llama::RaggedCache cache_;
  kvevict::DecodeEvictor<kvevict::AnyPolicy> evictor_;
  BudgetKind budget_;
  QueryCapture queries_;
  kvevict::Selection kept_;
  double evictor_milliseconds_ = 0.0;
};

/// The next chunk of one sequence among several.
struct BoundedChunk {
  BoundedSequence& sequence;
  std::span<const mini_llama::TokenId> tokens;
  std::span<const mini_llama::Index> logit_rows;
};

/// Feeds the chunks of several sequences at once, each with its own policy and limit, with room
/// made in each: engine.forward over all of them, whose weights are read once. Returns the logits
/// of each.
std::vector<mini_llama::Matrix> forward_together(kvevict::CpuResources& res,
                                                 mini_llama::Engine& engine,
                                                 std::span<const BoundedChunk> chunks,
                                                 const kvevict::Evidence<>& given = {});

}  // namespace demo
