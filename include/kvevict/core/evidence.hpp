// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "kvevict/core/parameter.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/core/view.hpp"

namespace kvevict {

/// The last queries of the context, after RoPE, with their positions: a query sees the rows at its
/// position and below.
template <MemorySpace S = MemorySpace::host>
struct QueryWindow {
  QueriesView<S> queries = {};
  QueryPositions<S> positions = {};
};

/// Mean and covariance of the queries to come, in the frame of the cached keys. Covariance is
/// absent, diagonal or full.
template <MemorySpace S = MemorySpace::host>
struct QueryStatsView {
  MatrixView<const float, S> mean = {};             ///< [query_head][dim]
  MatrixView<const float, S> diagonal = {};         ///< [query_head][dim], or empty
  MatrixBatchView<const float, S> covariance = {};  ///< [query_head][dim][dim], or empty
};

/// Which rows a probe attends to.
enum class ProbeMask {
  none,        ///< all of them: the probe stands for a query yet to come
  by_position  ///< those at its position and below: the probe is a query of the context
};

inline std::span<const EnumName<ProbeMask>> enum_names(ProbeMask) {
  static constexpr EnumName<ProbeMask> names[] = {{ProbeMask::none, "none"},
                                                  {ProbeMask::by_position, "by_position"}};
  return names;
}

/// A sample of queries, after RoPE, that stand for the queries to come.
template <MemorySpace S = MemorySpace::host>
struct ProbeQueries {
  QueriesView<S> queries = {};
  QueryPositions<S> positions = {};
  ProbeMask mask = ProbeMask::none;
};

/// Attention that each cached row has received, packed [kv_head][row] like scores: what H2O's state
/// accumulates.
template <MemorySpace S = MemorySpace::host>
struct AttentionMass {
  const float* data = nullptr;
  RowLayout<S> layout = {};
};

/// Per query head h a factor R_h [dim x dim] of the output projection, R_h^T R_h = W_h^T W_h with
/// W_h [hidden x dim] the head's columns of W_O: products of R_h v are those of W_h v at d x d
/// cost.
template <MemorySpace S = MemorySpace::host>
struct OutputProjection {
  MatrixBatchView<const float, S> factors = {};  ///< [query_head][dim][dim]
};

/// Per KV head the main direction of its queries [kv_head][dim], in the frame of the cached keys
/// and found once for a model (arXiv 2503.02812): keys that point along it are attended to least.
template <MemorySpace S = MemorySpace::host>
struct QueryFilter {
  MatrixView<const float, S> directions = {};
};

/// The cached rows' keys before RoPE, [kv_head][row][dim] row by row like the cache, of an element
/// type of their own. An engine that does not keep them can turn the cached ones back by their
/// positions.
template <MemorySpace S = MemorySpace::host>
struct KeysBeforeRope {
  std::variant<RowsView<const float, S>, RowsView<const half, S>, RowsView<const bfloat16, S>>
      rows = {};
};

/// Of each cached row |k|_2, packed [kv_head][row] like scores: what KNorm reads instead of the
/// keys, where it is known from before.
template <MemorySpace S = MemorySpace::host>
struct KeyNorms {
  const float* data = nullptr;
  RowLayout<S> layout = {};
};

/// Per KV head the mean of k / |k| over its rows, [kv_head][dim]: KeyDiff's anchor.
template <MemorySpace S = MemorySpace::host>
struct MeanKeyDirection {
  MatrixView<const float, S> directions = {};
};

/// Kinds of evidence, for `needs()`.
enum class EvidenceKind : std::uint8_t {
  query_window,
  query_stats,
  query_covariance_diagonal,  ///< query_stats with a diagonal or full covariance
  query_covariance_full,      ///< query_stats with a full covariance
  probes,
  attention_mass,
  output_projection,
  query_filter,
  keys_before_rope,
  key_norms,          ///< no policy needs it: it saves reads of the keys
  mean_key_direction  ///< likewise
};

inline constexpr EvidenceKind all_evidence_kinds[] = {EvidenceKind::query_window,
                                                      EvidenceKind::query_stats,
                                                      EvidenceKind::query_covariance_diagonal,
                                                      EvidenceKind::query_covariance_full,
                                                      EvidenceKind::probes,
                                                      EvidenceKind::attention_mass,
                                                      EvidenceKind::output_projection,
                                                      EvidenceKind::query_filter,
                                                      EvidenceKind::keys_before_rope,
                                                      EvidenceKind::key_norms,
                                                      EvidenceKind::mean_key_direction};

constexpr std::string_view to_string(EvidenceKind kind) {
  switch (kind) {
    case EvidenceKind::query_window:
      return "query_window";
    case EvidenceKind::query_stats:
      return "query_stats";
    case EvidenceKind::query_covariance_diagonal:
      return "query_stats.diagonal";
    case EvidenceKind::query_covariance_full:
      return "query_stats.covariance";
    case EvidenceKind::probes:
      return "probes";
    case EvidenceKind::attention_mass:
      return "attention_mass";
    case EvidenceKind::output_projection:
      return "output_projection";
    case EvidenceKind::query_filter:
      return "query_filter";
    case EvidenceKind::keys_before_rope:
      return "keys_before_rope";
    case EvidenceKind::key_norms:
      return "key_norms";
    case EvidenceKind::mean_key_direction:
      return "mean_key_direction";
  }
  return "unknown";
}

/// A set of evidence kinds.
class EvidenceSet {
 public:
  constexpr EvidenceSet() = default;
  constexpr EvidenceSet(std::initializer_list<EvidenceKind> kinds) {
    for (EvidenceKind kind : kinds) *this |= kind;
  }
  constexpr bool contains(EvidenceKind kind) const { return (bits_ & bit(kind)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr EvidenceSet& operator|=(EvidenceKind kind) {
    bits_ |= bit(kind);
    return *this;
  }
  constexpr EvidenceSet& operator|=(EvidenceSet other) {
    bits_ |= other.bits_;
    return *this;
  }
  friend constexpr bool operator==(EvidenceSet, EvidenceSet) = default;

 private:
  static constexpr unsigned bit(EvidenceKind kind) { return 1u << static_cast<unsigned>(kind); }
  unsigned bits_ = 0;
};

/// What a policy may be told beside the cache. An aggregate: `{.query_stats = stats.view()}`.
template <MemorySpace S = MemorySpace::host>
struct Evidence {
  std::optional<QueryWindow<S>> query_window = {};
  std::optional<QueryStatsView<S>> query_stats = {};
  std::optional<ProbeQueries<S>> probes = {};
  std::optional<AttentionMass<S>> attention_mass = {};
  std::optional<OutputProjection<S>> output_projection = {};
  std::optional<QueryFilter<S>> query_filter = {};
  std::optional<KeysBeforeRope<S>> keys_before_rope = {};
  std::optional<KeyNorms<S>> key_norms = {};
  std::optional<MeanKeyDirection<S>> mean_key_direction = {};

  /// Without what is known of the cached keys from before: for some of the rows alone.
  Evidence without_known_keys() const {
    Evidence rest = *this;
    rest.key_norms.reset();
    rest.mean_key_direction.reset();
    return rest;
  }

  bool has(EvidenceKind kind) const {
    switch (kind) {
      case EvidenceKind::query_window:
        return query_window.has_value();
      case EvidenceKind::query_stats:
        return query_stats.has_value();
      case EvidenceKind::query_covariance_diagonal:
        return query_stats && (!query_stats->diagonal.empty() || !query_stats->covariance.empty());
      case EvidenceKind::query_covariance_full:
        return query_stats && !query_stats->covariance.empty();
      case EvidenceKind::probes:
        return probes.has_value();
      case EvidenceKind::attention_mass:
        return attention_mass.has_value();
      case EvidenceKind::output_projection:
        return output_projection.has_value();
      case EvidenceKind::query_filter:
        return query_filter.has_value();
      case EvidenceKind::keys_before_rope:
        return keys_before_rope.has_value();
      case EvidenceKind::key_norms:
        return key_norms.has_value();
      case EvidenceKind::mean_key_direction:
        return mean_key_direction.has_value();
    }
    return false;
  }
};

/// Throws invalid_argument naming the first needed kind that is missing, and who needs it.
template <MemorySpace S>
void require_evidence(const Evidence<S>& evidence, EvidenceSet needs, std::string_view policy) {
  for (EvidenceKind kind : all_evidence_kinds) {
    if (needs.contains(kind) && !evidence.has(kind)) {
      throw Error(ErrorKind::invalid_argument, detail::joined("evidence.", to_string(kind)),
                  "missing", detail::joined("given for ", policy));
    }
  }
}

}  // namespace kvevict
