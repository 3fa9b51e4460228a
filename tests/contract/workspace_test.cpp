// SPDX-License-Identifier: Apache-2.0
// Scratch memory: as much as was announced, in the caller's buffer if there is one, none of it from
// the heap once warm.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "kvevict/workspace_bytes.hpp"
#include "reference/random_inputs.hpp"
#include "support/allocation_counter.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::GlobalBudget;
using kvevict::Selection;
using kvevict::UniformBudget;

namespace {

const Budget budget = Budget::evict_ratio(0.6);
const kvevict::Protect protect{.sinks = 2, .recent = 3};

// `bytes` of memory that begin at a multiple of the workspace's alignment.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new(bytes, alignment))) {}
  std::byte* data() { return memory_.get(); }

 private:
  static constexpr auto alignment =
      std::align_val_t{static_cast<std::size_t>(kvevict::workspace_alignment)};
  struct Release {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };
  std::unique_ptr<std::byte, Release> memory_;
};

template <class Allocator>
void check_announced(ContractCase& given, int threads, const Allocator& allocator) {
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name << ", " << threads << " threads");
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    TestResources owning({.threads = threads});
    const std::int64_t bytes = kvevict::workspace_bytes(owning, policy, given.view(), evidence,
                                                        budget, protect, allocator);
    CHECK(owning.workspace().peak_bytes() == 0);  // only counted
    const Selection kept =
        kvevict::evict(owning, policy, given.view(), evidence, budget, protect, allocator);
    CHECK(owning.workspace().peak_bytes() == bytes);

    const auto size = static_cast<std::size_t>(bytes);
    AlignedBuffer buffer(size);
    TestResources borrowing(
        {.threads = threads, .workspace = buffer.data(), .workspace_bytes = size});
    CHECK(kvevict::evict(borrowing, policy, given.view(), evidence, budget, protect, allocator) ==
          kept);

    TestResources one_less(
        {.threads = threads, .workspace = buffer.data(), .workspace_bytes = size - 1});
    try {
      kvevict::evict(one_less, policy, given.view(), evidence, budget, protect, allocator);
      FAIL("one byte less suffices");
    } catch (const kvevict::Error& error) {
      CHECK(error.kind() == kvevict::ErrorKind::backend);
      CHECK(error.argument().rfind("workspace.", 0) == 0);
      CHECK(error.argument().size() > std::string("workspace.").size());
      CHECK(std::string(error.what()).find(std::to_string(bytes)) != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("contract: workspace_bytes is what a call uses", "[contract][workspace]") {
  ContractCase given(contract_inputs());
  check_announced(given, 1, UniformBudget{});
  if (on_cpu) check_announced(given, 3, UniformBudget{});
  check_announced(given, 1, GlobalBudget{.allow_incomparable = true});
}

TEST_CASE("contract: a buffer at any address", "[contract][workspace]") {
  ContractCase given(contract_inputs());
  for (const auto& [name, policy] : default_policies()) {
    INFO(name);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    TestResources owning({.threads = 1});
    const Selection kept = kvevict::evict(owning, policy, given.view(), evidence, budget, protect);
    const auto size = static_cast<std::size_t>(owning.workspace().peak_bytes()) +
                      static_cast<std::size_t>(kvevict::workspace_alignment);
    std::vector<std::byte> memory(size + 64, std::byte{0x5a});
    TestResources borrowing(
        {.threads = 1, .workspace = memory.data() + 1, .workspace_bytes = size});
    CHECK(kvevict::evict(borrowing, policy, given.view(), evidence, budget, protect) == kept);
    CHECK(memory[0] == std::byte{0x5a});
    for (std::size_t i = size + 1; i < memory.size(); ++i) CHECK(memory[i] == std::byte{0x5a});
  }
}

TEST_CASE("contract: a call that ran out of workspace can be repeated", "[contract][workspace]") {
  ContractCase given(contract_inputs());
  for (const auto& [name, policy] : default_policies()) {
    INFO(name);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    TestResources counting({.threads = 1});
    const auto size = static_cast<std::size_t>(
        kvevict::workspace_bytes(counting, policy, given.view(), evidence, budget, protect));
    AlignedBuffer buffer(size);
    TestResources res({.threads = 1, .workspace = buffer.data(), .workspace_bytes = size});
    // More of everything, so that no backend's policy gets by with what the smaller case needs.
    ContractCase larger(reference::random_inputs({.group = 2,
                                                  .rows = {400, 170, 30, 400, 90},
                                                  .dim = 16,
                                                  .value_dim = 12,
                                                  .queries = 20,
                                                  .probes = 9},
                                                 3));
    CHECK_THROWS_AS(kvevict::evict(res, policy, larger.view(), larger.evidence_for(policy), budget),
                    kvevict::Error);
    CHECK(kvevict::evict(res, policy, given.view(), evidence, budget, protect).total() > 0);
  }
}

// The mirror of a device allocates for every call, and knows no threads.
#if !defined(KVEVICT_TEST_MIRROR)
TEST_CASE("contract: 16 MiB and 64 bytes a row are enough for a thread, whatever the dimension",
          "[contract][workspace]") {
  using namespace kvevict;
  // At addresses that nobody may touch: sizes are only counted.
  const float* nowhere = reinterpret_cast<const float*>(std::uintptr_t{256});
  constexpr std::int64_t heads = 8;
  constexpr std::int64_t query_heads = 4 * heads;
  const auto bytes = [&](const TestPolicy& policy, std::int64_t rows, std::int64_t dim,
                         int threads) {
    const auto cache = KvView<const float>::hnd(nowhere, nowhere, heads, rows, dim);
    const auto matrices = MatrixBatchView<const float>::packed(nowhere, query_heads, dim, dim);
    const auto vectors = MatrixView<const float>::packed(nowhere, query_heads, dim);
    const auto positions = QueryPositions<>::consecutive(static_cast<int>(rows - 64));
    const auto queries = QueriesView<>::packed(nowhere, query_heads, 64, dim);
    Evidence<> evidence{.query_window = {{queries, positions}},
                        .query_stats = {{vectors, vectors, matrices}},
                        .attention_mass = {{nowhere, cache.layout()}},
                        .output_projection = {{matrices}},
                        .query_filter = {{MatrixView<const float>::packed(nowhere, heads, dim)}},
                        .keys_before_rope = {{cache.keys()}}};
    if (policy.needs().contains(EvidenceKind::probes) || chooses_its_evidence(policy)) {
      evidence.probes = {QueriesView<>::packed(nowhere, query_heads, 192, dim)};
    }
    const TestResources res({.threads = threads});
    return workspace_bytes(res, policy, cache, evidence, budget);
  };
  for (const auto& [name, policy] : policy_variants()) {
    for (const std::int64_t rows :
         {std::int64_t{100}, std::int64_t{40000}, std::int64_t{1} << 20}) {
      for (const std::int64_t dim : {64, 128, 256}) {
        const std::int64_t one = bytes(policy, rows, dim, 1);
        const std::int64_t each = bytes(policy, rows, dim, 2) - one;
        INFO(name << ", " << rows << " rows, dim " << dim << ": " << one << " bytes, " << each
                  << " for each more thread");
        CHECK(each <= (std::int64_t{16} << 20) + 64 * rows);
        // What threads share: a few numbers for each row of each query head, a few matrices for
        // each head, but no copy of the cache.
        CHECK(one - each <= 16 * query_heads * rows + 16 * query_heads * dim * dim + 100000);
      }
    }
  }
}

TEST_CASE("contract: a warm call allocates nothing", "[contract][workspace]") {
  // Above 128 channels the products of Eigen itself take memory from the heap.
  for (const std::size_t dim : {16u, 64u, 128u}) {
    ContractCase given(reference::random_inputs({.group = 2,
                                                 .rows = {300, 40, 0},
                                                 .dim = dim,
                                                 .value_dim = dim,
                                                 .queries = 70,
                                                 .probes = 70},
                                                4));
    for (const PolicyVariant& variant : policy_variants()) {
      const TestPolicy& policy = variant.policy;
      if (dim == 128 && variant.name.find(' ') != std::string::npos) continue;
      for (const int threads : {1, 2}) {
        const kvevict::Evidence<> evidence = given.evidence_for(policy);
        TestResources res({.threads = threads});
        Selection kept;
        const auto call = [&] {
          kvevict::evict_into(res, kept, policy, given.view(), evidence, budget, protect,
                              UniformBudget{});
        };
        call();
        call();  // threads may start late
        const AllocationScope scope;
        call();
        const AllocationCount count = scope.count();
        INFO(variant.name << ", dim " << dim << ", " << threads << " threads: " << count.bytes
                          << " bytes");
        CHECK(count.allocations == 0);
      }
    }
  }
}

TEST_CASE("contract: a smaller cache after a larger one allocates nothing",
          "[contract][workspace]") {
  ContractCase larger(reference::random_inputs({.group = 2, .rows = {300, 300}}, 5));
  ContractCase smaller(reference::random_inputs({.group = 2, .rows = {100, 20}}, 6));
  TestResources res({.threads = 1});
  Selection kept;
  for (const auto& [name, policy] : default_policies()) {
    INFO(name);
    const kvevict::Evidence<> evidence = larger.evidence_for(policy);
    const kvevict::Evidence<> other = smaller.evidence_for(policy);
    kvevict::evict_into(res, kept, policy, larger.view(), evidence, budget, protect,
                        UniformBudget{});
    const AllocationScope scope;
    kvevict::evict_into(res, kept, policy, smaller.view(), other, budget, protect, UniformBudget{});
    CHECK(scope.count().allocations == 0);
  }
}
#endif
