// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <initializer_list>

#include "thread_pool.hpp"

namespace mini_llama {

using Index = Eigen::Index;

// Row-major throughout: a row is a token, or an output feature of a weight matrix.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXf;

// Views with a stride between rows and contiguous rows.
using MatrixView = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;
using ConstMatrixView = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
using MatrixRef = Eigen::Ref<Matrix, 0, Eigen::OuterStride<>>;
using ConstMatrixRef = Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>;

constexpr std::size_t to_size(Index i) { return static_cast<std::size_t>(i); }

// out [m, n] = a [m, k] b^T, b [n, k]; in this thread.
void multiply_transposed(const ConstMatrixRef& a, const ConstMatrixRef& b, MatrixRef out);

// out [m, n] += a [m, k] b [k, n]; in this thread.
void add_product(const ConstMatrixRef& a, const ConstMatrixRef& b, MatrixRef out);

// One linear layer y [tokens, out] = x [tokens, in] w^T, w [out, in].
struct LinearLayer {
  const Matrix& weights;
  Matrix& out;
};

// Applies several layers to the same x [tokens, in], in parallel tiles. The tiling does not depend
// on the number of threads, so neither does the result. Resizes the outputs.
void apply_linear(ThreadPool& pool, const Matrix& x, std::initializer_list<LinearLayer> layers);

}  // namespace mini_llama
