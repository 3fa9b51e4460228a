// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvevict/core/evidence.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/query_moments.hpp"

namespace kvevict {

/// Mean and covariance of queries, owned, for use as evidence.
class QueryStats {
 public:
  QueryStats(std::int64_t heads, std::int64_t dim, Covariance covariance)
      : heads_(heads),
        dim_(dim),
        covariance_(covariance),
        mean_(static_cast<std::size_t>(heads * dim)),
        second_(static_cast<std::size_t>(covariance == Covariance::none
                                             ? 0
                                             : heads * dim *
                                                   (covariance == Covariance::full ? dim : 1))) {}

  QueryStatsView<> view() const {
    QueryStatsView<> view;
    view.mean = MatrixView<const float>::packed(mean_.data(), heads_, dim_);
    if (covariance_ == Covariance::diagonal) {
      view.diagonal = MatrixView<const float>::packed(second_.data(), heads_, dim_);
    } else if (covariance_ == Covariance::full) {
      view.covariance = MatrixBatchView<const float>::packed(second_.data(), heads_, dim_, dim_);
    }
    return view;
  }

  std::int64_t heads() const { return heads_; }
  std::int64_t dim() const { return dim_; }
  Covariance covariance() const { return covariance_; }
  float* mean(std::int64_t head) { return mean_.data() + head * dim_; }
  /// [dim] or [dim][dim], by the kind of covariance.
  float* second(std::int64_t head) {
    return second_.data() + head * dim_ * (covariance_ == Covariance::full ? dim_ : 1);
  }

 private:
  std::int64_t heads_;
  std::int64_t dim_;
  Covariance covariance_;
  std::vector<float> mean_;
  std::vector<float> second_;
};

/// The positions that future queries will stand at: [next_position, next_position + future).
/// `next_position` is the number of tokens seen, never the number of rows, and has no default.
struct FutureSpan {
  std::int64_t next_position = -1;
  std::int64_t future = 512;
};

/// Mean over a span of positions of each RoPE pair's rotation: the block [[cosine, -sine], [sine,
/// cosine]].
struct MeanRotation {
  std::vector<double> cosine;  ///< [rotary_dim / 2]
  std::vector<double> sine;    ///< [rotary_dim / 2]
};

/// Averages the rotations of the span, attention factor included. O(future * rotary_dim).
inline MeanRotation mean_rotation(const Rope& rope, std::int64_t dim, const FutureSpan& span) {
  require_valid(rope, dim);
  require(span.next_position >= 0, "next_position", span.next_position, "given and >=", 0);
  require(span.future >= 1, "future", span.future, ">=", 1);
  MeanRotation rotation;
  for (std::int64_t pair = 0; pair < rope.rotated(dim) / 2; ++pair) {
    const double frequency = rope.frequency(pair, dim);
    double cosine = 0.0;
    double sine = 0.0;
    for (std::int64_t p = span.next_position; p < span.next_position + span.future; ++p) {
      cosine += std::cos(static_cast<double>(p) * frequency);
      sine += std::sin(static_cast<double>(p) * frequency);
    }
    const double weight = rope.attention_factor / static_cast<double>(span.future);
    rotation.cosine.push_back(cosine * weight);
    rotation.sine.push_back(sine * weight);
  }
  return rotation;
}

/// Query statistics that grow with the sequence: mean m and covariance S = (1/n) sum (q - m)(q -
/// m)^T of pre-RoPE queries per query head, in double, by pairwise updates; chunks may be observed
/// one by one or in several objects that are merged. `finish` turns them to the future: mu = Rbar
/// m, Lambda = Rbar S Rbar^T with Rbar the rotation averaged over the span (arXiv 2510.00636).
/// Diagonal means the diagonal of Lambda, after the rotation. Memory: dim or dim^2 doubles per
/// head.
class RunningQueryStats {
 public:
  RunningQueryStats(std::int64_t query_heads, std::int64_t dim, const Rope& rope,
                    Covariance covariance)
      : heads_(at_least_one(query_heads, "query_heads")),
        dim_(at_least_one(dim, "dim")),
        frequencies_(rope.frequencies.begin(), rope.frequencies.end()),
        rope_(rope),
        covariance_(covariance),
        moments_(moment_size(covariance, rope, dim_)),
        mean_(static_cast<std::size_t>(query_heads * dim)),
        second_(static_cast<std::size_t>(query_heads * moments_)) {
    require_valid(rope, dim);
  }

