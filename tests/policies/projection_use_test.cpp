// SPDX-License-Identifier: Apache-2.0
//
// What the capacity policies and DropLoss see values through, by the CPU's resources.
#include "kvevict/policies/projection_use.hpp"

#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/projection_factor.hpp"
#include "kvevict/cpu/resources.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

namespace projection_use_test {

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::MatrixBatchView;
using kvevict::ProjectionUse;
using kvevict::WorkspaceScope;

namespace {

double squared_length(const MatrixBatchView<const float>& matrices, std::int64_t number,
                      const std::vector<double>& v) {
  double total = 0;
  for (std::int64_t r = 0; r < matrices.shape[1]; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < matrices.shape[2]; ++c) {
      const float entry =
          matrices
              .data[number * matrices.stride[0] + r * matrices.stride[1] + c * matrices.stride[2]];
      sum += static_cast<double>(entry) * v[static_cast<std::size_t>(c)];
    }
    total += sum * sum;
  }
  return total;
}

}  // namespace

TEST_CASE("value transforms: nothing, the factor of each query head, or of each group",
          "[policies][projection]") {
  constexpr std::int64_t group = 3;
  const reference::Inputs inputs =
      reference::random_inputs({.group = group, .rows = {10, 10}, .value_dim = 6, .hidden = 40}, 1);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const MatrixBatchView<const float>& factors = evidence.view().output_projection->factors;
  CpuResources res({.threads = 1});
  WorkspaceScope scope(res.workspace());
  const auto transforms = [&](ProjectionUse use, bool pooled) {
    return kvevict::detail::value_transforms(res, scope, cache.view(), evidence.view(), use, group,
                                             pooled);
  };
  for (const bool pooled : {false, true}) CHECK(transforms(ProjectionUse::none, pooled).empty());
  const auto each = transforms(ProjectionUse::factor, false);
  CHECK(each.data == factors.data);
  CHECK(each.shape[0] == 2 * group);
  const auto stacked = transforms(ProjectionUse::factor, true);
  REQUIRE(stacked.shape[0] == 2);
  // |R v|^2 = sum over the group of |R_q v|^2
  for (std::int64_t h = 0; h < 2; ++h) {
    for (const std::vector<double>& v :
         {std::vector<double>{1, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1}, {1, -2, 3, 0.5, -1, 4}}) {
      double want = 0;
      for (std::int64_t g = 0; g < group; ++g) want += squared_length(factors, h * group + g, v);
      CHECK(squared_length(stacked, h, v) == Approx(want).epsilon(1e-5));  // factors are fp32
    }
  }
}

TEST_CASE("value transforms: a projection of other heads is refused", "[policies][projection]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 2, .rows = {10, 10}, .value_dim = 6}, 2);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  CpuResources res({.threads = 1});
  WorkspaceScope scope(res.workspace());
  CHECK(refused([&] {
          kvevict::detail::value_transforms(res, scope, cache.view(), evidence.view(),
                                            ProjectionUse::factor, 3, false);
        }) == "output_projection.heads is 4, must be equal to the query heads, 6");
}

}  // namespace projection_use_test
