// SPDX-License-Identifier: Apache-2.0
// What an engine with CUDA graphs relies on: once warm, evicting and compacting neither waits nor
// allocates, and a replay does what the calls do. For every policy of the library's list.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "cuda/mirror/mirror_graph.hpp"
#include "reference/random_inputs.hpp"

namespace capture_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::KvView;
using kvevict::RowsView;

namespace {

// A cache that may be compacted, with positions of its own.
struct Engine {
  PackedCache<float> memory;

  explicit Engine(const reference::Inputs& inputs) : memory(inputs) {
    if (!memory.positions.empty()) return;
    for (std::size_t h = 0; h + 1 < memory.offsets.size(); ++h) {
      for (std::int64_t i = 0; i < memory.offsets[h + 1] - memory.offsets[h]; ++i) {
        memory.positions.push_back(static_cast<std::int32_t>(i));
      }
    }
  }
  KvView<float> view() {
    const auto rows = [&](std::vector<float>& data, std::int64_t dim) {
      return RowsView<float>::packed(data.data(), memory.layout(), dim, dim);
    };
    return {rows(memory.keys, memory.key_dim), rows(memory.values, memory.value_dim),
            kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>::packed(
                memory.positions.data())};
  }
};

// How many of the kept rows of `after` are not the rows of `before` that `kept` names.
int misplaced(const kvevict::Selection& kept, Engine& before, Engine& after) {
  int count = 0;
  const KvView<float> from = before.view();
  const KvView<float> to = after.view();
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      const std::int64_t i = kept.head(h)[static_cast<std::size_t>(j)];
      bool same =
          to.positions().row(h, to.layout())[j] == from.positions().row(h, from.layout())[i];
      for (std::int64_t c = 0; c < from.keys().dim(); ++c) {
        same = same && to.keys().head(h)(j, c) == from.keys().head(h)(i, c);
      }
      for (std::int64_t c = 0; c < from.values().dim(); ++c) {
        same = same && to.values().head(h)(j, c) == from.values().head(h)(i, c);
      }
      count += same ? 0 : 1;
    }
  }
  return count;
}

void check_replay(const reference::Inputs& inputs, const Budget& budget) {
  ContractCase given(inputs);
  const kvevict::Protect protect{.sinks = 2, .recent = 3};
  for (const PolicyVariant& variant : policy_variants()) {
    INFO(variant.name);
    const kvevict::Evidence<> evidence = given.evidence_for(variant.policy);
    TestResources res({.threads = 1});
    Engine before(inputs);
    Engine after(inputs);
    kvevict::Selection kept;
    evict_by_graph(res, kept, variant.policy, after.view(), evidence, budget, protect);
    CHECK(kept == kvevict::evict(res, variant.policy, KvView<const float>(before.view()), evidence,
                                 budget, protect));
    CHECK(misplaced(kept, before, after) == 0);
  }
}

}  // namespace

TEST_CASE("capture: heads that keep equal counts are evicted and compacted by a graph",
          "[cuda][capture]") {
  check_replay(uniform_contract_inputs(), Budget::rows(9));
}

TEST_CASE("capture: so are heads that keep different counts", "[cuda][capture]") {
  check_replay(contract_inputs_with_holes(), Budget::evict_ratio(0.5));
}

TEST_CASE("capture: a warm call for a shared budget waits, but allocates nothing",
          "[cuda][capture]") {
  const reference::Inputs inputs = contract_inputs();
  ContractCase given(inputs);
  Engine engine(inputs);
  for (const auto& [name, policy] : default_policies()) {
    INFO(name);
    TestResources res({.threads = 1});
    CHECK(warm_allocations(res, policy, engine.view(), given.evidence_for(policy),
                           Budget::evict_ratio(0.5), {.allow_incomparable = true}) == 0);
  }
}

}  // namespace capture_test