  /// Queries observed, per head.
  std::int64_t count() const { return count_; }

  /// Takes in the pre-RoPE queries from `first` on.
  template <class R>
  void observe(R& res, const QueriesView<R::space>& queries, std::int64_t first = 0) {
    QueryMoments<> moments;
    moments.mean = MatrixView<double>::packed(mean_.data(), heads_, dim_);
    moments.second = MatrixView<double>::packed(second_.data(), heads_, moments_);
    accumulate_query_moments(res, queries, first, rope(), covariance_, count_, moments);
    count_ += queries.count() - first;
  }

  /// Takes in what another object of the same shape has observed.
  void merge(const RunningQueryStats& other) {
    require(other.heads_ == heads_, "other.query_heads", other.heads_, "equal to", heads_);
    require(other.dim_ == dim_, "other.dim", other.dim_, "equal to", dim_);
    require(other.moments_ == moments_, "other.covariance", other.moments_,
            "of the same kind, of size", moments_);
    if (other.count_ == 0) return;
    const double total = static_cast<double>(count_ + other.count_);
    const double weight = static_cast<double>(count_) * static_cast<double>(other.count_) / total;
    std::vector<double> distance(static_cast<std::size_t>(dim_));
    for (std::int64_t q = 0; q < heads_; ++q) {
      for (std::int64_t c = 0; c < dim_; ++c) {
        const auto i = static_cast<std::size_t>(q * dim_ + c);
        distance[static_cast<std::size_t>(c)] = other.mean_[i] - mean_[i];
        mean_[i] +=
            distance[static_cast<std::size_t>(c)] * static_cast<double>(other.count_) / total;
      }
      merge_second(other, q, distance.data(), weight);
    }
    count_ += other.count_;
  }

  /// Statistics of the queries to come. Throws invalid_argument when nothing was observed.
  QueryStats finish(const FutureSpan& span) const {
    return rotated(mean_rotation(rope(), dim_, span));
  }

  /// Statistics in the frame of the observed queries: for queries that were given after RoPE.
  QueryStats finish_unrotated() const {
    const auto pairs = static_cast<std::size_t>(rope_.rotated(dim_) / 2);
    return rotated({std::vector<double>(pairs, 1.0), std::vector<double>(pairs, 0.0)});
  }

  /// Forgets everything.
  void reset() {
    count_ = 0;
    mean_.assign(mean_.size(), 0.0);
    second_.assign(second_.size(), 0.0);
  }

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

  void merge_second(const RunningQueryStats& other, std::int64_t q, const double* distance,
                    double weight) {
    double* mine = second_.data() + q * moments_;
    const double* theirs = other.second_.data() + q * moments_;
    for (std::int64_t i = 0; i < moments_; ++i) mine[i] += theirs[i];
    if (covariance_ == Covariance::full) {
      for (std::int64_t r = 0; r < dim_; ++r) {
        for (std::int64_t c = 0; c < dim_; ++c) {
          mine[r * dim_ + c] += weight * distance[r] * distance[c];
        }
      }
    } else if (covariance_ == Covariance::diagonal) {
      for (std::int64_t c = 0; c < dim_; ++c) mine[c] += weight * distance[c] * distance[c];
      for (std::int64_t pair = 0; pair < rope_.rotated(dim_) / 2; ++pair) {
        mine[dim_ + pair] += weight * distance[rope_.first_channel(pair)] *
                             distance[rope_.second_channel(pair, dim_)];
      }
    }
  }

  QueryStats rotated(const MeanRotation& rotation) const {
    require(count_ >= 1, "observed queries", count_, ">=", 1);
    QueryStats stats(heads_, dim_, covariance_);
    std::vector<double> work(
        static_cast<std::size_t>(covariance_ == Covariance::full ? dim_ * dim_ : dim_));
    for (std::int64_t q = 0; q < heads_; ++q) {
      work.assign(mean_.begin() + q * dim_, mean_.begin() + (q + 1) * dim_);
      rotate(rotation, work.data(), 1);
      for (std::int64_t c = 0; c < dim_; ++c) {
        stats.mean(q)[c] = static_cast<float>(work[static_cast<std::size_t>(c)]);
      }
      if (covariance_ == Covariance::full) {
        rotate_full(rotation, q, work, stats.second(q));
      } else if (covariance_ == Covariance::diagonal) {
        rotate_diagonal(rotation, q, stats.second(q));
      }
    }
    return stats;
  }

