// SPDX-License-Identifier: Apache-2.0
// The churn of quantised caches, whose rows are moved, copied and compared as bytes.
#include "decode/churn.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/mass.hpp"
#include "kvevict/cpu/pooling.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/row_weighting.hpp"

namespace churn_quantised_test {

using namespace kvevict_test;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 32, .capacity = 48};

template <class T, class P>
std::int64_t churn_layouts(const P& policy, std::int64_t steps) {
  std::int64_t operations = 0;
  std::uint64_t seed = 1000;
  for (const CacheLayout layout : all_layouts) {
    operations += churn<T>(policy, layout, shape, ++seed, steps);
  }
  return operations;
}

}  // namespace

TEST_CASE("churn of quantised caches, any policy", "[decode][churn][quantised]") {
  const std::int64_t steps = 40 * churn_factor();
  std::int64_t operations = 0;
  for (const TestPolicy& policy : decode_policies()) {
    operations += churn_layouts<kvevict::q8_0>(policy, steps);
    operations += churn_layouts<kvevict::float8_e4m3>(policy, steps);
  }
  if (churn_factor() > 1) WARN(operations << " operations");
  CHECK(operations > 8000 * churn_factor());
}

TEMPLATE_TEST_CASE("churn of quantised caches, any format", "[decode][churn][quantised]",
                   kvevict::q8_0, kvevict::q4_0, kvevict::float8_e4m3, kvevict::float8_e5m2) {
  const std::int64_t steps = 250 * churn_factor();
  const std::int64_t operations = churn_layouts<TestType>(kvevict::H2O{}, steps) +
                                  churn_layouts<TestType>(kvevict::SnapKV{.window = 6}, steps) +
                                  churn_layouts<TestType>(kvevict::KNorm{}, steps);
  if (churn_factor() > 1) WARN(operations << " operations");
  CHECK(operations > 21 * steps);
}

}  // namespace churn_quantised_test
