// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kvevict/core/budget.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/evict.hpp"
#include "kvevict/ops/greedy_log_det.hpp"
#include "kvevict/policies/projection_use.hpp"

namespace kvevict {

/// Selects by weights that the caller has: the budget's share of each head, chosen greedily for the
/// largest log det(s2 I + sum of w_i u_i u_i^T) over the kept rows (`greedy_log_det`), where a
/// leverage ranks each row by what it adds to all the others. Not a policy: which rows are best
/// depends on how many are kept, and scores may not. `log_dets` [heads], or empty, receives what
/// was reached. On the CPU. Throws as greedy_log_det and Budget::shares do, with `kept` untouched.
template <class R, class T>
void select_log_det(R& res, typename R::selection_type& kept, ScoreView<R::space> root_weights,
                    const KvView<T, R::space>& cache,
                    const MatrixBatchView<const float, R::space>& transforms, const Noise& noise,
                    const Budget& budget, const Protect& protect = {},
                    std::span<double> log_dets = {}) {
  const std::int64_t heads = cache.heads();
  require(log_dets.empty() || static_cast<std::int64_t>(log_dets.size()) == heads, "log_dets.size",
          log_dets.size(), "one for each head, or none,", heads);
  require_valid(protect);
  require_valid(noise);
  detail::require_scores(root_weights, cache.layout(), 1, "root_weights");
  require_ascending_positions(cache);
  const Positions<R::space> positions(cache.positions());
  WorkspaceScope scope(res.workspace());
  auto* counts = scope.template carve<std::int64_t>("select_log_det.counts", heads);
  auto* held = scope.template carve<std::int64_t>("select_log_det.protected", heads);
  budget.shares(cache.layout(), cache.row_bytes(), counts);
  detail::require_counts(res, counts, protect, positions, cache.layout(), held);
  res.reset_nan_scores();
  res.make_room(kept, std::span<const std::int64_t>(counts, static_cast<std::size_t>(heads)));
  greedy_log_det(res, cache.values(), root_weights, transforms, noise, positions, protect,
                 kept.layout(), kept.indices_data(), log_dets.empty() ? nullptr : log_dets.data());
  res.deliver_report(kept);
}

/// `select_log_det` with the weights, the noise and the projection of a capacity policy (Jacap,
/// CapKV), whose leverages `evict` would rank by. The policy must pool each group into one matrix.
/// Rows that CapKV leaves out of its weights (`skip_first`) have none: protect them. Measured gain
/// and cost: bench/quality.md.
template <class R, class P, class T>
void evict_greedily_into(R& res, typename R::selection_type& kept, const P& policy,
                         const KvView<T, R::space>& cache, const Evidence<R::space>& evidence,
                         const Budget& budget, const Protect& protect = {},
                         std::span<double> log_dets = {}) {
  require(policy.pooled, "policy.pooled", "false", "true for one matrix for each KV head",
          ErrorKind::unsupported);
  detail::require_evictable<R>(policy, cache, evidence);
  res.reset_report();
  const KvView<const std::remove_const_t<T>, R::space> rows(cache);
  WorkspaceScope scope(res.workspace());
  const ScoreView<R::space> roots{
      scope.template carve<float>("evict_greedily.root_weights", cache.layout().total()),
      cache.layout()};
  MatrixBatchView<const float, R::space> transforms;
  if (cache.layout().total() > 0) {
    policy.pooled_root_weights(res, rows, evidence, roots);
    if (policy.output_projection == ProjectionUse::factor) {
      const std::int64_t query_heads = evidence.output_projection->factors.shape[0];
      const std::int64_t group =
          detail::require_group(query_heads, cache.heads(), "output_projection.heads");
      transforms = detail::value_transforms(res, scope, rows, evidence, policy.output_projection,
                                            group, true);
    }
  }
  select_log_det(res, kept, roots, cache, transforms, policy.noise, budget, protect, log_dets);
}

}  // namespace kvevict
