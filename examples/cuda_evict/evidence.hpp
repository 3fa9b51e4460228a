// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "kvevict/any_policy.hpp"
#include "kvevict/decode_adapters.hpp"
#include "kvevict/probes.hpp"
#include "kvevict/query_stats.hpp"

namespace cuda_evict {

/// What some policies need beside query statistics, made from the same queries. The source is the
/// same for device and CPU: R decides where it runs.
template <class R>
class MoreEvidence {
 public:
  static constexpr kvevict::MemorySpace space = R::space;

  /// An engine has its queries before and after the rotary embedding; here one random set stands
  /// for both.
  template <class T>
  MoreEvidence(R& res, const kvevict::AnyPolicy& policy, const kvevict::KvView<T, space>& cache,
               const kvevict::QueriesView<space>& queries, const kvevict::Rope& rope) {
    using kvevict::EvidenceKind;
    const kvevict::EvidenceSet needs = policy.needs();
    const std::int64_t rows = cache.layout().longest();
    const std::int64_t last = std::min<std::int64_t>(queries.count(), 64);
    const kvevict::QueryWindow<space> window{
        queries.last(last),
        kvevict::QueryPositions<space>::consecutive(static_cast<std::int32_t>(rows - last))};
    if (needs.contains(EvidenceKind::query_window)) window_ = window;
    if (needs.contains(EvidenceKind::probes)) {
      probes_ = kvevict::future_probes(res, queries, rope, {.next_position = rows});
    }
    if (needs.contains(EvidenceKind::attention_mass)) {
      mass_.emplace(kvevict::accumulation_of(policy));
      mass_->observe(res, cache, window);
    }
  }

  /// The added views refer to this object. The cached keys stand for those before RoPE, and the
  /// statistics of each group's first query head for a query filter.
  template <class T>
  void add_to(const kvevict::KvView<T, space>& cache, kvevict::Evidence<space>& evidence) const {
    evidence.keys_before_rope = {
        kvevict::RowsView<const std::remove_const_t<T>, space>(cache.keys())};
    kvevict::MatrixView<const float, space> filter = evidence.query_stats->mean;
    filter.stride[0] *= filter.shape[0] / cache.heads();
    filter.shape[0] = cache.heads();
    evidence.query_filter = {filter};
    evidence.query_window = window_;
    if (probes_) evidence.probes = probes_->view();
    if (mass_) evidence.attention_mass = mass_->mass();
  }

 private:
  std::optional<kvevict::QueryWindow<space>> window_;
  std::optional<kvevict::BasicProbes<space>> probes_;
  std::optional<kvevict::H2O::BasicState<space>> mass_;
};

/// The covariance that the policy asks of query statistics.
inline kvevict::Covariance wanted_covariance(const kvevict::AnyPolicy& policy) {
  const auto* jacap = std::get_if<kvevict::Jacap>(&policy.variant());
  if (jacap != nullptr) return jacap->covariance;  // its needs depend on what is given
  return policy.needs().contains(kvevict::EvidenceKind::query_covariance_full)
             ? kvevict::Covariance::full
             : kvevict::Covariance::diagonal;
}

}  // namespace cuda_evict
