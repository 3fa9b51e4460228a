// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_policies.hpp"
#include "kvevict/cuda.cuh"

namespace kvevict_test {

template <class T>
kvevict::KvView<T, device_space> on_device(Transfers& transfers, const kvevict::KvView<T>& cache) {
  return {on_device(transfers, cache.keys()), on_device(transfers, cache.values()),
          on_device(transfers, OfRows(cache.positions(), cache.layout()))};
}

/// Evidence of a cache with this many heads.
struct OfCache {
  const kvevict::Evidence<>& evidence;
  std::int64_t kv_heads;
};

inline kvevict::Evidence<device_space> on_device(Transfers& transfers, const OfCache& of) {
  const auto& [window, stats, probes, mass, projection, filter, before_rope, norms, direction] =
      of.evidence;
  kvevict::Evidence<device_space> out;
  if (window) out.query_window = on_device(transfers, OfWindow{*window, of.kv_heads});
  if (stats) out.query_stats = on_device(transfers, *stats);
  if (probes) out.probes = on_device(transfers, OfProbes{*probes, of.kv_heads});
  if (mass) out.attention_mass = on_device(transfers, *mass);
  if (projection) out.output_projection = on_device(transfers, *projection);
  if (filter) out.query_filter = {on_device(transfers, filter->directions)};
  if (before_rope) {
    std::visit([&](const auto& rows) { out.keys_before_rope = {on_device(transfers, rows)}; },
               before_rope->rows);
  }
  if (norms) out.key_norms = on_device(transfers, *norms);
  if (direction) out.mean_key_direction = {on_device(transfers, direction->directions)};
  return out;
}

/// A caller's workspace on the device, as large and as misaligned as the one that the mirror was
/// given; none if it was given none.
class DeviceWorkspace {
 public:
  explicit DeviceWorkspace(const MirrorResources::Options& given) {
    if (given.workspace == nullptr) return;
    const auto alignment = static_cast<std::uintptr_t>(kvevict::workspace_alignment);
    const std::size_t shift = reinterpret_cast<std::uintptr_t>(given.workspace) % alignment;
    kvevict::cuda::require_success(
        cudaMalloc(&memory_, std::max<std::size_t>(shift + given.workspace_bytes, 1)),
        "cudaMalloc");
    options_.workspace = static_cast<std::byte*>(memory_) + shift;
    options_.workspace_bytes = given.workspace_bytes;
  }
  DeviceWorkspace(const DeviceWorkspace&) = delete;
  DeviceWorkspace& operator=(const DeviceWorkspace&) = delete;
  ~DeviceWorkspace() { static_cast<void>(cudaFree(memory_)); }

  const kvevict::cuda::ResourcesOptions& options() const { return options_; }

 private:
  void* memory_ = nullptr;
  kvevict::cuda::ResourcesOptions options_;
};

/// One call of the library: as `mirror` does for an op, but the call carves from a workspace of its
/// own, and its report replaces that of the mirror.
template <class Op, class... A>
void mirror_call(MirrorResources& res, bool empty, const Op& op, const A&... arguments) {
  const DeviceWorkspace workspace(res.options());
  if (empty && !res.workspace().counting()) {
    // A call for no rows at all returns before it carves, and before it looks at shapes.
    res.report() =
        run_on_device(res.device(), workspace.options(), INT64_MAX, true, op, arguments...);
    return;
  }
  const std::int64_t announced = bytes_on_device(res.device(), op, arguments...);
  if (!res.workspace().counting()) {
    res.report() =
        run_on_device(res.device(), workspace.options(), announced, false, op, arguments...);
  }
  kvevict::WorkspaceScope scope(res.workspace());
  scope.carve<std::byte>("device", announced);
}

template <class T>
void mirror_score_rows(MirrorResources& res, const kvevict_test::TestPolicy& policy,
                       const kvevict::KvView<const T>& cache, const kvevict::Evidence<>& evidence,
                       kvevict::ScoreView<> scores) {
  mirror_call(
      res, cache.layout().total() == 0,
      [](auto& device, const auto&... each) { kvevict::score_rows(device, each...); }, policy,
      cache, OfCache{evidence, cache.heads()}, scores);
}

template <class T, class Allocator>
void mirror_evict_into(MirrorResources& res, kvevict::Selection& kept,
                       const kvevict_test::TestPolicy& policy,
                       const kvevict::KvView<const T>& cache, const kvevict::Evidence<>& evidence,
                       const kvevict::Budget& budget, const kvevict::Protect& protect,
                       const Allocator& allocator) {
  kvevict::Selection downloaded;
  mirror_call(
      res, cache.layout().total() == 0,
      [&](kvevict::cuda::Resources& device, const auto&... each) {
        kvevict::cuda::Selection selection;
        kvevict::evict_into(device, selection, each...);
        if (!device.workspace().counting()) downloaded = selection.download(device.stream());
      },
      policy, cache, OfCache{evidence, cache.heads()}, budget, protect, allocator);
  if (res.workspace().counting()) return;
  kept = downloaded;
  kept.set_report(res.report());
}

}  // namespace kvevict_test

#define KVEVICT_MIRROR_SCORES(T)                                                               \
  template <>                                                                                  \
  void kvevict::score_rows(kvevict_test::MirrorResources& res,                                 \
                           const kvevict_test::TestPolicy& policy,                             \
                           const kvevict::KvView<const T>& cache,                              \
                           const kvevict::Evidence<>& evidence, kvevict::ScoreView<> scores) { \
    kvevict_test::mirror_score_rows(res, policy, cache, evidence, scores);                     \
  }

#define KVEVICT_MIRROR_POLICIES(T)                                                       \
  KVEVICT_MIRROR_SCORES(T)                                                               \
  template <>                                                                            \
  void kvevict::evict_into(                                                              \
      kvevict_test::MirrorResources& res, kvevict::Selection& kept,                      \
      const kvevict_test::TestPolicy& policy, const kvevict::KvView<const T>& cache,     \
      const kvevict::Evidence<>& evidence, const kvevict::Budget& budget,                \
      const kvevict::Protect& protect, const kvevict::UniformBudget& allocator) {        \
    kvevict_test::mirror_evict_into(res, kept, policy, cache, evidence, budget, protect, \
                                    allocator);                                          \
  }                                                                                      \
  template <>                                                                            \
  void kvevict::evict_into(                                                              \
      kvevict_test::MirrorResources& res, kvevict::Selection& kept,                      \
      const kvevict_test::TestPolicy& policy, const kvevict::KvView<const T>& cache,     \
      const kvevict::Evidence<>& evidence, const kvevict::Budget& budget,                \
      const kvevict::Protect& protect, const kvevict::GlobalBudget& allocator) {         \
    kvevict_test::mirror_evict_into(res, kept, policy, cache, evidence, budget, protect, \
                                    allocator);                                          \
  }
