// SPDX-License-Identifier: Apache-2.0
// NaN and infinity in anything that is read: no crash, counted, kept last, no other head touched.
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

namespace {

constexpr std::size_t poisoned_head = 0;

struct Place {
  std::string name;
  // Writes the number into the inputs of the poisoned head.
  void (*poison)(reference::Inputs& inputs, double number);
};

const std::vector<Place>& places() {
  static const std::vector<Place> all = {
      {"first key", [](auto& in, double x) { in.keys[poisoned_head](0, 0) = x; }},
      {"middle key", [](auto& in, double x) { in.keys[poisoned_head](21, 7) = x; }},
      {"last key", [](auto& in, double x) { in.keys[poisoned_head](39, 15) = x; }},
      {"first value", [](auto& in, double x) { in.values[poisoned_head](0, 0) = x; }},
      {"middle value", [](auto& in, double x) { in.values[poisoned_head](21, 7) = x; }},
      {"last value", [](auto& in, double x) { in.values[poisoned_head](39, 11) = x; }},
      {"query", [](auto& in, double x) { in.queries[2 * poisoned_head](19, 3) = x; }},
      {"mean query", [](auto& in, double x) { in.stats.mean[2 * poisoned_head + 1][2] = x; }},
      {"covariance", [](auto& in, double x) { in.stats.covariance[2 * poisoned_head](4, 4) = x; }},
      {"probe", [](auto& in, double x) { in.probes[2 * poisoned_head + 1](8, 0) = x; }},
      {"query filter", [](auto& in, double x) { in.query_filter(poisoned_head, 5) = x; }},
      {"key before RoPE",
       [](auto& in, double x) { in.keys_before_rope[poisoned_head](21, 7) = x; }},
      {"all keys",
       [](auto& in, double x) {
         for (double& k : in.keys[poisoned_head].data) k = x;
       }},
      {"all values",
       [](auto& in, double x) {
         for (double& v : in.values[poisoned_head].data) v = x;
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("contract: NaN and infinity in the inputs", "[contract][nonfinite]") {
  ContractCase clean(contract_inputs());
  const std::vector<PolicyVariant> variants = variants_for_backend();
  for (const double number :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    for (const Place& place : places()) {
      reference::Inputs inputs = clean.inputs;
      place.poison(inputs, number);
      ContractCase given(inputs);
      const kvevict::RowLayout<> layout = given.cache.layout();
      for (const auto& [name, policy] : variants) {
        INFO(name << ", " << number << " in " << place.name);
        TestResources res({.threads = 1});
        const kvevict::Evidence<> evidence = given.evidence_for(policy);
        const std::vector<float> scores = scores_of(res, policy, given.view(), evidence);
        const std::vector<float> want = scores_of(clean, policy);
        for (const std::int64_t h : {1, 3}) {
          CHECK(same_bits(head_of(scores, layout, h), head_of(want, layout, h)));
        }
        const kvevict::Selection kept =
            kvevict::evict(res, policy, given.view(), evidence, kvevict::Budget::rows(15));
        CHECK(kept.report().nan_scores == count_nan(scores));
        CHECK(rows_of(kept) == best_rows(scores, layout, 15));
      }
    }
  }
}

TEST_CASE("contract: a row whose key or value is not a number is not kept",
          "[contract][nonfinite]") {
  // Where a row's score depends on its own key or value alone, only that row suffers.
  ContractCase given([] {
    reference::Inputs inputs = contract_inputs();
    inputs.keys[0](21, 7) = std::numeric_limits<double>::quiet_NaN();
    return inputs;
  }());
  TestResources res({.threads = 1});
  const std::vector<float> scores = scores_of(given, kvevict::KNorm{});
  CHECK(count_nan(scores) == 1);
  const kvevict::Selection kept = kvevict::evict(res, TestPolicy(kvevict::KNorm{}), given.view(),
                                                 {}, kvevict::Budget::rows(39));
  CHECK(kept.report().nan_scores == 1);
  for (const std::int32_t row : kept.head(0)) CHECK(row != 21);
  CHECK(kept.count(0) == 39);
}