  /// Applies Rbar to the vector at `x` whose channels lie `stride` apart.
  void rotate(const MeanRotation& rotation, double* x, std::int64_t stride) const {
    for (std::size_t pair = 0; pair < rotation.cosine.size(); ++pair) {
      double& a = x[rope_.first_channel(static_cast<std::int64_t>(pair)) * stride];
      double& b = x[rope_.second_channel(static_cast<std::int64_t>(pair), dim_) * stride];
      const double turned = rotation.cosine[pair] * a - rotation.sine[pair] * b;
      b = rotation.sine[pair] * a + rotation.cosine[pair] * b;
      a = turned;
    }
  }

  void rotate_full(const MeanRotation& rotation, std::int64_t q, std::vector<double>& work,
                   float* out) const {
    const double* source = second_.data() + q * moments_;
    work.resize(static_cast<std::size_t>(dim_ * dim_));
    const double weight = 1.0 / static_cast<double>(count_);
    for (std::int64_t r = 0; r < dim_; ++r) {
      for (std::int64_t c = 0; c < dim_; ++c) {
        // The lower triangle is the one that is kept up to date.
        const double value = source[r >= c ? r * dim_ + c : c * dim_ + r];
        work[static_cast<std::size_t>(r * dim_ + c)] = weight * value;
      }
    }
    for (std::int64_t c = 0; c < dim_; ++c) rotate(rotation, work.data() + c, dim_);
    for (std::int64_t r = 0; r < dim_; ++r) rotate(rotation, work.data() + r * dim_, 1);
    for (std::size_t i = 0; i < work.size(); ++i) out[i] = static_cast<float>(work[i]);
  }

  void rotate_diagonal(const MeanRotation& rotation, std::int64_t q, float* out) const {
    const double* source = second_.data() + q * moments_;
    const double weight = 1.0 / static_cast<double>(count_);
    for (std::int64_t c = 0; c < dim_; ++c) out[c] = static_cast<float>(weight * source[c]);
    for (std::size_t pair = 0; pair < rotation.cosine.size(); ++pair) {
      const std::int64_t a = rope_.first_channel(static_cast<std::int64_t>(pair));
      const std::int64_t b = rope_.second_channel(static_cast<std::int64_t>(pair), dim_);
      const double c = rotation.cosine[pair];
      const double s = rotation.sine[pair];
      const double cross = 2.0 * c * s * source[dim_ + static_cast<std::int64_t>(pair)];
      out[a] = static_cast<float>(weight * (c * c * source[a] + s * s * source[b] - cross));
      out[b] = static_cast<float>(weight * (s * s * source[a] + c * c * source[b] + cross));
    }
  }

  std::int64_t heads_;
  std::int64_t dim_;
  std::vector<double> frequencies_;
  Rope rope_;
  Covariance covariance_;
  std::int64_t moments_;
  std::vector<double> mean_;
  std::vector<double> second_;
  std::int64_t count_ = 0;
};

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
QueryStats estimate_query_stats(R& res, const QueriesView<R::space>& pre_rope, const Rope& rope,
                                const QueryStatsOptions& options) {
  require(options.skip_first >= 0, "skip_first", options.skip_first, ">=", 0);
  require(pre_rope.count() > options.skip_first, "queries.count", pre_rope.count(),
          "above skip_first,", options.skip_first);
  RunningQueryStats running(pre_rope.heads(), pre_rope.dim(), rope, options.covariance);
  running.observe(res, pre_rope, options.skip_first);
  return running.finish({options.next_position, options.future});
}

/// Statistics of post-RoPE queries as they are, such as the last window of the context.
template <class R>
QueryStats window_query_stats(R& res, const QueriesView<R::space>& post_rope,
                              Covariance covariance) {
  const Rope none{.rotary_dim = post_rope.dim() - post_rope.dim() % 2};
  RunningQueryStats running(post_rope.heads(), post_rope.dim(), none, covariance);
  running.observe(res, post_rope);
  return running.finish_unrotated();
}

}  // namespace kvevict
