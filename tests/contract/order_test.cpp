// SPDX-License-Identifier: Apache-2.0
// What rows stand for, not where they lie.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "policies/edit_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;

namespace {

// A row that moves to another place in its tile is added up in another order; behind a
// factorisation that is at most what the promise of 1e-4 allows.
constexpr Tolerance other_order = tolerance::float32_solve;

// Rows left out by number are an order of rows too.
TestPolicy skipping_none(TestPolicy policy) {
  for (const TestPolicy::Parameter& parameter : policy.parameters()) {
    if (parameter.name == "skip_first") policy.set("skip_first", "0");
  }
  return policy;
}

}  // namespace

TEST_CASE("contract: permuting the rows permutes the scores", "[contract][order]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 2, .rows = {133}, .dim = 16, .value_dim = 12}, 5);
  std::vector<std::size_t> order;
  for (const std::int64_t row : random_permutation(133, 2)) {
    order.push_back(static_cast<std::size_t>(row));
  }
  ContractCase given(inputs);
  ContractCase permuted(with_rows(inputs, 0, order));
  std::size_t checked = 0;
  for (const auto& [name, unchanged] : policy_variants()) {
    if (uses_order_of_rows(unchanged)) continue;
    const TestPolicy policy = skipping_none(unchanged);
    const std::vector<float> scores = scores_of(given, policy);
    std::vector<float> want;
    for (const std::size_t row : order) want.push_back(scores[row]);
    const Comparison comparison = compare(scores_of(permuted, policy), want, other_order);
    INFO(name << ": " << comparison.describe());
    CHECK(comparison.within());
    ++checked;
  }
  CHECK(checked >= for_backend<std::size_t>(20, 1));  // a device may run but a few
}

TEST_CASE("contract: equal rows get equal scores", "[contract][order]") {
  // Wherever in a tile of 128 rows they stand. Matrix products may add up rows of the last,
  // incomplete tile in another order: those may differ in the last bits, others not.
  constexpr Tolerance last_bits{8 * 0x1p-24, 0};
  reference::Inputs inputs =
      reference::random_inputs({.group = 2, .rows = {135}, .dim = 19, .value_dim = 13}, 6);
  std::vector<std::size_t> rows(135);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i * i % 11;
  inputs = with_rows(inputs, 0, rows);
  ContractCase given(inputs);
  for (const auto& [name, unchanged] : policy_variants()) {
    if (uses_order_of_rows(unchanged)) continue;
    const std::vector<float> scores = scores_of(given, skipping_none(unchanged));
    std::vector<float> want;
    std::size_t unequal = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      want.push_back(scores[static_cast<std::size_t>(std::find(rows.begin(), rows.end(), rows[i]) -
                                                     rows.begin())]);
      if (i < 128 && bits_of(scores[i]) != bits_of(want[i])) ++unequal;
    }
    const Comparison comparison = compare(scores, want, last_bits);
    INFO(name << ": " << comparison.describe());
    CHECK(comparison.within());
    CHECK(unequal == 0);
  }
}

TEST_CASE("contract: moving a sequence along changes no score", "[contract][order]") {
  // Keys are as cached, so the positions are only names; the distances stay.
  const reference::Inputs inputs = contract_inputs_with_holes();
  reference::Inputs moved = inputs;
  for (reference::Positions& head : moved.row_positions) {
    for (std::int64_t& position : head) position += 100000;
  }
  for (std::int64_t& position : moved.query_positions) position += 100000;
  for (std::int64_t& position : moved.probe_positions) position += 100000;
  ContractCase before(inputs);
  ContractCase after(moved);
  for (const auto& [name, policy] : policy_variants()) {
    if (uses_absolute_positions(policy)) continue;
    INFO(name);
    CHECK(same_bits(scores_of(after, policy), scores_of(before, policy)));
  }
}

TEST_CASE("contract: padding before the first token is not part of the cache",
          "[contract][order]") {
  // Two padding rows, then six tokens at positions 2 .. 7: scored as six tokens at 0 .. 5.
  const reference::Inputs alone = reference::random_inputs(
      {.group = 2, .rows = {6, 6}, .dim = 8, .value_dim = 8, .queries = 4}, 7);
  ContractCase given(alone);
  const auto with_padding = [](const std::vector<float>& rows) {
    std::vector<float> memory;
    for (std::size_t h = 0; h < 2; ++h) {
      memory.insert(memory.end(), 2 * 8, std::numeric_limits<float>::quiet_NaN());
      const auto first = rows.begin() + static_cast<std::ptrdiff_t>(h * 48);
      memory.insert(memory.end(), first, first + 48);
    }
    return memory;
  };
  const std::vector<float> keys = with_padding(given.cache.keys);
  const std::vector<float> values = with_padding(given.cache.values);
  const kvevict::KvView<const float> padded(
      kvevict::RowsView<const float>::strided(keys.data() + 16, 2, 6, 8, 64, 8),
      kvevict::RowsView<const float>::strided(values.data() + 16, 2, 6, 8, 64, 8),
      kvevict::Positions<>::consecutive(2));
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : policy_variants()) {
    if (uses_absolute_positions(policy)) continue;
    INFO(name);
    kvevict::Evidence<> evidence = given.evidence_for(policy);
    const std::vector<float> want = scores_of(given, policy);
    evidence.query_window->positions = kvevict::QueryPositions<>::consecutive(4);
    CHECK(same_bits(scores_of(res, policy, padded, evidence), want));
  }
}
