// SPDX-License-Identifier: Apache-2.0
#include "measurement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "choices.hpp"

namespace evaluate {

using mini_llama::Index;

namespace {

/// The queries of what follows, over all rows of the context.
kvevict::ProbeQueries<> future_of(const demo::Reference& reference) {
  const kvevict::QueriesView<> queries = reference.queries.post_rope_view();
  const auto first = reference.cache.next_position() - static_cast<std::int32_t>(queries.count());
  return {queries, kvevict::QueryPositions<>::consecutive(first), kvevict::ProbeMask::none};
}

bool is_given(const Answer& answer, const std::vector<mini_llama::TokenId>& continuation,
              const std::vector<mini_llama::TokenId>& top) {
  for (std::int64_t t = answer.tokens.begin; t < answer.tokens.end; ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (top[at - 1] != continuation[at]) return false;
  }
  return true;
}

std::string kept_of(const mini_llama::RaggedCache& cache) {
  return ranges_of(cache.positions(cache.shape().layers / 2, 0));
}

}  // namespace

Measurement::Measurement(kvevict::CpuResources& res, mini_llama::Engine& engine, const Case& c,
                         Prefill prefill, Cell context, std::vector<mini_llama::TokenId> replay)
    : res_(res),
      engine_(engine),
      case_(c),
      prefill_(std::move(prefill)),
      context_(std::move(context)),
      reference_(demo::run_reference(engine, prefill_.cache, c.continuation)),
      evidence_(std::move(replay)) {
  unanswered_ = static_cast<std::int64_t>(std::erase_if(case_.answers, [&](const Answer& answer) {
    return !is_given(answer, case_.continuation, reference_.top);
  }));
  if (unanswered_ > 0 && case_.answers.empty()) {
    throw LeftOut("the full cache answers none of its " + std::to_string(unanswered_) +
                  " questions");
  }
}

Cell Measurement::full() const {
  Cell cell = context_;
  cell.policy = "full";
  cell.budget = "uniform";
  cell.refit = "none";
  cell.rows_before = cell.rows_after = prefill_.cache.total_rows();
  cell.top1 = 1.0;
  cell.loss = reference_.loss;
  cell.kept = kept_of(prefill_.cache);
  cell.answers = answers_of(reference_.next, prefill_.cache);
  return cell;
}

Cell Measurement::evict(const Method& method, const demo::EvictionPlan& plan) {
  Cell cell = name_cell(context_, method, plan);
  const kvevict::Evidence<> evidence = evidence_for(method);
  mini_llama::RaggedCache cache = prefill_.cache;
  cell.rows_before = cache.total_rows();
  const demo::EvictionOutcome outcome =
      demo::evict_cache(res_, cache, method.policy, evidence, plan);
  cell.rows_after = cache.total_rows();
  cell.evict_ms = outcome.milliseconds;
  cell.refit_ms = outcome.refit_milliseconds;
  const demo::Distance distance = demo::measure(engine_, reference_, cache, case_.continuation);
  cell.error = distance.attention_output_error;
  cell.mean_kl = distance.mean_kl;
  cell.kl_99 = distance.kl_99;
  cell.top1 = distance.top1_agreement;
  cell.loss = -std::accumulate(distance.next.begin(), distance.next.end(), 0.0) /
              static_cast<double>(distance.next.size());
  cell.kept = kept_of(cache);
  cell.answers = answers_of(distance.next, cache);
  return cell;
}

kvevict::Evidence<> Measurement::evidence_for(const Method& method) {
  evidence_.collect(res_, engine_, prefill_.cache, prefill_.queries, method.policy, method.probes,
                    method.critical);
  kvevict::Evidence<> evidence = evidence_.view();
  if (method.sees_future) evidence.probes = future_of(reference_);
  return evidence;
}

std::vector<AnswerResult> Measurement::answers_of(const std::vector<double>& next,
                                                  const mini_llama::RaggedCache& cache) const {
  std::vector<AnswerResult> results;
  for (const Answer& answer : case_.answers) {
    // next[t - 1] is of token t.
    const auto begin = next.begin() + (answer.tokens.begin - 1);
    const auto end = next.begin() + (answer.tokens.end - 1);
    results.push_back({answer.depth,
                       std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin),
                       survival(cache, answer.evidence)});
  }
  return results;
}

Cell name_cell(const Cell& context, const Method& method, const demo::EvictionPlan& plan) {
  Cell cell = context;
  cell.policy = method.label;
  cell.budget = budget_label(plan);
  cell.refit = refit_label(plan);
  cell.sinks = plan.protect.sinks;
  cell.recent = plan.protect.recent;
  cell.evict_ratio = plan.evict_ratio;
  cell.incomparable =
      plan.budget == demo::BudgetKind::global && !method.comparable_across_heads() ? 1 : 0;
  return cell;
}

std::string ranges_of(std::span<const std::int32_t> positions) {
  std::string text;
  for (std::size_t begin = 0; begin < positions.size();) {
    std::size_t end = begin + 1;
    while (end < positions.size() && positions[end] == positions[end - 1] + 1) ++end;
    text.append(text.empty() ? "" : ";").append(std::to_string(positions[begin]));
    if (end > begin + 1) text.append("-").append(std::to_string(positions[end - 1]));
    begin = end;
  }
  return text;
}

double survival(const mini_llama::RaggedCache& cache, const std::vector<TokenSpan>& evidence) {
  const mini_llama::CacheShape& shape = cache.shape();
  std::int64_t survivors = 0;
  for (Index layer = 0; layer < shape.layers; ++layer) {
    for (Index head = 0; head < shape.kv_heads; ++head) {
      const auto positions = cache.positions(layer, head);
      // Positions ascend: all rows of a span are there if so many lie in it.
      const bool whole = std::all_of(evidence.begin(), evidence.end(), [&](const TokenSpan& span) {
        const auto begin = std::lower_bound(positions.begin(), positions.end(), span.begin);
        const auto end = std::lower_bound(begin, positions.end(), span.end);
        return end - begin == span.end - span.begin;
      });
      survivors += whole ? 1 : 0;
    }
  }
  return static_cast<double>(survivors) / static_cast<double>(shape.layers * shape.kv_heads);
}

}  // namespace evaluate
