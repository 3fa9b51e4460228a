// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kvevict/core/array.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/math/mean_rotation.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/query_moments.hpp"
#include "kvevict/ops/query_stats.hpp"

namespace kvevict {

/// Mean and covariance of queries, owned, for use as evidence in memory space S.
template <MemorySpace S = MemorySpace::host>
class BasicQueryStats {
 public:
  /// Room for statistics of `heads` query heads, without values.
  template <class R>
  requires(R::space == S)
      BasicQueryStats(R& res, std::int64_t heads, std::int64_t dim, Covariance covariance)
      : heads_(heads), dim_(dim), covariance_(covariance) {
    mean_.resize(res, heads * dim);
    second_.resize(res, heads * second_size());
  }

  /// Refers to this object.
  QueryStatsView<S> view() const {
    QueryStatsView<S> view;
    view.mean = MatrixView<const float, S>::packed(mean_.data(), heads_, dim_);
    if (covariance_ == Covariance::diagonal) {
      view.diagonal = MatrixView<const float, S>::packed(second_.data(), heads_, dim_);
    } else if (covariance_ == Covariance::full) {
      view.covariance = MatrixBatchView<const float, S>::packed(second_.data(), heads_, dim_, dim_);
    }
    return view;
  }

  std::int64_t heads() const { return heads_; }
  std::int64_t dim() const { return dim_; }
  Covariance covariance() const { return covariance_; }
  /// [dim] in memory space S.
  float* mean(std::int64_t head) { return mean_.data() + head * dim_; }
  /// [dim] or [dim][dim], by the kind of covariance, in memory space S.
  float* second(std::int64_t head) { return second_.data() + head * second_size(); }
  /// Floats that the covariance of one head takes.
  std::int64_t second_size() const {
    if (covariance_ == Covariance::none) return 0;
    return covariance_ == Covariance::full ? dim_ * dim_ : dim_;
  }

 private:
  std::int64_t heads_;
  std::int64_t dim_;
  Covariance covariance_;
  Array<float, S> mean_;
  Array<float, S> second_;
};

using QueryStats = BasicQueryStats<>;

/// Query statistics that grow with the sequence: mean m and covariance S = (1/n) sum (q - m)(q -
/// m)^T of pre-RoPE queries per query head, in double, by pairwise updates; chunks may be observed
/// one by one or in several objects that are merged. `finish` turns them to the future: mu = Rbar
/// m, Lambda = Rbar S Rbar^T with Rbar the rotation averaged over the span (arXiv 2510.00636).
/// Diagonal means the diagonal of Lambda, after the rotation. Memory: dim or dim^2 doubles per
/// head in memory space S, allocated when the first queries arrive.
template <MemorySpace S = MemorySpace::host>
class BasicRunningQueryStats {
 public:
  BasicRunningQueryStats(std::int64_t query_heads, std::int64_t dim, const Rope& rope,
                         Covariance covariance)
      : heads_(at_least_one(query_heads, "query_heads")),
        dim_(at_least_one(dim, "dim")),
        frequencies_(rope.frequencies.begin(), rope.frequencies.end()),
        rope_(rope),
        covariance_(covariance),
        second_size_(moment_size(covariance, rope, dim_)) {
    require_valid(rope, dim);
  }

  /// Queries observed, per head.
  std::int64_t count() const { return count_; }

  /// Takes in the pre-RoPE queries from `first` on.
  template <class R>
  requires(R::space == S) void observe(R& res, const QueriesView<S>& queries,
                                       std::int64_t first = 0) {
    accumulate_query_moments(res, queries, first, rope(), covariance_, count_, ready(res));
    count_ += queries.count() - first;
  }

  /// Takes in what another object of the same shape has observed.
  template <class R>
  requires(R::space == S) void merge(R& res, const BasicRunningQueryStats& other) {
    require(other.heads_ == heads_, "other.query_heads", other.heads_, "equal to", heads_);
    require(other.dim_ == dim_, "other.dim", other.dim_, "equal to", dim_);
    require(other.second_size_ == second_size_, "other.covariance", other.second_size_,
            "of the same kind, of size", second_size_);
    if (other.count_ == 0) return;
    merge_query_moments(res, other.moments(), other.count_, rope(), covariance_, count_,
                        ready(res));
    count_ += other.count_;
  }

