// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/noncausal_attention.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::ChunkPadding;
using kvevict::NonCausalAttention;

TEST_CASE("NonCausalAttention: scores are those of the double-precision loops",
          "[policies][noncausal_attention]") {
  for (const char* const chunk : {"256", "1", "7", "64", "100"}) {
    for (const char* const padding : {"none", "zeros"}) {
      check_varied("NonCausalAttention", {{"chunk", chunk}, {"padding", padding}}, attention_score);
    }
  }
  for (const char* const reduction : {"max", "sum"}) {
    check_varied("NonCausalAttention",
                 {{"reduction", reduction}, {"kernel", "1"}, {"scale_logits", "true"}},
                 attention_score);
  }
}

TEST_CASE("NonCausalAttention: rows are seen from before and from behind",
          "[policies][noncausal_attention]") {
  // The first query points along the last key: a causal mask would hide it.
  reference::Inputs inputs = reference::random_inputs({.rows = {8}, .dim = 4, .queries = 8}, 1);
  inputs.queries = scaled(inputs.queries, 0);
  inputs.values[0].data.assign(inputs.values[0].data.size(), 1.0);
  for (std::size_t i = 0; i < 8; ++i) inputs.keys[0](i, 2) = i == 7 ? 40 : 0;
  for (reference::Matrix& head : inputs.queries) head(0, 2) = 1;
  const std::vector<float> scores = library_scores(NonCausalAttention{.kernel = 1}, inputs);
  for (std::size_t i = 0; i < 7; ++i) CHECK(scores[7] > 2 * scores[i]);
}

TEST_CASE("NonCausalAttention: chunks know nothing of each other",
          "[policies][noncausal_attention]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {48}, .dim = 4, .queries = 48}, 2);
  const NonCausalAttention policy{.chunk = 16, .kernel = 1};
  const std::vector<float> scores = library_scores(policy, inputs);
  for (std::size_t i = 16; i < 32; ++i) inputs.keys[0](i, 1) *= -2;
  const std::vector<float> changed = library_scores(policy, inputs);
  CHECK(std::vector<float>(changed.begin(), changed.begin() + 16) ==
        std::vector<float>(scores.begin(), scores.begin() + 16));
  CHECK(std::vector<float>(changed.begin() + 32, changed.end()) ==
        std::vector<float>(scores.begin() + 32, scores.end()));
  CHECK(changed[20] != scores[20]);
}

TEST_CASE(
    "NonCausalAttention: padding almost erases the signal of a head much shorter than a chunk",
    "[policies][noncausal_attention]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {6}, .dim = 4, .queries = 6}, 3);
  inputs.values[0].data.assign(inputs.values[0].data.size(), 0.5);
  inputs.queries = scaled(inputs.queries, 0.5);
  const auto spread = [&](ChunkPadding padding) {
    const std::vector<float> scores =
        library_scores(NonCausalAttention{.padding = padding, .kernel = 1}, inputs);
    const auto [low, high] = std::minmax_element(scores.begin(), scores.end());
    return *high / *low - 1;
  };
  CHECK(spread(ChunkPadding::none) > 0.2f);
  CHECK(spread(ChunkPadding::zeros) < 0.3f * spread(ChunkPadding::none));
}
