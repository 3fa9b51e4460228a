// SPDX-License-Identifier: Apache-2.0
#include "policies/policy_inputs.hpp"

#include <cstddef>
#include <variant>

#include "kvevict/cpu/projection_factor.hpp"
#include "kvevict/decode_adapters.hpp"
#include "kvevict/output_projection.hpp"
#include "policies/any_policy_calls.hpp"
#include "support/backend.hpp"

namespace kvevict_test {

using namespace kvevict;

namespace {

template <class T>
std::vector<T> packed_as(const reference::Heads& heads) {
  std::vector<T> out;
  for (const float value : reference::packed_float(heads)) out.push_back(static_cast<T>(value));
  return out;
}

std::vector<std::int32_t> narrowed(const reference::Positions& positions) {
  return {positions.begin(), positions.end()};
}

QueriesView<> packed_queries(const std::vector<float>& values, const reference::Heads& heads) {
  return QueriesView<>::packed(values.data(), static_cast<std::int64_t>(heads.size()),
                               static_cast<std::int64_t>(heads[0].rows),
                               static_cast<std::int64_t>(heads[0].cols));
}

}  // namespace

template <class T>
PackedCache<T>::PackedCache(const reference::Inputs& inputs)
    : keys(packed_as<T>(inputs.keys)),
      values(packed_as<T>(inputs.values)),
      offsets(reference::row_offsets(inputs.keys)) {
  for (const reference::Positions& head : inputs.row_positions) {
    for (const std::int64_t position : head) {
      positions.push_back(static_cast<std::int32_t>(position));
    }
  }
  if (inputs.keys.empty()) return;
  key_dim = static_cast<std::int64_t>(inputs.keys[0].cols);
  value_dim = static_cast<std::int64_t>(inputs.values[0].cols);
}

template struct PackedCache<float>;
template struct PackedCache<half>;
template struct PackedCache<bfloat16>;

PolicyEvidence::PolicyEvidence(const reference::Inputs& inputs) {
  if (!inputs.queries.empty()) {
    queries_ = reference::packed_float(inputs.queries);
    query_positions_ = narrowed(inputs.positions_of_queries());
    evidence_.query_window = {packed_queries(queries_, inputs.queries),
                              QueryPositions<>::shared(query_positions_.data())};
  }
  if (!inputs.stats.mean.empty()) {
    const auto heads = static_cast<std::int64_t>(inputs.stats.mean.size());
    const std::size_t dim = inputs.stats.mean[0].size();
    for (std::size_t h = 0; h < inputs.stats.mean.size(); ++h) {
      const reference::Matrix& full = inputs.stats.covariance[h];
      for (std::size_t c = 0; c < dim; ++c) {
        mean_.push_back(static_cast<float>(inputs.stats.mean[h][c]));
        diagonal_.push_back(static_cast<float>(full(c, c)));
      }
      for (const double value : full.data) covariance_.push_back(static_cast<float>(value));
    }
    const auto d = static_cast<std::int64_t>(dim);
    evidence_.query_stats = {MatrixView<const float>::packed(mean_.data(), heads, d),
                             MatrixView<const float>::packed(diagonal_.data(), heads, d),
                             MatrixBatchView<const float>::packed(covariance_.data(), heads, d, d)};
  }
  if (!inputs.probes.empty()) {
    probes_ = reference::packed_float(inputs.probes);
    const bool masked = !inputs.probe_positions.empty();
    probe_positions_ = masked ? narrowed(inputs.probe_positions)
                              : std::vector<std::int32_t>(inputs.probes[0].rows, 0);
    evidence_.probes = {packed_queries(probes_, inputs.probes),
                        QueryPositions<>::shared(probe_positions_.data()),
                        masked ? ProbeMask::by_position : ProbeMask::none};
  }
  if (!inputs.output_projection.empty()) {
    const auto heads = static_cast<std::int64_t>(inputs.query_heads());
    const auto dim = static_cast<std::int64_t>(inputs.output_projection.cols) / heads;
    factors_ =
        projection_factors(reference::packed_float({inputs.output_projection}),
                           static_cast<std::int64_t>(inputs.output_projection.rows), heads, dim);
    evidence_.output_projection = {
        MatrixBatchView<const float>::packed(factors_.data(), heads, dim, dim)};
  }
  if (!inputs.query_filter.empty()) {
    query_filter_ = reference::packed_float({inputs.query_filter});
    evidence_.query_filter = {MatrixView<const float>::packed(
        query_filter_.data(), inputs.query_filter.rows, inputs.query_filter.cols)};
  }
  if (!inputs.keys_before_rope.empty()) {
    keys_before_rope_ = reference::packed_float(inputs.keys_before_rope);
    row_offsets_ = reference::row_offsets(inputs.keys_before_rope);
    const auto dim = static_cast<std::int64_t>(inputs.keys_before_rope[0].cols);
    const auto heads = static_cast<std::int64_t>(inputs.keys_before_rope.size());
    evidence_.keys_before_rope = {RowsView<const float>::packed(
        keys_before_rope_.data(), RowLayout<>::ragged(row_offsets_.data(), heads), dim, dim)};
  }
}

Evidence<> PolicyEvidence::with_mass(const H2O& policy, const PackedCache<float>& cache) {
  TestResources res({.threads = 1});
  H2O::State state(policy);
  observe(res, state, cache.view(), *evidence_.query_window);
  const AttentionMass<> mass = state.mass();
  mass_.assign(mass.data, mass.data + mass.layout.total());
  Evidence<> evidence = evidence_;
  evidence.attention_mass = {mass_.data(), cache.layout()};
  return evidence;
}

Evidence<> PolicyEvidence::for_policy(const TestPolicy& policy, const PackedCache<float>& cache) {
  if (!policy.needs().contains(EvidenceKind::attention_mass)) return evidence_;
  return with_mass(kvevict::accumulation_of(policy), cache);
}

std::vector<float> PolicyEvidence::all_values() const {
  std::vector<float> all;
  for (const auto* part : {&queries_, &mean_, &diagonal_, &covariance_, &probes_, &factors_,
                           &query_filter_, &keys_before_rope_}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  for (const auto* part : {&query_positions_, &probe_positions_}) {
    for (const std::int32_t position : *part) all.push_back(static_cast<float>(position));
  }
  return all;
}

std::vector<float> projection_factors(const std::vector<float>& w_o, std::int64_t hidden,
                                      std::int64_t heads, std::int64_t dim) {
  TestResources res({.threads = 1});
  ProjectionFactors factors(heads, dim);
  factors.add_layer(res, MatrixView<const float>::packed(w_o.data(), hidden, heads * dim));
  const MatrixBatchView<const float> view = factors.view().factors;
  return {view.data, view.data + view.size()};
}

TestPolicy make_policy(const std::string& name, const Pairs& parameters) {
  TestPolicy policy = TestPolicy::named(name);
  for (const auto& [parameter, value] : parameters) policy.set(parameter, value);
  return policy;
}

std::vector<float> library_scores(const TestPolicy& policy, const reference::Inputs& inputs) {
  const PackedCache<float> cache(inputs);
  PolicyEvidence evidence(inputs);
  TestResources res({.threads = 1});
  std::vector<float> scores(static_cast<std::size_t>(cache.layout().total()));
  score_rows(res, policy, cache.view(), evidence.for_policy(policy, cache),
             ScoreView<>{scores.data(), cache.layout()});
  return scores;
}

std::vector<std::vector<float>> split_scores(const std::vector<float>& packed,
                                             const reference::Inputs& inputs) {
  std::vector<std::vector<float>> out;
  auto next = packed.begin();
  for (const reference::Matrix& head : inputs.keys) {
    const auto end = next + static_cast<std::ptrdiff_t>(head.rows);
    out.emplace_back(next, end);
    next = end;
  }
  return out;
}

}  // namespace kvevict_test
