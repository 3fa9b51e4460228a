// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kvevict/core/array.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/math/random.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/query_moments.hpp"

namespace kvevict {

/// Which queries of the context become probes, and where they are moved.
struct ProbePlan {
  std::vector<std::int32_t> rows;       ///< query numbers within the context
  std::vector<std::int32_t> positions;  ///< positions that they are rotated to, ascending
};

/// How `future_probes` chooses. The defaults are those of the measurements behind `Jacap`'s
/// default: recent queries serve local text, sampled ones the rest, and both together are the safe
/// choice.
struct FutureProbesOptions {
  std::int64_t next_position = -1;  ///< tokens seen; always given
  /// This many last queries, moved on to follow the context. More keep more, above all refitted,
  /// and take their time: bench/quality.md has what 256 and 512 were measured to give.
  std::int64_t last = 128;
  std::int64_t sampled =
      64;  ///< queries drawn from the whole context, at positions drawn from the future
  std::int64_t future = 256;  ///< sampled positions lie in [next_position, next_position + future)
  std::int64_t skip_first = 4;  ///< queries (of the sinks) that are not drawn
  std::uint64_t seed = 0;

  friend bool operator==(const FutureProbesOptions&, const FutureProbesOptions&) = default;
};

/// Positions are 32-bit.
inline constexpr std::int64_t max_position = INT32_MAX;

/// Draws a plan for a context of `queries` queries into `plan`, whose memory is used again. Content
/// comes from the context, position from the future. Contexts shorter than `last` + skip_first give
/// fewer probes; deterministic for a seed.
inline void plan_future_probes(std::int64_t queries, const FutureProbesOptions& options,
                               ProbePlan& plan) {
  require(options.next_position >= 0, "next_position", options.next_position, "given and >=", 0);
  require(options.last >= 0, "last", options.last, ">=", 0);
  require(options.sampled >= 0, "sampled", options.sampled, ">=", 0);
  require(options.future >= 1, "future", options.future, ">=", 1);
  require(options.skip_first >= 0, "skip_first", options.skip_first, ">=", 0);
  require(queries > options.skip_first, "queries.count", queries, "above skip_first,",
          options.skip_first);
  require(options.next_position + std::max(options.last, options.future) <= max_position,
          "next_position", options.next_position, "at most 2^31 - 1 with the probes behind it");
  const std::int64_t drawable = queries - options.skip_first;
  const std::int64_t last = std::min(options.last, drawable);
  plan.rows.clear();
  plan.positions.clear();
  for (std::int64_t i = 0; i < last; ++i) {
    plan.rows.push_back(static_cast<std::int32_t>(queries - last + i));
    plan.positions.push_back(static_cast<std::int32_t>(options.next_position + i));
  }
  const auto below = [&](std::int64_t bound, std::uint64_t stream, std::int64_t i) {
    const std::uint64_t bits = random_bits(options.seed, stream, static_cast<std::uint64_t>(i));
    return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(bound));
  };
  for (std::int64_t i = 0; i < options.sampled; ++i) {
    const auto position =
        static_cast<std::int32_t>(options.next_position + below(options.future, 1, i));
    const auto row = static_cast<std::int32_t>(options.skip_first + below(drawable, 0, i));
    // Behind those at the same position that came before it.
    const auto at = std::upper_bound(plan.positions.begin(), plan.positions.end(), position);
    plan.rows.insert(plan.rows.begin() + (at - plan.positions.begin()), row);
    plan.positions.insert(at, position);
  }
}

/// The same, returned.
inline ProbePlan plan_future_probes(std::int64_t queries, const FutureProbesOptions& options) {
  ProbePlan plan;
  plan_future_probes(queries, options, plan);
  return plan;
}

/// Probe queries, owned, for use as evidence in memory space S: fp32 [query_head][probe][dim],
/// after RoPE.
template <MemorySpace S = MemorySpace::host>
class BasicProbes {
 public:
  /// Room for a probe of each head at each of the positions.
  template <class R>
  requires(R::space == S) BasicProbes(R& res, std::int64_t heads, std::int64_t dim,
                                      std::span<const std::int32_t> positions)
      : heads_(heads), dim_(dim) {
    reshape(res, positions);
  }

  /// Room for probes at other positions; memory is used again.
  template <class R>
  requires(R::space == S) void reshape(R& res, std::span<const std::int32_t> positions) {
    positions_.assign(res, positions.data(), static_cast<std::int64_t>(positions.size()));
    queries_.resize(res, heads_ * dim_ * count());
  }

  std::int64_t heads() const { return heads_; }
  std::int64_t dim() const { return dim_; }

  std::int64_t count() const { return positions_.size(); }
  MatrixBatchView<float, S> queries() {
    return MatrixBatchView<float, S>::packed(queries_.data(), heads_, count(), dim_);
  }
  /// Refers to this object.
  ProbeQueries<S> view() const {
    return {QueriesView<S>::packed(queries_.data(), heads_, count(), dim_),
            QueryPositions<S>::shared(positions_.data()), ProbeMask::none};
  }

 private:
  std::int64_t heads_;
  std::int64_t dim_;
  Array<std::int32_t, S> positions_;
  Array<float, S> queries_;
};

using Probes = BasicProbes<>;

/// Rotates the planned pre-RoPE queries to their positions, into `probes` of the same heads and
/// dim. Throws invalid_argument for a row outside the queries.
template <class R>
void rotate_probes_into(R& res, const QueriesView<R::space>& pre_rope, const Rope& rope,
                        const ProbePlan& plan, BasicProbes<R::space>& probes) {
  require(plan.rows.size() == plan.positions.size(), "plan.rows.size", plan.rows.size(),
          "equal to plan.positions.size,", plan.positions.size());
  for (std::int32_t row : plan.rows) {
    require(row >= 0 && row < pre_rope.count(), "plan.rows", row,
            "in [0, queries.count), count =", pre_rope.count());
  }
  require(probes.heads() == pre_rope.heads(), "probes.heads", probes.heads(), "equal to",
          pre_rope.heads());
  require(probes.dim() == pre_rope.dim(), "probes.dim", probes.dim(), "equal to", pre_rope.dim());
  probes.reshape(res, plan.positions);
  rotate_queries(res, pre_rope, plan.rows.data(), plan.positions.data(), probes.count(), rope,
                 probes.queries());
}

/// The same, returned.
template <class R>
BasicProbes<R::space> rotate_probes(R& res, const QueriesView<R::space>& pre_rope, const Rope& rope,
                                    const ProbePlan& plan) {
  BasicProbes<R::space> probes(res, pre_rope.heads(), pre_rope.dim(), {});
  rotate_probes_into(res, pre_rope, rope, plan, probes);
  return probes;
}

/// Probes that stand for the queries to come, from the pre-RoPE queries of the context: the last
/// ones moved on by their number, and a seeded sample of all rotated to sampled future positions.
template <class R>
BasicProbes<R::space> future_probes(R& res, const QueriesView<R::space>& pre_rope, const Rope& rope,
                                    const FutureProbesOptions& options) {
  return rotate_probes(res, pre_rope, rope, plan_future_probes(pre_rope.count(), options));
}

}  // namespace kvevict
