// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/evidence.hpp"
#include "kvevict/cuda/row_forms.cuh"
#include "kvevict/cuda/row_products.cuh"
#include "kvevict/ops/query_logits.hpp"

namespace kvevict::cuda {

namespace detail {

struct StoreForm {
  ScoreView<MemorySpace::device> out;
  bool add;

  __device__ void operator()(std::int64_t /*head*/, std::int64_t m, std::int64_t row,
                             double form) const {
    float& to = out.head(m)[row];
    to = add ? to + static_cast<float>(form) : static_cast<float>(form);
  }
};

/// The diagonals of square matrices as rows [matrix][dim].
inline MatrixView<const float, MemorySpace::device> diagonals_of(
    const MatrixBatchView<const float, MemorySpace::device>& matrices) {
  MatrixView<const float, MemorySpace::device> diagonals;
  diagonals.data = matrices.data;
  diagonals.shape[0] = matrices.shape[0];
  diagonals.shape[1] = matrices.shape[2];
  diagonals.stride[0] = matrices.stride[0];
  diagonals.stride[1] = matrices.stride[1] + matrices.stride[2];
  return diagonals;
}

}  // namespace detail

/// One read of the rows for up to 8 vectors of a head, at the speed of memory.
template <class T>
void query_logits_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                       MatrixView<const float, MemorySpace::device> vectors, std::int64_t group,
                       float scale, ScoreView<MemorySpace::device> logits) {
  if (res.workspace().counting()) return;
  const RowsView<const std::remove_const_t<T>, MemorySpace::device> read = rows;
  row_products<RowProduct::dot>(
      res, "query_logits", read,
      RowProducts{vectors, static_cast<int>(group), scale, false, logits});
}

/// A diagonal: one read of the rows for up to 8 query heads, at the speed of memory. A full
/// covariance: 2 dim^2 flops for each row and query head, bound by fp32 arithmetic.
template <class T>
void quadratic_form_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                         const QueryStatsView<MemorySpace::device>& stats, Covariance covariance,
                         std::int64_t group, float scale, bool add,
                         ScoreView<MemorySpace::device> out) {
  if (res.workspace().counting()) return;
  const RowsView<const std::remove_const_t<T>, MemorySpace::device> read = rows;
  if (covariance == Covariance::full) {
    enqueue_row_forms<RowForm::quadratic>(res, "quadratic_form", read, stats.covariance, group,
                                          scale, detail::StoreForm{out, add});
    return;
  }
  const MatrixView<const float, MemorySpace::device> diagonals =
      stats.diagonal.empty() ? detail::diagonals_of(stats.covariance) : stats.diagonal;
  row_products<RowProduct::squares>(
      res, "quadratic_form.diagonal", read,
      RowProducts{diagonals, static_cast<int>(group), scale, add, out});
}

}  // namespace kvevict::cuda
