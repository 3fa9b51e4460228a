// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/value_norm.hpp"

#include <cmath>
#include <cstddef>
#include <set>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

namespace value_norm_test {

using namespace kvevict_test;
using kvevict::ExpectedAttention;
using kvevict::ProbeAttention;
using kvevict::ValueNorm;

TEST_CASE("ValueNorm: every value has a name of its own", "[policies][value_norm]") {
  std::set<std::string_view> names;
  std::set<ValueNorm> values;
  for (const auto& [value, name] : enum_names(ValueNorm{})) {
    names.insert(name);
    values.insert(value);
  }
  CHECK(names == std::set<std::string_view>{"none", "norm", "output_projection"});
  CHECK(values.size() == 3);
}

// Without a group: the statistic of the one query head, times a number of each row.
TEST_CASE("ValueNorm: weights are multiplied by the length of the value",
          "[policies][value_norm]") {
  const reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {60, 33}}, 7);
  const std::vector<float> plain = library_scores(ProbeAttention{}, inputs);
  const std::vector<float> weighted =
      library_scores(ProbeAttention{.value_norm = ValueNorm::norm}, inputs);
  std::vector<double> want;
  for (const reference::Matrix& head : inputs.values) {
    for (std::size_t i = 0; i < head.rows; ++i) {
      double squares = 0;
      for (std::size_t c = 0; c < head.cols; ++c) squares += head(i, c) * head(i, c);
      want.push_back(static_cast<double>(plain[want.size()]) * std::sqrt(squares));
    }
  }
  const Comparison comparison = compare(weighted, want, tolerance::float32_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("ValueNorm: a projection that keeps lengths is the norm alone",
          "[policies][value_norm]") {
  reference::Inputs inputs =
      reference::random_inputs({.group = 1, .rows = {40}, .value_dim = 8, .hidden = 8}, 8);
  inputs.output_projection = reference::Matrix(8, 8);
  for (std::size_t c = 0; c < 8; ++c) inputs.output_projection(7 - c, c) = c % 2 == 0 ? 1.0 : -1.0;
  const auto check = [&](const auto& by_norm, const auto& projected) {
    const Comparison comparison = compare(library_scores(projected, inputs),
                                          library_scores(by_norm, inputs), tolerance::float32_sum);
    INFO(comparison.describe());
    CHECK(comparison.within());
  };
  check(ProbeAttention{.value_norm = ValueNorm::norm},
        ProbeAttention{.value_norm = ValueNorm::output_projection});
  check(ExpectedAttention{.value_norm = ValueNorm::norm},
        ExpectedAttention{.value_norm = ValueNorm::output_projection});
}

}  // namespace value_norm_test
