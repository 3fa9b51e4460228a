// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvevict/cpu/resources.hpp>

#include "case.hpp"
#include "cell.hpp"
#include "method.hpp"
#include "mini_llama/engine.hpp"
#include "model_eviction/eviction.hpp"
#include "model_eviction/metrics.hpp"
#include "prefill_store.hpp"

namespace evaluate {

/// One context under measurement: what the model has read, and what the full cache makes of what
/// follows.
class Measurement {
 public:
  /// Keeps of the answers those that the full cache gives: each of their tokens is the most
  /// probable one. Throws LeftOut when there were some and none is left. `context` names the cells,
  /// `replay` is what the model reads again for policies that ask for it.
  Measurement(kvevict::CpuResources& res, mini_llama::Engine& engine, const Case& c,
              Prefill prefill, Cell context, std::vector<mini_llama::TokenId> replay);

  /// Answers that the full cache does not give.
  std::int64_t unanswered() const { return unanswered_; }

  /// The full cache's own cell.
  Cell full() const;

  /// Evicts a copy and measures it.
  Cell evict(const Method& method, const demo::EvictionPlan& plan);

 private:
  kvevict::Evidence<> evidence_for(const Method& method);
  std::vector<AnswerResult> answers_of(const std::vector<double>& next,
                                       const mini_llama::RaggedCache& cache) const;

  kvevict::CpuResources& res_;
  mini_llama::Engine& engine_;
  Case case_;
  Prefill prefill_;
  Cell context_;
  demo::Reference reference_;
  demo::ContextEvidence evidence_;
  std::int64_t unanswered_ = 0;
};

/// The name of a cell: that of its context, the method's and the plan's.
Cell name_cell(const Cell& context, const Method& method, const demo::EvictionPlan& plan);

/// Ascending positions as text: 0-3;8;20-31.
std::string ranges_of(std::span<const std::int32_t> positions);

/// Share of the heads of a cache that hold all rows of the evidence.
double survival(const mini_llama::RaggedCache& cache, const std::vector<TokenSpan>& evidence);

}  // namespace evaluate
