// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/row_forms.cuh"
#include "kvevict/ops/projected_norms.hpp"

namespace kvevict::cuda {

namespace detail {

struct StoreProjectedNorm {
  ScoreView<MemorySpace::device> out;

  __device__ void operator()(std::int64_t /*head*/, std::int64_t query_head, std::int64_t row,
                             double norm) const {
    out.head(query_head)[row] = static_cast<float>(norm);
  }
};

}  // namespace detail

/// Bound by fp32 arithmetic.
template <class T>
void projected_norms_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                          const MatrixBatchView<const float, MemorySpace::device>& transforms,
                          std::int64_t group, ProjectedNorm norm,
                          ScoreView<MemorySpace::device> out) {
  if (res.workspace().counting()) return;
  const RowsView<const std::remove_const_t<T>, MemorySpace::device> read = rows;
  const detail::StoreProjectedNorm store{out};
  if (norm == ProjectedNorm::euclidean) {
    enqueue_row_forms<RowForm::norm>(res, "projected_norms", read, transforms, group, 1.0f, store);
  } else {
    enqueue_row_forms<RowForm::absolute_sum>(res, "projected_norms", read, transforms, group, 1.0f,
                                             store);
  }
}

}  // namespace kvevict::cuda
