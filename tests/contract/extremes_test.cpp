// SPDX-License-Identifier: Apache-2.0
// The largest numbers that the element types hold.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "reference/score.hpp"
#include "support/backend.hpp"
#include "support/tolerance.hpp"

namespace extremes_test {

using namespace kvevict_test;

namespace {

// Scaled so that the largest magnitude is `largest`, and rounded to what T holds; signs and
// proportions stay.
template <class T>
void stretch(reference::Heads& heads, double largest) {
  for (reference::Matrix& head : heads) {
    double present = 0;
    for (const double value : head.data) present = std::max(present, std::abs(value));
    for (double& value : head.data) {
      const T stored(static_cast<float>(value * (largest / present)));
      value = static_cast<double>(static_cast<float>(stored));
    }
  }
}

enum class Stretched { keys, values, both };

template <class T>
reference::Inputs stretched(Stretched which, double largest) {
  reference::Inputs inputs = uniform_contract_inputs();
  if (which != Stretched::values) {
    stretch<T>(inputs.keys, largest);
    stretch<T>(inputs.keys_before_rope, largest);
  }
  if (which != Stretched::keys) stretch<T>(inputs.values, largest);
  return inputs;
}

template <class T>
std::vector<float> scores_with(ContractCase& given, const TestPolicy& policy) {
  const PackedCache<T> cache(given.inputs);
  TestResources res({.threads = 1});
  return scores_of(res, policy, cache.view(), given.evidence_for(policy));
}

bool all_finite(const std::vector<float>& scores) {
  return std::all_of(scores.begin(), scores.end(), [](float s) { return std::isfinite(s); });
}

// Policies whose logits, norms or quadratic forms leave fp32 at the end of bfloat16. What then is
// not a number is counted and kept last.
bool leaves_float(const std::string& policy) {
  return policy == "SnapKV" || policy == "H2O" || policy == "KVzip" ||
         policy == "ExpectedAttention" || policy == "KNorm" || policy == "ChunkWise" ||
         policy == "ValueWeighted" || policy == "Blend" || policy == "PerLayer" ||
         policy == "SpanProtection" || policy == "ProbeAttention" || policy == "DropLoss" ||
         policy == "TOVA" || policy == "QFilter" || policy == "CurDKV" ||
         policy == "NonCausalAttention" || policy == "LeverageScore" || policy == "Compactor" ||
         policy == "RKV";
}

// Scores that do not saturate, against the double-precision loops.
template <class T>
void check_against_reference(double largest) {
  const reference::Inputs inputs = stretched<T>(Stretched::both, largest);
  ContractCase given(inputs);
  const std::vector<std::pair<std::string, Pairs>> policies = {
      {"KNorm", {}}, {"KeyDiff", {}}, {"CapKV", {{"form", "reference"}}}};
  for (const auto& [name, parameters] : policies) {
    std::vector<double> want;
    for (const std::vector<double>& head : reference::score(name, parameters, inputs)) {
      want.insert(want.end(), head.begin(), head.end());
    }
    const Comparison comparison = compare(scores_with<T>(given, make_policy(name, parameters)),
                                          want, tolerance::float32_solve);
    INFO(name << ": " << comparison.describe());
    CHECK(comparison.within());
  }
}

}  // namespace

TEST_CASE("contract: half at 65504", "[contract][extremes]") {
  for (const Stretched which : {Stretched::keys, Stretched::values, Stretched::both}) {
    ContractCase given(stretched<kvevict::half>(which, 65504));
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name << ", stretched " << static_cast<int>(which));
      CHECK(all_finite(scores_with<kvevict::half>(given, policy)));
    }
  }
  check_against_reference<kvevict::half>(65504);
}

TEST_CASE("contract: bfloat16 where squares still fit fp32", "[contract][extremes]") {
  for (const Stretched which : {Stretched::keys, Stretched::values, Stretched::both}) {
    ContractCase given(stretched<kvevict::bfloat16>(which, 1e18));
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name << ", stretched " << static_cast<int>(which));
      CHECK(all_finite(scores_with<kvevict::bfloat16>(given, policy)));
    }
  }
  check_against_reference<kvevict::bfloat16>(1e18);
}

TEST_CASE("contract: bfloat16 at 3e38", "[contract][extremes]") {
  for (const Stretched which : {Stretched::keys, Stretched::values, Stretched::both}) {
    ContractCase given(stretched<kvevict::bfloat16>(which, 3e38));
    const PackedCache<kvevict::bfloat16> cache(given.inputs);
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name << ", stretched " << static_cast<int>(which));
      const std::vector<float> scores = scores_with<kvevict::bfloat16>(given, policy);
      if (!leaves_float(std::string(policy.name()))) CHECK(all_finite(scores));
      TestResources res({.threads = 1});
      const kvevict::Selection kept = kvevict::evict(
          res, policy, cache.view(), given.evidence_for(policy), kvevict::Budget::rows(20));
      CHECK(kept.report().nan_scores == count_nan(scores));
      CHECK(rows_of(kept) == best_rows(scores, cache.layout(), 20));
    }
  }
}

}  // namespace extremes_test
