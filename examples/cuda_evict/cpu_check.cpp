// SPDX-License-Identifier: Apache-2.0
#include "cpu_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>

#include "evidence.hpp"
#include "kvevict/kvevict.hpp"

namespace cuda_evict {
namespace {

/// How far scores of both backends may lie apart: leverages agree to 1e-4 of themselves (the
/// library's promise for well-conditioned matrices, others are closer), and scores that cancel, as
/// cosines do, to some roundings of the largest.
constexpr float relative_tolerance = 1e-4f;
constexpr float cancellation_tolerance = 1e-6f;

/// Compares what both kept of one head, given its scores on the CPU.
void compare_head(std::span<const float> scores, std::span<const std::int32_t> on_cpu,
                  std::span<const std::int32_t> on_device, const kvevict::Protect& protect,
                  Comparison& result) {
  const auto rows = static_cast<std::int64_t>(scores.size());
  const auto score = [&](std::int32_t row) { return scores[static_cast<std::size_t>(row)]; };
  float lowest = INFINITY;  // of the kept rows that had to compete
  for (std::int32_t row : on_cpu) {
    if (row >= protect.sinks && row < rows - protect.recent) lowest = std::min(lowest, score(row));
  }
  float largest = 0.0f;
  for (float each : scores) largest = std::max(largest, std::abs(each));
  const float tolerance = relative_tolerance * std::abs(lowest) + cancellation_tolerance * largest;
  std::vector<std::int32_t> exchanged;
  std::set_symmetric_difference(on_cpu.begin(), on_cpu.end(), on_device.begin(), on_device.end(),
                                std::back_inserter(exchanged));
  result.kept += static_cast<std::int64_t>(on_cpu.size());
  result.exchanged += static_cast<std::int64_t>(exchanged.size());
  result.wrong += std::count_if(exchanged.begin(), exchanged.end(), [&](std::int32_t row) {
    return !(std::abs(score(row) - lowest) <= tolerance);
  });
}

}  // namespace

template <class T>
Comparison compare_with_cpu(const HostHeads<T>& heads, const kvevict::AnyPolicy& policy,
                            const kvevict::Rope& rope, const kvevict::Budget& budget,
                            const kvevict::Protect& protect, const kvevict::Selection& on_device) {
  kvevict::CpuResources res;
  const auto layout = kvevict::RowLayout<>::ragged(heads.offsets.data(), heads.heads());
  const auto cache =
      kvevict::KvView<const T>::ragged(heads.keys.data(), heads.values.data(), layout, heads.dim);
  const std::int64_t count =
      static_cast<std::int64_t>(heads.queries.size()) / (heads.query_heads * heads.dim);
  const auto queries =
      kvevict::QueriesView<>::packed(heads.queries.data(), heads.query_heads, count, heads.dim);
  const auto stats = kvevict::estimate_query_stats(
      res, queries, rope,
      {.next_position = layout.longest(), .covariance = wanted_covariance(policy)});
  kvevict::Evidence<> evidence{.query_stats = stats.view()};
  const MoreEvidence<kvevict::CpuResources> more(res, policy, cache, queries, rope);
  more.add_to(cache, evidence);

  std::vector<float> scores(static_cast<std::size_t>(layout.total()));
  const kvevict::ScoreView<> view{scores.data(), layout};
  kvevict::score_rows(res, policy, cache, evidence, view);
  kvevict::Selection kept;
  kvevict::select_rows(res, kept, view, cache, policy.comparable_across_heads(), budget, protect);

  Comparison result;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    if (layout.rows(h) == 0) continue;
    const std::span<const float> head(view.head(h), static_cast<std::size_t>(layout.rows(h)));
    compare_head(head, kept.head(h), on_device.head(h), protect, result);
  }
  return result;
}

template Comparison compare_with_cpu(const HostHeads<float>&, const kvevict::AnyPolicy&,
                                     const kvevict::Rope&, const kvevict::Budget&,
                                     const kvevict::Protect&, const kvevict::Selection&);
template Comparison compare_with_cpu(const HostHeads<kvevict::half>&, const kvevict::AnyPolicy&,
                                     const kvevict::Rope&, const kvevict::Budget&,
                                     const kvevict::Protect&, const kvevict::Selection&);
template Comparison compare_with_cpu(const HostHeads<kvevict::bfloat16>&, const kvevict::AnyPolicy&,
                                     const kvevict::Rope&, const kvevict::Budget&,
                                     const kvevict::Protect&, const kvevict::Selection&);

}  // namespace cuda_evict
