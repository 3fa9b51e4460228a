// SPDX-License-Identifier: Apache-2.0
#include "contract/contract_case.hpp"

#include <cmath>
#include <cstring>
#include <numeric>

#include "reference/random_inputs.hpp"
#include "reference/selection.hpp"
#include "support/backend.hpp"

namespace kvevict_test {

reference::Inputs contract_inputs() {
  reference::Inputs inputs = reference::random_inputs({.group = 2,
                                                       .rows = {40, 17, 0, 135},
                                                       .dim = 16,
                                                       .value_dim = 12,
                                                       .queries = 20,
                                                       .probes = 9},
                                                      1);
  inputs.query_positions.resize(20);
  std::iota(inputs.query_positions.begin(), inputs.query_positions.end(), std::int64_t{115});
  return inputs;
}

reference::Inputs contract_inputs_with_holes() {
  reference::Inputs inputs = contract_inputs();
  for (std::size_t h = 0; h < inputs.keys.size(); ++h) {
    auto position = static_cast<std::int64_t>(h);
    inputs.row_positions.emplace_back();
    for (std::size_t i = 0; i < inputs.keys[h].rows; ++i) {
      inputs.row_positions.back().push_back(position);
      position += 1 + static_cast<std::int64_t>((i * i + h) % 3);
    }
  }
  for (std::int64_t& position : inputs.query_positions) position = 2 * position - 100;
  inputs.probe_positions = {3, 5, 11, 30, 80, 81, 200, 300, 500};
  return inputs;
}

reference::Inputs uniform_contract_inputs() {
  return reference::random_inputs(
      {.group = 2, .rows = {70, 70, 70}, .dim = 16, .value_dim = 12, .queries = 20, .probes = 9},
      2);
}

std::vector<float> scores_of(ContractCase& given, const TestPolicy& policy) {
  TestResources res({.threads = 1});
  return scores_of(res, policy, given.view(), given.evidence_for(policy));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::vector<float> head_of(const std::vector<float>& scores, const kvevict::RowLayout<>& layout,
                           std::int64_t head) {
  const auto first = scores.begin() + layout.offset(head);
  return {first, first + layout.rows(head)};
}

std::int64_t count_nan(const std::vector<float>& scores) {
  return std::count_if(scores.begin(), scores.end(), [](float s) { return std::isnan(s); });
}

std::vector<std::vector<std::int32_t>> best_rows(const std::vector<float>& scores,
                                                 const kvevict::RowLayout<>& layout,
                                                 std::int64_t count) {
  std::vector<std::vector<std::int32_t>> out;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    const std::vector<float> head = head_of(scores, layout, h);
    const reference::Rows rows = reference::select_top(
        {head.begin(), head.end()}, static_cast<std::size_t>(std::min(count, layout.rows(h))), {});
    out.emplace_back(rows.begin(), rows.end());
  }
  return out;
}

}  // namespace kvevict_test
