// SPDX-License-Identifier: Apache-2.0
// The fakes of cuBLAS and cuSOLVER compute what they should, touch what they may and refuse the
// rest.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "self_test_support.hpp"
#include "settings.hpp"

namespace {

using emulator_test::DeviceArray;
using kvevict_emulation::DeviceError;

// Sums of a few small integers are exact, and so are the fakes' results.
template <class T>
std::vector<T> numbers(std::size_t count, int seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<int>(i * 7 + static_cast<std::size_t>(seed)) % 9 - 4);
  }
  return values;
}

template <class T>
bool is_nan(T value) {
  return std::isnan(value);
}

class Handle {
 public:
  Handle() { REQUIRE(cublasCreate(&handle_) == CUBLAS_STATUS_SUCCESS); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { cublasDestroy(handle_); }
  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

// The functions of both types by one name.
template <class T>
struct Functions;
template <>
struct Functions<float> {
  static constexpr auto gemm = cublasSgemm;
  static constexpr auto gemm_strided = cublasSgemmStridedBatched;
  static constexpr auto gemm_batched = cublasSgemmBatched;
  static constexpr auto syrk = cublasSsyrk;
  static constexpr auto trsm_batched = cublasStrsmBatched;
  static constexpr auto potrf_batched = cusolverDnSpotrfBatched;
};
template <>
struct Functions<double> {
  static constexpr auto gemm = cublasDgemm;
  static constexpr auto gemm_strided = cublasDgemmStridedBatched;
  static constexpr auto gemm_batched = cublasDgemmBatched;
  static constexpr auto syrk = cublasDsyrk;
  static constexpr auto trsm_batched = cublasDtrsmBatched;
  static constexpr auto potrf_batched = cusolverDnDpotrfBatched;
};

constexpr int m = 3;
constexpr int n = 4;
constexpr int k = 5;
constexpr int padded = 7;  // leading dimension of everything

template <class T>
T element(const std::vector<T>& matrix, cublasOperation_t op, int i, int j) {
  return matrix[static_cast<std::size_t>(op == CUBLAS_OP_N ? j * padded + i : i * padded + j)];
}

template <class T>
std::vector<T> product(cublasOperation_t op_a, cublasOperation_t op_b, T alpha,
                       const std::vector<T>& a, const std::vector<T>& b, T beta, std::vector<T> c) {
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      T sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += element(a, op_a, i, l) * element(b, op_b, l, j);
      }
      T& target = c[static_cast<std::size_t>(j * padded + i)];
      target = alpha * sum + (beta == T(0) ? T(0) : beta * target);
    }
  }
  return c;
}

}  // namespace

TEMPLATE_TEST_CASE("gemm, with every transposition and padded columns", "", float, double) {
  using T = TestType;
  const Handle handle;
  const std::size_t size = padded * padded;
  const auto a = numbers<T>(size, 1);
  const auto b = numbers<T>(size, 2);
  const auto c = numbers<T>(size, 3);
  const DeviceArray<T> on_a(a);
  const DeviceArray<T> on_b(b);
  const T alpha = 2;
  const T beta = 3;
  for (const auto op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    for (const auto op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      const DeviceArray<T> on_c(c);
      CHECK(Functions<T>::gemm(handle, op_a, op_b, m, n, k, &alpha, on_a.data(), padded,
                               on_b.data(), padded, &beta, on_c.data(),
                               padded) == CUBLAS_STATUS_SUCCESS);
      CHECK(on_c.read() == product<T>(op_a, op_b, alpha, a, b, beta, c));
    }
  }
}

TEMPLATE_TEST_CASE("gemm does not read C when beta is zero, nor A when alpha is", "", float,
                   double) {
  using T = TestType;
  const Handle handle;
  const auto a = numbers<T>(padded * padded, 1);
  const DeviceArray<T> on_a(a);
  const DeviceArray<T> on_c(std::vector<T>(padded * padded, std::numeric_limits<T>::quiet_NaN()));
  const T one = 1;
  const T zero = 0;
  const auto multiply = [&](const T* alpha) {
    return Functions<T>::gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha, on_a.data(), padded,
                              on_a.data(), padded, &zero, on_c.data(), padded);
  };
  CHECK(multiply(&one) == CUBLAS_STATUS_SUCCESS);
  CHECK(on_c.read()[0] == product<T>(CUBLAS_OP_N, CUBLAS_OP_N, 1, a, a, 0, a)[0]);
  CHECK(is_nan(on_c.read()[m]));  // between the columns
  CHECK(Functions<T>::gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &zero, nullptr, padded,
                           nullptr, padded, &zero, on_c.data(), padded) == CUBLAS_STATUS_SUCCESS);
  CHECK(on_c.read()[0] == T(0));
}

