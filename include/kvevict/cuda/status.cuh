// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cusolverDn.h>

#include <string>
#include <string_view>

#include "kvevict/core/error.hpp"
#include "kvevict/cuda/compat.cuh"

namespace kvevict::cuda {

/// Throws a backend error that names the call unless it succeeded. An error that an earlier
/// asynchronous call left behind is reported by the next call that returns a status, with that
/// call's name.
inline void require_success(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  throw Error(ErrorKind::backend, call,
              kvevict::detail::joined(cudaGetErrorName(status),
                                      kvevict::detail::joined(", ", cudaGetErrorString(status))),
              "cudaSuccess");
}

inline void require_success(cusolverStatus_t status, std::string_view call) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  throw Error(ErrorKind::backend, call,
              kvevict::detail::joined("cusolverStatus ", kvevict::detail::text_of(int{status})),
              "CUSOLVER_STATUS_SUCCESS");
}

}  // namespace kvevict::cuda
