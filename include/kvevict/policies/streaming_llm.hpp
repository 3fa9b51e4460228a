// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/baseline_scores.hpp"

namespace kvevict {

/// Baseline: attention sinks and the most recent rows (arXiv 2309.17453). Rows at positions below
/// `sinks` rank first, then the others by recency. Keys keep their rotation; the paper's unbounded
/// streaming also needs them rotated anew, which is left to the engine.
struct StreamingLLM {
  std::int64_t sinks = 4;

  std::string_view name() const { return "StreamingLLM"; }
  EvidenceSet needs() const { return {}; }
  bool comparable_across_heads() const { return true; }
  void validate() const { require(sinks >= 0, "sinks", sinks, ">=", 0); }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>&,
             ScoreView<R::space> scores) const {
    recency_scores(res, cache.positions(), sinks, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("sinks", self.sinks, "positions below this rank first");
  }

  friend bool operator==(const StreamingLLM&, const StreamingLLM&) = default;
};

}  // namespace kvevict
