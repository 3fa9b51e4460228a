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
  /// cache. `given` is evidence that is not collected (output projections).
  mini_llama::Matrix forward(kvevict::CpuResources& res,
                             std::span<const mini_llama::TokenId> tokens,
                             std::span<const mini_llama::Index> logit_rows,
                             const kvevict::Evidence<>& given = {});

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
  mini_llama::Engine* engine_;
  mini_llama::RaggedCache cache_;
  kvevict::DecodeEvictor<kvevict::AnyPolicy> evictor_;
  BudgetKind budget_;
  QueryCapture queries_;
  kvevict::Selection kept_;
};

}  // namespace demo
