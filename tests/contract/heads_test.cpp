// SPDX-License-Identifier: Apache-2.0
// No policy looks across heads: a batch is only more heads.
#include <numeric>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "policies/edit_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

namespace {

void check_alone_as_together(const reference::Inputs& inputs,
                             const std::vector<PolicyVariant>& variants) {
  ContractCase together(inputs);
  for (const auto& [name, policy] : variants) {
    const std::vector<float> scores = scores_of(together, policy);
    for (std::size_t h = 0; h < inputs.keys.size(); ++h) {
      if (h > 0 && keyed_by_head_number(policy)) continue;
      INFO(name << ", head " << h);
      ContractCase alone(one_head(inputs, h));
      CHECK(same_bits(scores_of(alone, policy),
                      head_of(scores, together.cache.layout(), static_cast<std::int64_t>(h))));
    }
  }
}

}  // namespace

TEST_CASE("contract: a head alone scores as in a batch", "[contract]") {
  check_alone_as_together(contract_inputs(), policy_variants());
  check_alone_as_together(contract_inputs_with_holes(), policy_variants());
}

TEST_CASE("contract: a short head beside a very long one scores as alone", "[contract]") {
  // Long heads make ops work in smaller blocks of queries, on a device in several splits of rows.
  const std::size_t rows = for_backend(40000, 6000);
  reference::Inputs inputs = reference::random_inputs(
      {.group = 1, .rows = {150, rows}, .dim = 4, .value_dim = 4, .queries = 66, .probes = 66}, 3);
  inputs.query_positions.resize(66);
  std::iota(inputs.query_positions.begin(), inputs.query_positions.end(), std::int64_t{100});
  check_alone_as_together(inputs, default_policies());
}

TEST_CASE("contract: what other heads hold does not matter", "[contract]") {
  ContractCase given(contract_inputs());
  reference::Inputs changed = given.inputs;
  changed.keys[0] = scaled({changed.keys[0]}, 3)[0];
  changed.values[0] = scaled({changed.values[0]}, -7)[0];
  for (std::size_t h = 0; h < 2; ++h) {
    changed.queries[h] = scaled({changed.queries[h]}, 2)[0];
    changed.probes[h] = scaled({changed.probes[h]}, 2)[0];
    for (double& value : changed.stats.mean[h]) value *= 2;
    changed.stats.covariance[h] = scaled({changed.stats.covariance[h]}, 4)[0];
  }
  ContractCase other(changed);
  for (const auto& [name, policy] : policy_variants()) {
    const std::vector<float> before = scores_of(given, policy);
    const std::vector<float> after = scores_of(other, policy);
    for (const std::int64_t h : {1, 3}) {
      INFO(name << ", head " << h);
      CHECK(same_bits(head_of(after, given.cache.layout(), h),
                      head_of(before, given.cache.layout(), h)));
    }
  }
}