TEMPLATE_TEST_CASE("batches by stride and by pointers give what single calls give", "", float,
                   double) {
  using T = TestType;
  const Handle handle;
  constexpr std::size_t size = padded * padded;
  const auto all = numbers<T>(2 * size, 4);
  const std::vector<T> a[] = {{all.begin(), all.begin() + size}, {all.begin() + size, all.end()}};
  const DeviceArray<T> on_all(all);
  const DeviceArray<T> strided(std::vector<T>(2 * size, T(0)));
  const DeviceArray<T> pointed(std::vector<T>(2 * size, T(0)));
  const T one = 1;
  CHECK(Functions<T>::gemm_strided(handle, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &one, on_all.data(),
                                   padded, size, on_all.data(), padded, 0, &one, strided.data(),
                                   padded, size, 2) == CUBLAS_STATUS_SUCCESS);
  const DeviceArray<const T*> of_a(std::vector<const T*>{on_all.data(), on_all.data() + size});
  const DeviceArray<const T*> of_b(std::vector<const T*>{on_all.data(), on_all.data()});
  const DeviceArray<T*> of_c(std::vector<T*>{pointed.data(), pointed.data() + size});
  CHECK(Functions<T>::gemm_batched(handle, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &one, of_a.data(),
                                   padded, of_b.data(), padded, &one, of_c.data(), padded,
                                   2) == CUBLAS_STATUS_SUCCESS);
  std::vector<T> expected;
  for (const auto& of_batch : a) {
    const auto c =
        product<T>(CUBLAS_OP_N, CUBLAS_OP_T, 1, of_batch, a[0], 0, std::vector<T>(size, T(0)));
    expected.insert(expected.end(), c.begin(), c.end());
  }
  CHECK(strided.read() == expected);
  CHECK(pointed.read() == expected);
  CHECK_THROWS_AS(Functions<T>::gemm_strided(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one,
                                             on_all.data(), padded, 0, on_all.data(), padded, 0,
                                             &one, strided.data(), padded, 5, 2),
                  DeviceError);
  cudaGetLastError();
}

TEMPLATE_TEST_CASE("syrk writes one triangle", "", float, double) {
  using T = TestType;
  const Handle handle;
  const auto a = numbers<T>(padded * padded, 5);
  const DeviceArray<T> on_a(a);
  const T one = 1;
  const T zero = 0;
  for (const auto triangle : {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER}) {
    const DeviceArray<T> on_c(std::vector<T>(padded * padded, T(100)));
    CHECK(Functions<T>::syrk(handle, triangle, CUBLAS_OP_N, n, k, &one, on_a.data(), padded, &zero,
                             on_c.data(), padded) == CUBLAS_STATUS_SUCCESS);
    const auto c = on_c.read();
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) {
        T sum = 0;
        for (int l = 0; l < k; ++l) {
          sum += element(a, CUBLAS_OP_N, i, l) * element(a, CUBLAS_OP_N, j, l);
        }
        const bool inside = triangle == CUBLAS_FILL_MODE_LOWER ? i >= j : i <= j;
        CHECK(element(c, CUBLAS_OP_N, i, j) == (inside ? sum : T(100)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("factorizing and solving undo a product", "", float, double) {
  using T = TestType;
  const Handle handle;
  cusolverDnHandle_t solver = nullptr;
  REQUIRE(cusolverDnCreate(&solver) == CUSOLVER_STATUS_SUCCESS);
  const std::size_t size = padded * padded;
  const auto triangle = GENERATE(CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER);
  const bool lower = triangle == CUBLAS_FILL_MODE_LOWER;
  // G = L L^T, with the diagonal of L positive; all exact.
  std::vector<T> l(size, T(0));
  std::vector<T> gram(size, T(0));
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
      l[static_cast<std::size_t>(j * padded + i)] = i == j ? T(2) : T((i + j) % 3 - 1);
    }
  }
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      for (int c = 0; c < n; ++c) {
        gram[static_cast<std::size_t>(j * padded + i)] +=
            element(l, CUBLAS_OP_N, i, c) * element(l, CUBLAS_OP_N, j, c);
      }
    }
  }
  const DeviceArray<T> factor(gram);
  std::vector<T> indefinite = gram;
  indefinite[padded + 1] = T(-1);
  const DeviceArray<T> refused(indefinite);
  const DeviceArray<T*> matrices(std::vector<T*>{factor.data(), refused.data()});
  const DeviceArray<int> info(2);
  REQUIRE(Functions<T>::potrf_batched(solver, triangle, n, matrices.data(), padded, info.data(),
                                      2) == CUSOLVER_STATUS_SUCCESS);
  CHECK(info.read() == std::vector<int>{0, 2});
  const auto got = factor.read();
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      const T value = element(got, lower ? CUBLAS_OP_N : CUBLAS_OP_T, i, j);
      const bool right = i >= j ? value == element(l, CUBLAS_OP_N, i, j) : is_nan(value);
      CHECK(right);
    }
  }

  // Solving with the factor, from either side: B = L X, or B = X L.
  const auto x = numbers<T>(size, 6);
  const T one = 1;
  for (const auto side : {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT}) {
    for (const auto op : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      const bool op_is_l = (op == CUBLAS_OP_N) == lower;  // otherwise op(A) is the transpose of L
      const auto a = [&](int i, int j) {
        return element(l, op_is_l ? CUBLAS_OP_N : CUBLAS_OP_T, i, j);
      };
      std::vector<T> b = x;
      for (int j = 0; j < n; ++j) {
        for (int i = 0; i < n; ++i) {
          T sum = 0;
          for (int c = 0; c < n; ++c) {
            sum += side == CUBLAS_SIDE_LEFT ? a(i, c) * element(x, CUBLAS_OP_N, c, j)
                                            : element(x, CUBLAS_OP_N, i, c) * a(c, j);
          }
          b[static_cast<std::size_t>(j * padded + i)] = sum;
        }
      }
      const DeviceArray<T> solution(b);
      const DeviceArray<const T*> factors(std::vector<const T*>{factor.data()});
      const DeviceArray<T*> solutions(std::vector<T*>{solution.data()});
      CHECK(Functions<T>::trsm_batched(handle, side, triangle, op, CUBLAS_DIAG_NON_UNIT, n, n, &one,
                                       factors.data(), padded, solutions.data(), padded,
                                       1) == CUBLAS_STATUS_SUCCESS);
      CHECK(solution.read() == x);
    }
  }
  CHECK(cusolverDnDestroy(solver) == CUSOLVER_STATUS_SUCCESS);
}

