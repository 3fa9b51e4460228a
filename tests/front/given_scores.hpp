// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvevict/core/concepts.hpp"

namespace kvevict_test {

// A policy whose scores are what a test says, packed [head][row].
struct GivenScores {
  std::vector<float> scores;
  bool comparable = true;
  kvevict::EvidenceSet evidence = {};

  std::string_view name() const { return "GivenScores"; }
  kvevict::EvidenceSet needs() const { return evidence; }
  bool comparable_across_heads() const { return comparable; }

  template <class R, class T>
  void score(R& res, const kvevict::KvView<const T, R::space>& cache,
             const kvevict::Evidence<R::space>&, kvevict::ScoreView<R::space> out) const {
    if (res.workspace().counting()) return;
    kvevict::require(static_cast<std::int64_t>(scores.size()) == cache.layout().total(),
                     "given scores", scores.size(), "one for each row");
    std::copy(scores.begin(), scores.end(), out.data);
  }

  friend bool operator==(const GivenScores&, const GivenScores&) = default;
};

}  // namespace kvevict_test
