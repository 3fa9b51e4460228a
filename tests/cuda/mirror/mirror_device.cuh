// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "cuda/mirror/conversions.cuh"
#include "cuda/mirror/mirror_resources.hpp"
#include "cuda/mirror/query_conversions.cuh"
#include "cuda/mirror/transfers.cuh"
#include "kvevict/cuda/resources.cuh"

// For instantiations of ops over rows: every element type, writable and read-only.
#define KVEVICT_MIRROR_ELEMENTS(Instantiate)                             \
  Instantiate(float) Instantiate(const float) Instantiate(kvevict::half) \
      Instantiate(const kvevict::half) Instantiate(kvevict::bfloat16)    \
          Instantiate(const kvevict::bfloat16)

/// The same for quantised types, of ops that tests call for rows of each.
#define KVEVICT_MIRROR_QUANTISED(Instantiate)                                             \
  Instantiate(kvevict::q8_0) Instantiate(kvevict::q4_0) Instantiate(kvevict::float8_e4m3) \
      Instantiate(kvevict::float8_e5m2)

namespace kvevict_test {

/// What a mirror has on the device: a stream, and resources that others are made like.
class MirrorDevice {
 public:
  MirrorDevice();
  MirrorDevice(const MirrorDevice&) = delete;
  MirrorDevice& operator=(const MirrorDevice&) = delete;
  ~MirrorDevice();

  cudaStream_t stream() const { return stream_; }
  const kvevict::cuda::Resources& like() const { return *like_; }

 private:
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<kvevict::cuda::Resources> like_;
};

template <class X>
auto converted(Transfers& transfers, const X& x) {
  if constexpr (requires { on_device(transfers, x); }) {
    return on_device(transfers, x);
  } else {
    return x;
  }
}

/// Calls op(resources, arguments on the device...).
template <class Op, class... A>
void call_converted(kvevict::cuda::Resources& resources, Transfers& transfers, const Op& op,
                    const A&... arguments) {
  const std::tuple<decltype(converted(transfers, arguments))...> all{
      converted(transfers, arguments)...};
  std::apply([&](const auto&... each) { op(resources, each...); }, all);
}

/// Bytes of workspace that the op carves on the device. Nothing is read.
template <class Op, class... A>
std::int64_t bytes_on_device(MirrorDevice& device, const Op& op, const A&... arguments) {
  Transfers transfers(device.stream());
  kvevict::cuda::Resources counting = kvevict::cuda::Resources::counting(device.like());
  call_converted(counting, transfers, op, arguments...);
  return counting.workspace().peak_bytes();
}

/// Runs the op on the device with resources made from the options, whose workspace takes every
/// carve of a first call as an allocation of its own, and returns what it reports. Throws
/// std::logic_error unless it carves the bytes that were announced, or fewer if `at_most`.
template <class Op, class... A>
kvevict::Report run_on_device(MirrorDevice& device, kvevict::cuda::ResourcesOptions options,
                              std::int64_t announced, bool at_most, const Op& op,
                              const A&... arguments) {
  options.stream = device.stream();
  Transfers transfers(device.stream());
  static_cast<void>(
      std::tuple<decltype(converted(transfers, arguments))...>{converted(transfers, arguments)...});
  transfers.upload();
  kvevict::cuda::Resources resources(options);
  call_converted(resources, transfers, op, arguments...);
  transfers.deliver();
  const kvevict::Report report = resources.report();
  transfers.download();
  const std::int64_t carved = resources.workspace().peak_bytes();
  if (at_most ? carved > announced : carved != announced) {
    throw std::logic_error("a device op carves another number of bytes than it announces");
  }
  return report;
}

/// One op: what MirrorResources promises.
template <class Op, class... A>
void mirror(MirrorResources& res, const Op& op, const A&... arguments) {
  const std::int64_t bytes = bytes_on_device(res.device(), op, arguments...);
  kvevict::WorkspaceScope scope(res.workspace());
  scope.carve<std::byte>("device", bytes);
  if (res.workspace().counting()) return;
  const kvevict::Report report = run_on_device(res.device(), {}, bytes, false, op, arguments...);
  res.report().nan_scores += report.nan_scores;
  res.report().zero_capacity_heads += report.zero_capacity_heads;
  res.report().failed_factorizations += report.failed_factorizations;
}

}  // namespace kvevict_test

/// Mirrors one op: finds the device's op of that name by its resources.
#define KVEVICT_MIRROR(op, ...) \
  mirror(                       \
      res, [](auto& device, const auto&... each) { op##_impl(device, each...); }, __VA_ARGS__)