TEST_CASE("scalars are read at the call on the host, and when the work runs on the device") {
  const Handle handle;
  kvevict_emulation::settings().lazy_streams = true;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  const DeviceArray<float> a(std::vector<float>{3.0f});
  const DeviceArray<float> c(std::vector<float>{0.0f});
  const DeviceArray<float> scales(std::vector<float>{1.0f, 0.0f});
  const auto square = [&](const float* alpha, const float* beta) {
    return cublasSsyrk(handle, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, 1, 1, alpha, a.data(), 1, beta,
                       c.data(), 1);
  };
  float one = 1.0f;
  const float zero = 0.0f;
  CHECK(square(&one, &zero) == CUBLAS_STATUS_SUCCESS);
  one = 7.0f;
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(c.read()[0] == 9.0f);

  REQUIRE(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
  CHECK(square(scales.data(), scales.data() + 1) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaMemcpy(scales.data(), &one, sizeof one, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(c.read()[0] == 63.0f);
  CHECK(square(&one, &zero) == CUBLAS_STATUS_SUCCESS);
  CHECK_THROWS_AS(cudaStreamSynchronize(stream), DeviceError);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  kvevict_emulation::settings().lazy_streams = false;
  cudaGetLastError();
}

TEST_CASE("wrong arguments get the status that the libraries give") {
  const Handle handle;
  const DeviceArray<float> a(std::vector<float>(64, 1.0f));
  const float one = 1.0f;
  const auto gemm = [&](cublasHandle_t with, int rows, int leading, const float* alpha) {
    return cublasSgemm(with, CUBLAS_OP_N, CUBLAS_OP_N, rows, 2, 2, alpha, a.data(), leading,
                       a.data(), 2, &one, a.data(), 8);
  };
  CHECK(gemm(nullptr, 4, 4, &one) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(gemm(handle, -1, 4, &one) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(gemm(handle, 4, 3, &one) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(gemm(handle, 4, 4, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(gemm(handle, 0, 1, &one) == CUBLAS_STATUS_SUCCESS);
  CHECK_THROWS_AS(gemm(handle, 4, 61, &one), DeviceError);
  CHECK(cublasSetWorkspace(handle, a.data() + 1, 16) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetWorkspace(handle, a.data(), 64 * sizeof(float)) == CUBLAS_STATUS_SUCCESS);
  CHECK_THROWS_AS(cublasSetWorkspace(handle, a.data(), 257), DeviceError);
  CHECK(std::string(cublasGetStatusString(CUBLAS_STATUS_INVALID_VALUE)) ==
        "CUBLAS_STATUS_INVALID_VALUE");

  cusolverDnHandle_t solver = nullptr;
  REQUIRE(cusolverDnCreate(&solver) == CUSOLVER_STATUS_SUCCESS);
  const DeviceArray<float*> array(std::vector<float*>{a.data()});
  const DeviceArray<int> info(1);
  CHECK(cusolverDnSpotrfBatched(solver, CUBLAS_FILL_MODE_LOWER, 8, array.data(), 7, info.data(),
                                1) == CUSOLVER_STATUS_INVALID_VALUE);
  float* on_host[] = {a.data()};
  CHECK_THROWS_AS(
      cusolverDnSpotrfBatched(solver, CUBLAS_FILL_MODE_LOWER, 8, on_host, 8, info.data(), 1),
      DeviceError);
  CHECK(cusolverDnDestroy(solver) == CUSOLVER_STATUS_SUCCESS);
  cudaGetLastError();
}
