// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an engine does with a device: calls that are warm, and calls that are captured in a graph.
#include "cuda/mirror/mirror_resources.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/core/budget.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/protect.hpp"
#include "policies/test_policies.hpp"

namespace kvevict_test {

/// Captures evicting the cache and compacting it in place, after the same calls on another copy of
/// it, and replays that. `kept` and `cache` become what the replay leaves on the device. Throws
/// when a call waits or allocates, which no capture of the emulators allows.
void evict_by_graph(MirrorResources& res, kvevict::Selection& kept, const TestPolicy& policy,
                    const kvevict::KvView<float>& cache, const kvevict::Evidence<>& evidence,
                    const kvevict::Budget& budget, const kvevict::Protect& protect);

/// How often device memory is allocated while the cache is evicted a second time, for a budget that
/// heads share. Zero on a device that does not count.
std::int64_t warm_allocations(MirrorResources& res, const TestPolicy& policy,
                              const kvevict::KvView<float>& cache,
                              const kvevict::Evidence<>& evidence, const kvevict::Budget& budget,
                              const kvevict::GlobalBudget& allocator);

}  // namespace kvevict_test
