// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/uniform.hpp"

#include <vector>

#include "catch.hpp"
#include "support/backend.hpp"

TEST_CASE("a uniform budget gives every head its share", "[allocators]") {
  kvevict_test::TestResources res({.threads = 1});
  const std::vector<std::int64_t> offsets = {0, 4, 4, 9};
  const std::vector<std::int64_t> shares = {2, 0, 5};
  std::vector<std::int64_t> counts(3, -1);
  std::vector<float> scores(9);
  const kvevict::AllocationInput<> input{
      {scores.data(), kvevict::RowLayout<>::ragged(offsets.data(), 3)},
      {},
      {},
      shares.data(),
      false};
  kvevict::UniformBudget{}.allocate(res, input, counts.data());
  REQUIRE(counts == shares);
  REQUIRE(kvevict::UniformBudget{} == kvevict::UniformBudget{});
}
