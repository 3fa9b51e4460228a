// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of mirror_graph.hpp, for a source that instantiates the policies anyway.
#include <optional>

#include "cuda/mirror/mirror_graph.hpp"
#include "cuda/mirror/mirror_policies.cuh"

/// Of both emulators; devices have none.
extern "C" unsigned long long kvevict_emulated_allocations() __attribute__((weak));

namespace kvevict_test {

/// Captured work of a stream.
class Graph {
 public:
  template <class Calls>
  Graph(cudaStream_t stream, const Calls& calls) {
    using kvevict::cuda::require_success;
    require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                    "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      calls();
    } catch (...) {
      if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) {
        static_cast<void>(cudaGraphDestroy(graph));
      }
      throw;
    }
    require_success(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    require_success(status, "cudaGraphInstantiate");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { static_cast<void>(cudaGraphExecDestroy(executable_)); }

  void launch(cudaStream_t stream) const {
    kvevict::cuda::require_success(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

/// A cache with its evidence, copied to the device.
class DeviceCase {
 public:
  DeviceCase(cudaStream_t stream, const kvevict::KvView<float>& cache,
             const kvevict::Evidence<>& evidence)
      : transfers_(stream) {
    translate(cache, evidence);
    transfers_.upload();
    translate(cache, evidence);
  }

  kvevict::KvView<const float, device_space> cache() const { return *cache_; }
  const kvevict::KvView<float, device_space>& writable_cache() const { return *cache_; }
  const kvevict::Evidence<device_space>& evidence() const { return evidence_; }
  void download() { transfers_.download(); }

 private:
  void translate(const kvevict::KvView<float>& cache, const kvevict::Evidence<>& evidence) {
    cache_.emplace(on_device(transfers_, cache));
    evidence_ = on_device(transfers_, OfCache{evidence, cache.heads()});
  }

  Transfers transfers_;
  std::optional<kvevict::KvView<float, device_space>> cache_;
  kvevict::Evidence<device_space> evidence_;
};

inline std::int64_t allocations_so_far() {
  if (kvevict_emulated_allocations == nullptr) return 0;
  return static_cast<std::int64_t>(kvevict_emulated_allocations());
}

void evict_by_graph(MirrorResources& res, kvevict::Selection& kept, const TestPolicy& policy,
                    const kvevict::KvView<float>& cache, const kvevict::Evidence<>& evidence,
                    const kvevict::Budget& budget, const kvevict::Protect& protect) {
  const cudaStream_t stream = res.device().stream();
  DeviceCase first(stream, cache, evidence);
  DeviceCase second(stream, cache, evidence);
  kvevict::cuda::Resources device(stream);
  kvevict::cuda::Selection selection;
  const auto calls = [&](const DeviceCase& given) {
    kvevict::evict_into(device, selection, policy, given.cache(), given.evidence(), budget,
                        protect);
    kvevict::compact(device, selection, given.writable_cache());
  };
  calls(first);
  const Graph graph(stream, [&] { calls(second); });
  graph.launch(stream);
  kept = selection.download(stream);
  second.download();
}

std::int64_t warm_allocations(MirrorResources& res, const TestPolicy& policy,
                              const kvevict::KvView<float>& cache,
                              const kvevict::Evidence<>& evidence, const kvevict::Budget& budget,
                              const kvevict::GlobalBudget& allocator) {
  const DeviceCase given(res.device().stream(), cache, evidence);
  kvevict::cuda::Resources device(res.device().stream());
  kvevict::cuda::Selection selection;
  std::int64_t before = 0;
  for (int call = 0; call < 2; ++call) {
    before = allocations_so_far();
    kvevict::evict_into(device, selection, policy, given.cache(), given.evidence(), budget, {},
                        allocator);
  }
  device.wait();
  return allocations_so_far() - before;
}

}  // namespace kvevict_test
