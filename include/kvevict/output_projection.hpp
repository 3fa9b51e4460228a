// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/array.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/ops/projection_factor.hpp"

namespace kvevict {

/// Factors of output projections, owned, for use as evidence in memory space S: made once for a
/// model, layer after layer.
template <MemorySpace S = MemorySpace::host>
class BasicProjectionFactors {
 public:
  BasicProjectionFactors(std::int64_t heads_per_layer, std::int64_t dim)
      : heads_per_layer_(heads_per_layer), dim_(dim) {
    require(heads_per_layer >= 1, "heads_per_layer", heads_per_layer, ">=", 1);
    require(dim >= 1, "dim", dim, ">=", 1);
  }

  /// Appends the factors of one layer's W_O [hidden][query_heads * dim]. Throws, and waits, as
  /// projection_factors does; the layers before are untouched then.
  template <class R, class T>
  requires(R::space == S) void add_layer(R& res, MatrixView<T, S> w_o) {
    const std::int64_t first = heads_ * dim_ * dim_;
    factors_.resize(res, first + heads_per_layer_ * dim_ * dim_);
    projection_factors(
        res, w_o,
        MatrixBatchView<float, S>::packed(factors_.data() + first, heads_per_layer_, dim_, dim_));
    heads_ += heads_per_layer_;
  }

  /// Factors of all layers added, [layers * query_heads][dim][dim]. Refers to this object until the
  /// next layer is added.
  OutputProjection<S> view() const {
    return {MatrixBatchView<const float, S>::packed(factors_.data(), heads_, dim_, dim_)};
  }

 private:
  std::int64_t heads_per_layer_;
  std::int64_t dim_;
  std::int64_t heads_ = 0;
  Array<float, S> factors_;
};

using ProjectionFactors = BasicProjectionFactors<>;

}  // namespace kvevict
