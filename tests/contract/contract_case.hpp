// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/selections.hpp"
#include "kvevict/core/config.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/types.hpp"
#include "support/backend.hpp"

namespace kvevict_test {

// Inputs with their cache and every kind of evidence, in the library's form.
struct ContractCase {
  reference::Inputs inputs;
  PackedCache<float> cache;
  PolicyEvidence evidence;

  explicit ContractCase(const reference::Inputs& given)
      : inputs(given), cache(given), evidence(given) {}

  kvevict::KvView<const float> view() const { return cache.view(); }
  kvevict::Evidence<> evidence_for(const TestPolicy& policy) {
    return evidence.for_policy(policy, cache);
  }
};

// Ragged heads, one of them empty, groups of two, values of another dimension than keys.
reference::Inputs contract_inputs();
// The same with holes between the positions, and probes masked by position.
reference::Inputs contract_inputs_with_holes();
// Heads of equal length, for layouts that know no others.
reference::Inputs uniform_contract_inputs();

// A NaN that no arithmetic makes: what a score reads that was never written.
inline constexpr std::uint32_t unwritten_bits = 0x7fc5a5a5u;

inline std::uint32_t bits_of(float value) {
  return kvevict::detail::bit_cast<std::uint32_t>(value);
}

inline float unwritten() { return kvevict::detail::bit_cast<float>(unwritten_bits); }

// The scores of all rows. Checks that each was written, and nothing beside them.
template <class T>
std::vector<float> scores_of(TestResources& res, const TestPolicy& policy,
                             const kvevict::KvView<const T>& cache,
                             const kvevict::Evidence<>& evidence) {
  constexpr std::size_t margin = 16;
  const auto total = static_cast<std::size_t>(cache.layout().total());
  std::vector<float> memory(total + 2 * margin, unwritten());
  const kvevict::ScoreView<> scores{memory.data() + margin, cache.layout()};
  kvevict::score_rows(res, policy, cache, evidence, scores);
  const auto is_unwritten = [](float value) { return bits_of(value) == unwritten_bits; };
  const auto first = memory.begin() + margin;
  const auto last = memory.end() - margin;
  CHECK(std::none_of(first, last, is_unwritten));
  CHECK(std::all_of(memory.begin(), first, is_unwritten));
  CHECK(std::all_of(last, memory.end(), is_unwritten));
  return {first, last};
}

// The same for a case, with one thread.
std::vector<float> scores_of(ContractCase& given, const TestPolicy& policy);

bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

// The scores of one head of packed ones.
std::vector<float> head_of(const std::vector<float>& scores, const kvevict::RowLayout<>& layout,
                           std::int64_t head);

std::int64_t count_nan(const std::vector<float>& scores);

// Rows of each head that selection must keep for these scores: the double-precision side's order.
std::vector<std::vector<std::int32_t>> best_rows(const std::vector<float>& scores,
                                                 const kvevict::RowLayout<>& layout,
                                                 std::int64_t count);

}  // namespace kvevict_test
