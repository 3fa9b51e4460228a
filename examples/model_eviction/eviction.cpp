// SPDX-License-Identifier: Apache-2.0
#include "eviction.hpp"

#include <algorithm>

#include <kvevict/kvevict.hpp>

#include "cache_view.hpp"
#include "milliseconds.hpp"
#include "replay.hpp"

namespace demo {

std::string_view name_of(BudgetKind kind) {
  return kind == BudgetKind::uniform ? "uniform" : "global";
}

std::string_view name_of(RefitKind kind) {
  if (kind == RefitKind::none) return "none";
  return kind == RefitKind::values ? "values" : "absorbed";
}

void ContextEvidence::collect(kvevict::CpuResources& res, mini_llama::Engine& engine,
                              mini_llama::RaggedCache& cache, const QueryCapture& queries,
                              const ModelPolicy& policy, kvevict::FutureProbesOptions probes,
                              bool whole_projection) {
  using kvevict::EvidenceKind;
  const kvevict::EvidenceSet needs = policy.needs();
  const mini_llama::Model& model = engine.model();
  const kvevict::Rope rope = rope_of(model);
  const std::int64_t tokens = queries.pre_rope_view().count();
  if (!window_) {
    window_ = {queries.post_rope_view(), kvevict::QueryPositions<>::consecutive(0)};
  }
  probes.next_position = tokens;
  if (!probes_ || probes != probes_are_) {
    probes_ = kvevict::future_probes(res, queries.pre_rope_view(), rope, probes);
    probes_are_ = probes;
  }
  const bool full = needs.contains(EvidenceKind::query_covariance_full);
  if (!stats_ || (full && stats_->covariance() != kvevict::Covariance::full)) {
    stats_ = kvevict::estimate_query_stats(
        res, queries.pre_rope_view(), rope,
        {.next_position = tokens,
         .covariance = full ? kvevict::Covariance::full : kvevict::Covariance::diagonal});
  }
  whole_ = whole_projection;
  if (whole_ && !whole_projection_) whole_projection_.emplace(model);
  if (!whole_ && needs.contains(EvidenceKind::output_projection) && !projection_) {
    projection_ = projection_of(res, model);
  }
  if (needs.contains(EvidenceKind::query_filter) && query_filters_.empty()) {
    const mini_llama::CacheShape& shape = cache.shape();
    query_filters_ = query_filters(res, queries.post_rope_view(), shape.layers * shape.kv_heads);
  }
  if (needs.contains(EvidenceKind::keys_before_rope) && !keys_before_rope_) {
    with_view(cache, [&](const auto& view) { keys_before_rope_.emplace(view, rope); });
  }
  const bool mass = needs.contains(EvidenceKind::attention_mass);
  const auto* h2o = std::get_if<kvevict::H2O>(&policy.variant());
  from_replay_ = mass && h2o == nullptr;
  if (from_replay_ && !replayed_) replayed_ = replayed_attention(res, engine, cache, replay_);
  if (mass && h2o != nullptr && observed_ != *h2o) {
    observed_ = *h2o;
    mass_.emplace(*h2o);
    with_view(cache, [&](const auto& view) { mass_->observe(res, view, *window_); });
  }
}

kvevict::Evidence<> ContextEvidence::view() {
  kvevict::Evidence<> evidence;
  evidence.query_window = window_;
  if (stats_) evidence.query_stats = stats_->view();
  if (probes_) evidence.probes = probes_->view();
  if (whole_) {
    evidence.output_projection = whole_projection_->view();
  } else if (projection_) {
    evidence.output_projection = projection_->view();
  }
  if (from_replay_) {
    evidence.attention_mass = replayed_->mass();
  } else if (mass_) {
    evidence.attention_mass = mass_->mass();
  }
  if (keys_before_rope_) evidence.keys_before_rope = keys_before_rope_->view();
  if (!query_filters_.empty()) {
    const std::int64_t dim = window_->queries.dim();
    evidence.query_filter = {kvevict::MatrixView<const float>::packed(
        query_filters_.data(), static_cast<std::int64_t>(query_filters_.size()) / dim, dim)};
  }
  return evidence;
}

namespace {

template <class P>
void select(kvevict::CpuResources& res, kvevict::Selection& kept, const P& policy, const auto& view,
            const kvevict::Evidence<>& evidence, const EvictionPlan& plan) {
  const auto budget = kvevict::Budget::evict_ratio(plan.evict_ratio);
  if (plan.budget == BudgetKind::uniform) {
    kvevict::evict_into(res, kept, policy, view, evidence, budget, plan.protect);
    return;
  }
  const auto rows = static_cast<double>(view.layout().total() / view.heads());
  const auto floor = static_cast<std::int64_t>(plan.floor * (1.0 - plan.evict_ratio) * rows);
  // Scores that were not made for it are compared all the same: the table marks such rows.
  kvevict::evict_into(
      res, kept, policy, view, evidence, budget, plan.protect,
      kvevict::GlobalBudget{.floor = std::max<std::int64_t>(1, floor), .allow_incomparable = true});
}

}  // namespace

EvictionOutcome evict_cache(kvevict::CpuResources& res, mini_llama::RaggedCache& cache,
                            const ModelPolicy& policy, const kvevict::Evidence<>& evidence,
                            const EvictionPlan& plan) {
  EvictionOutcome outcome{};
  kvevict::Selection kept;
  with_view(cache, [&](const auto& view) {
    const auto start = Clock::now();
    if (plan.critical) {
      select(res, kept, kvevict::CriticalKV<ModelPolicy>{policy}, view, evidence, plan);
    } else {
      select(res, kept, policy, view, evidence, plan);
    }
    if (plan.refit == RefitKind::none) {
      kvevict::compact(res, kept, view);
    } else {
      const auto refit_start = Clock::now();
      kvevict::RefitOptions options = plan.refitting;
      options.mass = plan.refit == RefitKind::absorbed ? kvevict::RefitMass::absorbed
                                                       : kvevict::RefitMass::none;
      kvevict::refit_and_compact(res, kept, view, *evidence.probes, options);
      outcome.refit_milliseconds = milliseconds_since(refit_start);
    }
    outcome.milliseconds = milliseconds_since(start);
  });
  outcome.report = kept.report();
  keep_rows(cache, kept);
  return outcome;
}

}  // namespace demo
