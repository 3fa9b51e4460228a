// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/baseline_scores.hpp"

namespace kvevict {

/// Baseline: a random set of rows, drawn for each head on its own. A counter-based generator keyed
/// by the seed, the head's number among those given and the row's position: the same set on every
/// backend, in any order of evaluation.
struct Random {
  std::uint64_t seed = 0;

  std::string_view name() const { return "Random"; }
  EvidenceSet needs() const { return {}; }
  bool comparable_across_heads() const { return true; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>&,
             ScoreView<R::space> scores) const {
    random_scores(res, cache.positions(), seed, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("seed", self.seed, "of the generator");
  }

  friend bool operator==(const Random&, const Random&) = default;
};

}  // namespace kvevict
