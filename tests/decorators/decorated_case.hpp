// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "kvevict/kvevict.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "reference/types.hpp"
#include "support/backend.hpp"

namespace kvevict_test {

// Ragged heads with every kind of evidence, in the library's form and in double.
struct DecoratedCase {
  reference::Inputs inputs = reference::random_inputs(
      {.group = 2, .rows = {50, 33, 0, 90}, .dim = 16, .value_dim = 12, .queries = 20}, 21);
  PackedCache<float> cache{inputs};
  PolicyEvidence evidence{inputs};

  // Scores of each head.
  template <class P>
  std::vector<std::vector<float>> scores(const P& policy) {
    return scores(policy, evidence.view());
  }
  template <class P>
  std::vector<std::vector<float>> scores(const P& policy, const kvevict::Evidence<>& given) {
    static_assert(kvevict::EvictionPolicy<P, TestResources, float>);
    TestResources res({.threads = 2});
    std::vector<float> packed(static_cast<std::size_t>(cache.layout().total()));
    kvevict::score_rows(res, policy, cache.view(), given,
                        kvevict::ScoreView<>{packed.data(), cache.layout()});
    return split_scores(packed, inputs);
  }
};

}  // namespace kvevict_test
