// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <kvevict/cpu/resources.hpp>
#include <kvevict/output_projection.hpp>
#include <kvevict/probes.hpp>
#include <kvevict/query_stats.hpp>
#include <kvevict/refit.hpp>

#include "key_evidence.hpp"
#include "mini_llama/engine.hpp"
#include "model_evidence.hpp"
#include "model_policy.hpp"
#include "query_capture.hpp"

namespace demo {

/// What policies are told about a context, for all heads of the model.
class ContextEvidence {
 public:
  /// `replay` is what replay_of gives for the context.
  explicit ContextEvidence(std::vector<mini_llama::TokenId> replay) : replay_(std::move(replay)) {}

  /// Collects what `policy` needs and is not there yet; query statistics, probes and the query
  /// window always. For KVzip the model reads the replay. `probes` say which (their next_position
  /// is the context's end), `whole_projection` asks for W_O itself in the place of its factors.
  void collect(kvevict::CpuResources& res, mini_llama::Engine& engine,
               mini_llama::RaggedCache& cache, const QueryCapture& queries,
               const ModelPolicy& policy, kvevict::FutureProbesOptions probes = {},
               bool whole_projection = false);

  /// Refers to this object.
  kvevict::Evidence<> view();

 private:
  std::optional<kvevict::QueryWindow<>> window_;
  std::optional<kvevict::QueryStats> stats_;
  std::optional<kvevict::Probes> probes_;
  kvevict::FutureProbesOptions probes_are_;
  std::optional<kvevict::ProjectionFactors> projection_;
  std::optional<WholeProjection> whole_projection_;
  std::optional<UnrotatedKeys> keys_before_rope_;
  std::vector<float> query_filters_;
  std::vector<mini_llama::TokenId> replay_;
  std::optional<kvevict::KVzip::State> replayed_;
  std::optional<kvevict::H2O> observed_;  // whose mass it is
  std::optional<kvevict::H2O::State> mass_;
  bool from_replay_ = false;  // which mass the last policy asked for
  bool whole_ = false;        // and which projection
};

enum class BudgetKind { uniform, global };

/// What is done to the kept rows before they are compacted.
enum class RefitKind { none, values, absorbed };

std::string_view name_of(BudgetKind kind);
std::string_view name_of(RefitKind kind);

/// How much one eviction keeps, and where.
struct EvictionPlan {
  double evict_ratio;
  BudgetKind budget;
  RefitKind refit;
  kvevict::Protect protect;
  /// Global budgets: what every head keeps at least, as a share of what a uniform budget leaves it.
  double floor = 0.0;
  kvevict::RefitOptions refitting = {};  ///< its mass is what `refit` says
  bool critical = false;                 ///< CriticalKV around the policy
};

struct EvictionOutcome {
  double milliseconds;        ///< scores, selection, refit and compaction
  double refit_milliseconds;  ///< of which the refit
  kvevict::Report report;
};

/// Evicts and compacts the engine's cache in place, and gives the memory of the evicted rows back.
EvictionOutcome evict_cache(kvevict::CpuResources& res, mini_llama::RaggedCache& cache,
                            const ModelPolicy& policy, const kvevict::Evidence<>& evidence,
                            const EvictionPlan& plan);

}  // namespace demo
