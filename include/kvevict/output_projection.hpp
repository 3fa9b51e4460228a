// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvevict/core/evidence.hpp"
#include "kvevict/ops/projection_factor.hpp"

namespace kvevict {

/// Factors of output projections, owned, for use as evidence: made once for a model, layer after
/// layer.
class ProjectionFactors {
 public:
  ProjectionFactors(std::int64_t heads_per_layer, std::int64_t dim)
      : heads_per_layer_(heads_per_layer), dim_(dim) {
    require(heads_per_layer >= 1, "heads_per_layer", heads_per_layer, ">=", 1);
    require(dim >= 1, "dim", dim, ">=", 1);
  }

  /// Appends the factors of one layer's W_O [hidden][query_heads * dim]. Throws as
  /// projection_factors does.
  template <class R, class T>
  void add_layer(R& res, MatrixView<T, R::space> w_o) {
    std::vector<float> layer(static_cast<std::size_t>(heads_per_layer_ * dim_ * dim_));
    projection_factors(
        res, w_o,
        MatrixBatchView<float, R::space>::packed(layer.data(), heads_per_layer_, dim_, dim_));
    factors_.insert(factors_.end(), layer.begin(), layer.end());
  }

  /// Factors of all layers added, [layers * query_heads][dim][dim].
  OutputProjection<> view() const {
    const std::int64_t heads = static_cast<std::int64_t>(factors_.size()) / (dim_ * dim_);
    return {MatrixBatchView<const float>::packed(factors_.data(), heads, dim_, dim_)};
  }

 private:
  std::int64_t heads_per_layer_;
  std::int64_t dim_;
  std::vector<float> factors_;
};

}  // namespace kvevict
