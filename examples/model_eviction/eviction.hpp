// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <kvevict/any_policy.hpp>
#include <kvevict/cpu/resources.hpp>
#include <kvevict/output_projection.hpp>
#include <kvevict/probes.hpp>
#include <kvevict/query_stats.hpp>

#include "key_evidence.hpp"
#include "mini_llama/engine.hpp"
#include "query_capture.hpp"

namespace demo {

/// What policies are told about a context, for all heads of the model.
class ContextEvidence {
 public:
  /// Collects what `policy` needs and is not there yet; query statistics, probes and the query
  /// window always.
  void collect(kvevict::CpuResources& res, const mini_llama::Model& model,
               mini_llama::RaggedCache& cache, const QueryCapture& queries,
               const kvevict::AnyPolicy& policy);

  /// Refers to this object.
  kvevict::Evidence<> view();

 private:
  std::optional<kvevict::QueryWindow<>> window_;
  std::optional<kvevict::QueryStats> stats_;
  std::optional<kvevict::Probes> probes_;
  std::optional<kvevict::ProjectionFactors> projection_;
  std::optional<UnrotatedKeys> keys_before_rope_;
  std::vector<float> query_filters_;
  std::optional<kvevict::H2O> observed_;  // whose mass it is
  std::optional<kvevict::H2O::State> mass_;
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
};

struct EvictionOutcome {
  double milliseconds;        ///< scores, selection, refit and compaction
  double refit_milliseconds;  ///< of which the refit
  kvevict::Report report;
};

/// Evicts and compacts the engine's cache in place, and gives the memory of the evicted rows back.
EvictionOutcome evict_cache(kvevict::CpuResources& res, mini_llama::RaggedCache& cache,
                            const kvevict::AnyPolicy& policy, const kvevict::Evidence<>& evidence,
                            const EvictionPlan& plan);

}  // namespace demo
