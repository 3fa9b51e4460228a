// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime.hpp"

namespace kvevict_emulation {

/// A grid to run: `body(context)` is the kernel with its arguments.
struct Grid {
  const char* name;
  dim3 blocks;
  dim3 threads;
  std::size_t dynamic_shared;
  std::size_t shared_limit;
};
void run_grid(const Grid& grid, void (*body)(const void*), const void* context);

template <class... P, class... A>
cudaError_t launch_kernel(const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
                          std::size_t shared_bytes, cudaStream_t stream, A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "the kernel has another number of parameters");
  static_assert((std::is_trivially_copyable_v<std::remove_cvref_t<P>> && ...),
                "kernel parameters are copied as bytes");
  static_assert((!std::is_reference_v<P> && ...), "a reference is an address on the host");
  static_assert((sizeof(P) + ... + 0) <= 4096, "kernel parameters have 4 KiB");
  const void* address = reinterpret_cast<const void*>(kernel);
  if (const cudaError_t error = check_launch(address, grid, block, shared_bytes);
      error != cudaSuccess) {
    return error;
  }
  struct Call {
    void (*kernel)(P...);
    std::tuple<std::remove_cv_t<P>...> arguments;

    // Views inside of structs are not looked into: they may hold addresses that only the host
    // follows.
    void check_pointers(const char* of) const {
      int position = 0;
      const auto check = [&](const auto& argument) {
        if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(argument)>>) {
          check_pointer_argument(argument, of, position);
        }
        ++position;
      };
      std::apply([&](const auto&... each) { (check(each), ...); }, arguments);
    }
  };
  const Call call{kernel, {static_cast<P>(arguments)...}};
  call.check_pointers(name);
  const Grid shape{name, grid, block, shared_bytes, shared_limit(address)};
  return enqueue(stream, [call, shape] {
    call.check_pointers(shape.name);  // what was device memory at the launch may be freed by now
    run_grid(
        shape,
        [](const void* context) {
          const Call& self = *static_cast<const Call*>(context);
          std::apply(self.kernel, self.arguments);
        },
        &call);
  });
}

}  // namespace kvevict_emulation

// nvcc declares the overload for kernels.
template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
  return ::cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
