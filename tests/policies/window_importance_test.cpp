// SPDX-License-Identifier: Apache-2.0
//
// What SnapKV, TOVA and R-KV make of a window, by the CPU's resources.
#include "kvevict/policies/window_importance.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/pooling.hpp"
#include "kvevict/cpu/resources.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

namespace window_importance_test {

using namespace kvevict_test;
using kvevict::GroupReduction;
using kvevict::Pooling;
using kvevict::QueryWindow;
using kvevict::detail::WindowImportance;

namespace {

// Means over the last `window` queries of causal softmax weights, [query head][row].
std::vector<std::vector<double>> mean_weights(const reference::Inputs& inputs, std::size_t window,
                                              std::size_t group) {
  std::vector<std::vector<double>> means;
  for (std::size_t q = 0; q < inputs.queries.size(); ++q) {
    const reference::Matrix& keys = inputs.keys[q / group];
    const reference::Matrix& queries = inputs.queries[q];
    std::vector<double> mean(keys.rows, 0.0);
    for (std::size_t i = queries.rows - window; i < queries.rows; ++i) {
      const std::size_t visible = keys.rows - queries.rows + i + 1;
      std::vector<double> weights(visible);
      double sum = 0;
      for (std::size_t j = 0; j < visible; ++j) {
        double logit = 0;
        for (std::size_t c = 0; c < keys.cols; ++c) logit += queries(i, c) * keys(j, c);
        weights[j] = std::exp(logit / std::sqrt(static_cast<double>(keys.cols)));
        sum += weights[j];
      }
      for (std::size_t j = 0; j < visible; ++j) {
        mean[j] += weights[j] / sum / static_cast<double>(window);
      }
    }
    means.push_back(mean);
  }
  return means;
}

struct Result {
  std::vector<float> scores;
  std::int64_t begin;  // of the window in the first head
};

Result importance(const reference::Inputs& inputs, const WindowImportance& how) {
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  kvevict::CpuResources res({.threads = 2});
  Result result;
  result.scores.assign(static_cast<std::size_t>(cache.layout().total()), -1.0f);
  const auto bound = kvevict::detail::window_importance(
      res, cache.view(), *evidence.view().query_window, how,
      kvevict::ScoreView<>{result.scores.data(), cache.layout()});
  result.begin = bound.of(0);
  return result;
}

}  // namespace

TEST_CASE("window importance: the last queries of a window, or all", "[policies][window]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {30}, .queries = 12}, 1);
  const PolicyEvidence evidence(inputs);
  const QueryWindow<>& window = *evidence.view().query_window;
  for (const std::int64_t count : {1, 5, 12, 13, 1000}) {
    const auto last = kvevict::detail::last_queries(window, count);
    const std::int64_t used = std::min<std::int64_t>(count, 12);
    CHECK(last.queries.count() == used);
    CHECK(last.positions.at(0, 0) == window.positions.at(0, 12 - used));
    CHECK(last.mask == kvevict::ProbeMask::by_position);
  }
}

TEST_CASE("window importance: means of causal weights, reduced over the group",
          "[policies][window]") {
  constexpr std::size_t group = 3;
  const reference::Inputs inputs =
      reference::random_inputs({.group = group, .rows = {40, 40}, .queries = 12}, 2);
  for (const std::size_t window : {1u, 7u, 12u}) {
    const auto means = mean_weights(inputs, window, group);
    for (const GroupReduction reduction : {GroupReduction::mean, GroupReduction::max}) {
      std::vector<double> want;
      for (std::size_t h = 0; h < 2; ++h) {
        for (std::size_t j = 0; j < 40; ++j) {
          double sum = 0;
          double largest = 0;
          for (std::size_t g = 0; g < group; ++g) {
            sum += means[h * group + g][j];
            largest = std::max(largest, means[h * group + g][j]);
          }
          want.push_back(reduction == GroupReduction::mean ? sum / group : largest);
        }
      }
      const Result got = importance(inputs, {.window = static_cast<std::int64_t>(window),
                                             .kernel = 1,
                                             .pooling = Pooling::average,
                                             .count_padding = true,
                                             .reduction = reduction});
      CHECK(got.begin == 40 - static_cast<std::int64_t>(window));
      const Comparison comparison = compare(got.scores, want, tolerance::float32_sum);
      INFO("window " << window << ": " << comparison.describe());
      CHECK(comparison.within());
    }
  }
}

TEST_CASE("window importance: only rows before the window are pooled, among themselves",
          "[policies][window]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 1, .rows = {40}, .queries = 8}, 3);
  const WindowImportance plain{.window = 8,
                               .kernel = 1,
                               .pooling = Pooling::max,
                               .count_padding = true,
                               .reduction = GroupReduction::mean};
  WindowImportance wide = plain;
  wide.kernel = 5;
  const std::vector<float> before = importance(inputs, plain).scores;
  const std::vector<float> after = importance(inputs, wide).scores;
  for (std::size_t j = 0; j < 32; ++j) {
    const std::size_t first = j < 2 ? 0 : j - 2;
    const std::size_t end = std::min<std::size_t>(j + 3, 32);
    INFO("row " << j);
    CHECK(after[j] == *std::max_element(before.begin() + static_cast<std::ptrdiff_t>(first),
                                        before.begin() + static_cast<std::ptrdiff_t>(end)));
  }
  CHECK(std::equal(before.begin() + 32, before.end(), after.begin() + 32));
}

}  // namespace window_importance_test
