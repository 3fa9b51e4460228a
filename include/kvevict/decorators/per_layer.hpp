// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/ops/score_combination.hpp"

namespace kvevict {

/// Another policy for some heads, such as those of the first layers: heads of the flattened axis in
/// `heads` are scored by `other`, the rest by `base`. Both policies score all heads, so the cost is
/// that of both; an engine that evicts layer by layer chooses by calling either.
template <class Base, class Other>
struct PerLayer {
  Base base = {};
  Other other = {};
  std::vector<std::int64_t> heads = {};  ///< numbers of heads, in any order

  std::string_view name() const { return "PerLayer"; }
  constexpr EvidenceSet needs() const {
    EvidenceSet both = base.needs();
    both |= other.needs();
    return both;
  }
  /// Different policies have different scales.
  bool comparable_across_heads() const { return false; }

  void validate() const {
    for (const std::int64_t head : heads) require(head >= 0, "heads", head, ">=", 0);
    detail::validate_inner(base);
    detail::validate_inner(other);
  }

  /// Throws invalid_argument when a head is named that the cache does not have.
  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    for (const std::int64_t head : heads) {
      require(head < cache.heads(), "heads", head, "below the heads of the cache,", cache.heads());
    }
    base.score(res, cache, evidence, scores);
    if (heads.empty()) return;
    WorkspaceScope scope(res.workspace());
    WorkspaceScope host_scope(res.host_workspace());
    const ScoreView<R::space> others{
        scope.template carve<float>("PerLayer.scores", cache.layout().total()), cache.layout()};
    auto* chosen = host_scope.template carve<std::uint8_t>("PerLayer.heads", cache.heads());
    if (!res.workspace().counting()) {
      std::fill_n(chosen, cache.heads(), std::uint8_t{0});
      for (const std::int64_t head : heads) chosen[head] = 1;
    }
    other.score(res, cache, evidence, others);
    replace_heads(res, chosen, others, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    detail::visit_inner(self.base, "base.", visit);
    detail::visit_inner(self.other, "other.", visit);
  }

  friend bool operator==(const PerLayer&, const PerLayer&) = default;
};

}  // namespace kvevict
