// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>

#include "kvevict/cuda/double_gram.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/ops/projection_factor.hpp"

namespace kvevict::cuda {

namespace detail {

/// Row i of query head q: the q-th block of columns of W_O.
template <class T>
struct ProjectionReader {
  MatrixView<T, MemorySpace::device> w_o;
  std::int64_t dim;

  __device__ float operator()(std::int64_t head, std::int64_t row, std::int64_t channel) const {
    return static_cast<float>(w_o(row, head * dim + channel));
  }
};

/// Row i of KV head h: the factors of its group below each other.
struct StackReader {
  MatrixBatchView<const float, MemorySpace::device> factors;
  std::int64_t group;

  __device__ float operator()(std::int64_t head, std::int64_t row, std::int64_t channel) const {
    const std::int64_t dim = factors.shape[1];
    return factors(head * group + row / dim, row % dim, channel);
  }
};

inline constexpr int factor_threads = 128;

/// Adds up the parts, transposed (the lower triangle for a library that counts by columns), makes
/// the sum definite, and says where it is: a block for each head.
static __global__ void __launch_bounds__(factor_threads)
    definite_grams(const double* products, std::int64_t parts, std::int64_t dim, double* grams,
                   double** table) {
  const std::int64_t h = blockIdx.x;
  double* gram = grams + h * dim * dim;
  double trace = 0.0;
  for (std::int64_t e = threadIdx.x; e < dim * dim; e += factor_threads) {
    const std::int64_t r = e / dim;
    const std::int64_t c = e % dim;
    if (c > r) continue;
    double sum = 0.0;
    for (std::int64_t p = 0; p < parts; ++p) sum += products[(h * parts + p) * dim * dim + e];
    gram[c * dim + r] = sum;
    if (r == c) trace += sum;
  }
  trace = reduce_block<factor_threads>(trace, Sum{});
  const double ridge = 1e-12 * (trace < 1e-300 ? 1e-300 : trace) / static_cast<double>(dim);
  for (std::int64_t c = threadIdx.x; c < dim; c += factor_threads) gram[c * dim + c] += ridge;
  if (threadIdx.x == 0) table[h] = gram;
}

/// out[h] = R in fp32, with zeros below; all NaN where there is no finite one, which is counted.
static __global__ void __launch_bounds__(factor_threads)
    write_roots(const double* roots, const int* status,
                MatrixBatchView<float, MemorySpace::device> out, int* failed, Counters* counters) {
  const std::int64_t h = blockIdx.x;
  const std::int64_t dim = out.shape[1];
  const double* root = roots + h * dim * dim;
  int bad = status[h] != 0;
  for (std::int64_t e = threadIdx.x; e < dim * dim; e += factor_threads) {
    if (e % dim >= e / dim && !isfinite(static_cast<float>(root[e]))) bad = 1;
  }
  bad = __syncthreads_or(bad);
  for (std::int64_t e = threadIdx.x; e < dim * dim; e += factor_threads) {
    const float value = e % dim >= e / dim ? static_cast<float>(root[e]) : 0.0f;
    out(h, e / dim, e % dim) = bad != 0 ? nanf("") : value;
  }
  if (threadIdx.x == 0) {
    if (failed != nullptr) failed[h] = bad;
    if (counters != nullptr && bad != 0) atomicAdd(&counters->failed_factorizations, 1ull);
  }
}

/// Upper triangular R with R^T R = the Gram matrix of each head's rows, made definite.
template <class Read>
void write_factors(Resources& res, const Read& read, std::int64_t rows,
                   MatrixBatchView<float, MemorySpace::device> out, int* failed,
                   Counters* counters) {
  const std::int64_t heads = out.shape[0];
  const std::int64_t dim = out.shape[1];
  require(heads <= INT_MAX, "heads", heads, "at most", INT_MAX, ErrorKind::unsupported);
  const RowParts parts = rows > 0 ? RowParts(rows, 1024, 4, gram_depth) : RowParts(0);
  WorkspaceScope scope(res.workspace());
  auto* products =
      scope.carve<double>("projection_factors.products", heads * parts.count * dim * dim);
  auto* grams = scope.carve<double>("projection_factors.gram", heads * dim * dim);
  auto** table = scope.carve<double*>("projection_factors.table", heads);
  auto* status = scope.carve<int>("projection_factors.status", heads);
  if (res.workspace().counting() || heads == 0) return;
  gram_of_parts(res, read, heads, parts, dim, products);
  launch(res, "definite_grams", definite_grams, heads, factor_threads, 0, products, parts.count,
         dim, grams, table);
  const int n = static_cast<int>(dim);
  require_success(cusolverDnDpotrfBatched(res.solver(), CUBLAS_FILL_MODE_LOWER, n, table, n, status,
                                          static_cast<int>(heads)),
                  "cusolverDnDpotrfBatched");
  launch(res, "write_roots", write_roots, heads, factor_threads, 0, grams, status, out, failed,
         counters);
}

}  // namespace detail

/// Waits for the stream: whether all factors are finite is known only then.
template <class T>
void projection_factors_impl(Resources& res, MatrixView<T, MemorySpace::device> w_o,
                             MatrixBatchView<float, MemorySpace::device> factors) {
  const std::int64_t heads = factors.shape[0];
  WorkspaceScope scope(res.workspace());
  WorkspaceScope host(res.host_workspace());
  auto* failed = scope.carve<int>("projection_factors.failed", heads);
  auto* failed_here = host.carve<int>("projection_factors.failed", heads);
  detail::write_factors(res, detail::ProjectionReader<T>{w_o, factors.shape[1]}, w_o.shape[0],
                        factors, failed, nullptr);
  if (res.workspace().counting()) return;
  require_success(
      cudaMemcpyAsync(failed_here, failed, static_cast<std::size_t>(heads) * sizeof(int),
                      cudaMemcpyDeviceToHost, res.stream()),
      "cudaMemcpyAsync");
  res.wait();
  for (std::int64_t q = 0; q < heads; ++q) {
    require(failed_here[q] == 0, "w_o of query head", q, "finite", ErrorKind::numerical);
  }
}

/// Does not wait, and so cannot throw for factors that are not finite: a head without a factor gets
/// NaN, and counts among the failed factorizations of the report.
inline void stack_factors_impl(Resources& res,
                               MatrixBatchView<const float, MemorySpace::device> factors,
                               std::int64_t group,
                               MatrixBatchView<float, MemorySpace::device> out) {
  detail::write_factors(res, detail::StackReader{factors, group}, group * out.shape[1], out,
                        nullptr, res.counters());
}

}  // namespace kvevict::cuda
