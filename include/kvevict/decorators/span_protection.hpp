// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kvevict/core/protect.hpp"
#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/ops/score_marks.hpp"

namespace kvevict {

/// Turns that are closed are not compressed again (FlowKV, arXiv 2505.15347): rows at positions
/// below `closed`, those of the system prompt and of finished turns as far as earlier evictions
/// left them, rank before all others, as do rows at the positions of `spans`. When a turn is
/// finished, evict, and then move `closed` to the next position: an eviction with a later turn
/// takes its rows from that turn only, as long as the budget holds the closed ones.
/// `suggested_protection` makes sure of that: with it a budget below the closed rows is an error.
template <class P>
struct SpanProtection {
  P inner = {};
  std::int64_t closed = 0;               ///< positions below this are of closed turns
  std::vector<PositionSpan> spans = {};  ///< further positions, such as of quoted documents

  std::string_view name() const { return "SpanProtection"; }
  constexpr EvidenceSet needs() const { return inner.needs(); }
  bool comparable_across_heads() const { return inner.comparable_across_heads(); }

  /// Refers to this object.
  Protect suggested_protection() const KVEVICT_LIFETIMEBOUND {
    return {.sinks = closed, .spans = spans};
  }

  void validate() const {
    require(closed >= 0, "closed", closed, ">=", 0);
    require_valid(Protect{.spans = spans});
    detail::validate_inner(inner);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    inner.score(res, cache, evidence, scores);
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> marks{
        scope.template carve<float>("SpanProtection.marks", cache.layout().total()),
        cache.layout()};
    mark_protected(res, cache.positions(), suggested_protection(), marks);
    lift_marked(res, marks, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("closed", self.closed, "positions below this rank first");
    detail::visit_inner(self.inner, "inner.", visit);
  }

  friend bool operator==(const SpanProtection&, const SpanProtection&) = default;
};

}  // namespace kvevict
