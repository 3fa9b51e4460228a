// SPDX-License-Identifier: Apache-2.0
// Queries in whatever memory and type the engine computes them.
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "support/backend.hpp"

namespace query_layouts_test {

using namespace kvevict_test;
using kvevict::Evidence;
using kvevict::QueriesView;

namespace {

// Queries [head][query][dim] with `pad` elements that are NaN behind each row.
template <class T>
std::vector<T> padded(const reference::Heads& heads, std::size_t pad) {
  std::vector<T> out;
  for (const reference::Matrix& head : heads) {
    for (std::size_t i = 0; i < head.rows; ++i) {
      for (std::size_t c = 0; c < head.cols; ++c) {
        out.push_back(static_cast<T>(static_cast<float>(head(i, c))));
      }
      for (std::size_t c = 0; c < pad; ++c) {
        out.push_back(static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
      }
    }
  }
  return out;
}

// Multiples of 1/32 below 4 in magnitude, which all types hold.
void quantise(reference::Heads& heads) {
  for (reference::Matrix& head : heads) {
    for (double& value : head.data) value = std::fmod(std::nearbyint(value * 32), 127) / 32;
  }
}

// Both windows and probes as `view` shows them, with the rest of the evidence.
template <class View>
void check_queries(ContractCase& given, const char* layout, View&& view) {
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : policy_variants()) {
    Evidence<> evidence = given.evidence_for(policy);
    const std::vector<float> want = scores_of(res, policy, given.view(), evidence);
    evidence.query_window->queries = view(given.inputs.queries, 0);
    evidence.probes->queries = view(given.inputs.probes, 1);
    INFO(name << ", " << layout);
    CHECK(same_bits(scores_of(res, policy, given.view(), evidence), want));
  }
}

template <class T>
void check_type(const char* layout) {
  reference::Inputs inputs = contract_inputs();
  quantise(inputs.queries);
  quantise(inputs.probes);
  ContractCase given(inputs);
  std::vector<T> memory[2];
  check_queries(given, layout, [&](const reference::Heads& heads, int which) {
    memory[which] = padded<T>(heads, 3);
    const auto rows = static_cast<std::int64_t>(heads[0].rows);
    return QueriesView<>::strided(memory[which].data(), static_cast<std::int64_t>(heads.size()),
                                  rows, 16, rows * 19, 19);
  });
}

}  // namespace

TEST_CASE("contract: padded queries of every type", "[contract][layout]") {
  check_type<float>("float");
  check_type<kvevict::half>("half");
  check_type<kvevict::bfloat16>("bfloat16");
}

TEST_CASE("contract: queries at an address for each head", "[contract][layout]") {
  ContractCase given(contract_inputs());
  std::vector<std::vector<float>> memory[2];
  std::vector<const float*> table[2];
  check_queries(given, "per head", [&](const reference::Heads& heads, int which) {
    memory[which].clear();
    table[which].clear();
    for (const reference::Matrix& head : heads) memory[which].push_back(padded<float>({head}, 1));
    for (const std::vector<float>& head : memory[which]) table[which].push_back(head.data());
    return QueriesView<>::per_head(table[which].data(), static_cast<std::int64_t>(heads.size()),
                                   static_cast<std::int64_t>(heads[0].rows), 16, 17);
  });
}

TEST_CASE("contract: query positions of each head", "[contract][layout]") {
  // A batch whose sequences stand at different positions: the heads' own tables.
  ContractCase given(contract_inputs());
  std::vector<std::int32_t> positions(20);
  for (std::size_t i = 0; i < 20; ++i) positions[i] = 115 + static_cast<std::int32_t>(i);
  const std::vector<const std::int32_t*> table(4, positions.data());
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    Evidence<> evidence = given.evidence_for(policy);
    const std::vector<float> want = scores_of(res, policy, given.view(), evidence);
    evidence.query_window->positions = kvevict::QueryPositions<>::per_head(table.data());
    CHECK(same_bits(scores_of(res, policy, given.view(), evidence), want));
    evidence.query_window->positions = kvevict::QueryPositions<>::consecutive(115);
    CHECK(same_bits(scores_of(res, policy, given.view(), evidence), want));
  }
}

}  // namespace query_layouts_test
