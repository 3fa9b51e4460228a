// SPDX-License-Identifier: Apache-2.0
#include "policies/compare_with_reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "catch.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "reference/score.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace kvevict_test {
namespace {

using reference::Inputs;
using reference::InputShape;
using reference::Positions;

// Ascending positions with holes: each row is 1 to 4 behind the one before.
Positions with_holes(std::size_t rows, std::uint64_t seed) {
  Positions positions;
  std::int64_t next = Random(seed).integer(0, 3);
  for (std::size_t i = 0; i < rows; ++i) {
    positions.push_back(next);
    next += 1 + Random(seed).integer(i + 1, 4);
  }
  return positions;
}

// Queries end where the longest head does, so that shorter heads lie before the whole window.
Positions last_positions(std::size_t count, std::int64_t last) {
  Positions positions(count);
  std::iota(positions.begin(), positions.end(), last + 1 - static_cast<std::int64_t>(count));
  return positions;
}

NamedInputs make(const std::string& name, const InputShape& shape, bool holes, bool masked) {
  NamedInputs named{name, reference::random_inputs(shape, 7000 + shape.dim)};
  Inputs& inputs = named.inputs;
  std::int64_t last = 0;
  for (const std::size_t rows : shape.rows) {
    if (holes) inputs.row_positions.push_back(with_holes(rows, rows + 1));
    if (rows == 0) continue;
    const Positions positions =
        holes ? inputs.row_positions.back() : Positions{static_cast<std::int64_t>(rows) - 1};
    last = std::max(last, positions.back());
  }
  inputs.query_positions = last_positions(shape.queries, last);
  if (holes) {  // some of them between rows, the first before every row
    for (std::int64_t& position : inputs.query_positions) position -= position % 3;
  }
  if (masked) inputs.probe_positions = last_positions(shape.probes, last / 2);
  return named;
}

}  // namespace

const std::vector<NamedInputs>& varied_inputs() {
  static const std::vector<NamedInputs> all = {
      make("one row", {.group = 1, .rows = {1}, .dim = 4, .value_dim = 4, .queries = 3}, false,
           false),
      make("two and seven rows, odd dimensions",
           {.group = 2, .rows = {2, 7}, .dim = 5, .value_dim = 9, .queries = 5}, false, true),
      make("ragged with an empty head",
           {.group = 3, .rows = {130, 0, 7}, .dim = 16, .value_dim = 12, .queries = 40}, false,
           false),
      make("five heads, holes",
           {.group = 1, .rows = {7, 1, 2, 130, 0}, .dim = 33, .value_dim = 7, .queries = 21}, true,
           true),
      make("ties", {.group = 2, .rows = {60, 61}, .dim = 8, .value_dim = 8, .values = Shape::ties},
           false, false),
      make("heavy tails",
           {.group = 2, .rows = {131}, .dim = 12, .value_dim = 20, .values = Shape::heavy_tailed},
           false, true),
      make("long, group of four",
           {.group = 4, .rows = {300}, .dim = 80, .value_dim = 64, .queries = 70, .probes = 70},
           false, false),
      make(
          "long, ragged, holes",
          {.group = 2, .rows = {300, 130}, .dim = 64, .value_dim = 64, .queries = 64, .probes = 20},
          true, false),
  };
  return all;
}

Comparison compare_with_reference(const std::string& policy, const Pairs& parameters,
                                  const Inputs& inputs, Tolerance tolerance) {
  const std::vector<std::vector<float>> got =
      split_scores(library_scores(make_policy(policy, parameters), inputs), inputs);
  const reference::Scores want = reference::score(policy, parameters, inputs);
  Comparison comparison;
  for (std::size_t h = 0; h < want.size(); ++h) {
    double largest = 0;
    for (const double value : want[h]) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    for (std::size_t i = 0; i < want[h].size(); ++i) {
      add(comparison, static_cast<double>(got.at(h).at(i)), want[h][i],
          {tolerance.rel, tolerance.abs * largest});
    }
  }
  return comparison;
}

double check_varied(const std::string& policy, const Pairs& parameters, Tolerance tolerance) {
  std::string text;
  for (const auto& [name, value] : parameters) text.append(" ").append(name + "=" + value);
  double used = 0;
  // Of a few inputs each call takes others than the one before.
  static std::uint64_t calls = 0;
  std::uint64_t number = calls++;
  for (const NamedInputs& named : varied_inputs()) {
    if (!case_runs(number++)) continue;
    const Comparison comparison =
        compare_with_reference(policy, parameters, named.inputs, tolerance);
    INFO(policy << text << ", " << named.name << ": " << comparison.describe());
    CHECK(comparison.within());
    used = std::max(used, comparison.used());
  }
  return used;
}

}  // namespace kvevict_test
