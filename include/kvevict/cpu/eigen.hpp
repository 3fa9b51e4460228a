// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only place that includes Eigen.
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/view.hpp"

namespace kvevict::cpu {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Row-major matrix over memory with a row stride.
template <class T>
using MatrixMap = Eigen::Map<
    std::conditional_t<std::is_const_v<T>, const RowMajor<std::remove_const_t<T>>, RowMajor<T>>,
    Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
using VectorMap =
    Eigen::Map<std::conditional_t<std::is_const_v<T>,
                                  const Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>,
                                  Eigen::Matrix<T, Eigen::Dynamic, 1>>>;

template <class T>
using ArrayMap =
    Eigen::Map<std::conditional_t<std::is_const_v<T>,
                                  const Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>,
                                  Eigen::Array<T, Eigen::Dynamic, 1>>>;

template <class T>
MatrixMap<T> map_matrix(T* data, std::int64_t rows, std::int64_t cols, std::int64_t row_stride) {
  return MatrixMap<T>(data, rows, cols, Eigen::OuterStride<>(row_stride));
}

template <class T>
MatrixMap<T> map_matrix(T* data, std::int64_t rows, std::int64_t cols) {
  return map_matrix(data, rows, cols, cols);
}

}  // namespace kvevict::cpu
