// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/array.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/ops/query_logits.hpp"

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

}  // namespace kvevict