  /// Statistics of the queries to come. Throws invalid_argument when nothing was observed.
  template <class R>
  requires(R::space == S) BasicQueryStats<S> finish(R& res, const FutureSpan& span)
  const { return rotated(res, mean_rotation(rope(), dim_, span)); }

  /// Statistics in the frame of the observed queries: for queries that were given after RoPE.
  template <class R>
  requires(R::space == S) BasicQueryStats<S> finish_unrotated(R& res)
  const { return rotated(res, no_rotation(rope_, dim_)); }

  /// Forgets everything.
  void reset() { count_ = 0; }

 private:
  static std::int64_t at_least_one(std::int64_t value, std::string_view name) {
    require(value >= 1, name, value, ">=", 1);
    return value;
  }

  Rope rope() const {
    Rope rope = rope_;
    rope.frequencies = frequencies_;
    return rope;
  }

  QueryMoments<S, const double> moments() const {
    return {MatrixView<const double, S>::packed(mean_.data(), heads_, dim_),
            MatrixView<const double, S>::packed(second_.data(), heads_, second_size_)};
  }

  /// The moments for writing: zero when nothing was observed yet.
  template <class R>
  QueryMoments<S> ready(R& res) {
    if (count_ == 0) {
      mean_.resize(res, heads_ * dim_);
      mean_.fill_zero(res);
      second_.resize(res, heads_ * second_size_);
      second_.fill_zero(res);
    }
    return {MatrixView<double, S>::packed(mean_.data(), heads_, dim_),
            MatrixView<double, S>::packed(second_.data(), heads_, second_size_)};
  }

  template <class R>
  BasicQueryStats<S> rotated(R& res, const MeanRotation& rotation) const {
    require(count_ >= 1, "observed queries", count_, ">=", 1);
    BasicQueryStats<S> stats(res, heads_, dim_, covariance_);
    finish_query_stats(res, moments(), count_, rope(), rotation, covariance_,
                       MatrixView<float, S>::packed(stats.mean(0), heads_, dim_),
                       MatrixView<float, S>::packed(stats.second(0), heads_, stats.second_size()));
    return stats;
  }

  std::int64_t heads_;
  std::int64_t dim_;
  std::vector<double> frequencies_;
  Rope rope_;
  Covariance covariance_;
  std::int64_t second_size_;
  Array<double, S> mean_;
  Array<double, S> second_;
  std::int64_t count_ = 0;
};

using RunningQueryStats = BasicRunningQueryStats<>;

/// How `estimate_query_stats` looks at the queries.
struct QueryStatsOptions {
  std::int64_t next_position = -1;  ///< tokens seen; always given
  std::int64_t future = 512;        ///< positions ahead to average the rotation over
  std::int64_t skip_first = 4;      ///< queries (of the sinks) left out
  Covariance covariance = Covariance::diagonal;
};

/// Statistics of the future queries from the pre-RoPE queries of the context: see
/// RunningQueryStats. Throws invalid_argument unless more than `skip_first` queries are given.
/// O(heads * queries * dim), times dim for full.
template <class R>
BasicQueryStats<R::space> estimate_query_stats(R& res, const QueriesView<R::space>& pre_rope,
                                               const Rope& rope, const QueryStatsOptions& options) {
  require(options.skip_first >= 0, "skip_first", options.skip_first, ">=", 0);
  require(pre_rope.count() > options.skip_first, "queries.count", pre_rope.count(),
          "above skip_first,", options.skip_first);
  BasicRunningQueryStats<R::space> running(pre_rope.heads(), pre_rope.dim(), rope,
                                           options.covariance);
  running.observe(res, pre_rope, options.skip_first);
  return running.finish(res, {options.next_position, options.future});
}

/// Statistics of post-RoPE queries as they are, such as the last window of the context.
template <class R>
BasicQueryStats<R::space> window_query_stats(R& res, const QueriesView<R::space>& post_rope,
                                             Covariance covariance) {
  const Rope none{.rotary_dim = post_rope.dim() - post_rope.dim() % 2};
  BasicRunningQueryStats<R::space> running(post_rope.heads(), post_rope.dim(), none, covariance);
  running.observe(res, post_rope);
  return running.finish_unrotated(res);
}

}  // namespace kvevict
