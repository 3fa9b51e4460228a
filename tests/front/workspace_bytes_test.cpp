// SPDX-License-Identifier: Apache-2.0
#include "kvevict/workspace_bytes.hpp"

#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "front/given_scores.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/policies/keydiff.hpp"
#include "kvevict/policies/knorm.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

namespace workspace_bytes_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::GlobalBudget;
using kvevict::KvView;
using kvevict::Selection;

namespace {

KvView<const float> cache_of(const RowsCase<float>& keys) { return {keys.view(), keys.view()}; }

template <class P, class A>
void check(const P& policy, const RowsCase<float>& keys, const A& allocator) {
  const auto cache = cache_of(keys);
  const Budget budget = Budget::rows(20);
  const kvevict::Protect protect{.sinks = 2};
  TestResources owning({.threads = 2});
  const std::int64_t bytes = workspace_bytes(owning, policy, cache, {}, budget, protect, allocator);
  const Selection want = evict(owning, policy, cache, {}, budget, protect, allocator);
  INFO(policy.name());
  REQUIRE(bytes == owning.workspace().peak_bytes());
  REQUIRE(bytes % kvevict::workspace_alignment == 0);

  // That many bytes are enough, one less is not.
  const std::size_t size = static_cast<std::size_t>(bytes);
  std::vector<std::byte> memory(size + 256);
  std::byte* aligned = memory.data();
  while (reinterpret_cast<std::uintptr_t>(aligned) % 256 != 0) ++aligned;
  TestResources exact({.threads = 2, .workspace = aligned, .workspace_bytes = size});
  REQUIRE(evict(exact, policy, cache, {}, budget, protect, allocator) == want);
  TestResources shorter({.threads = 2, .workspace = aligned, .workspace_bytes = size - 1});
  REQUIRE(refused([&] { evict(shorter, policy, cache, {}, budget, protect, allocator); },
                  kvevict::ErrorKind::backend)
              .substr(0, 10) == "workspace.");
}

}  // namespace

TEST_CASE("the workspace that a call needs is known before it", "[front][workspace_bytes]") {
  const RowsCase<float> keys(RowsForm::packed, {300, 20, 0, 129}, 24, 1);
  check(kvevict::KNorm{}, keys, kvevict::UniformBudget{});
  check(kvevict::KeyDiff{}, keys, kvevict::UniformBudget{});
  check(GivenScores{.scores = std::vector<float>(449, 1.0f)}, keys, GlobalBudget{});
  check(kvevict::KNorm{}, keys, GlobalBudget{.allow_incomparable = true});
}

TEST_CASE("asking for the size computes and reads nothing", "[front][workspace_bytes]") {
  // Rows at an address that nobody may touch.
  const float* nowhere = reinterpret_cast<const float*>(std::uintptr_t{64});
  const auto cache = KvView<const float>::hnd(nowhere, nowhere, 8, 100000, 64);
  const TestResources res({.threads = 4});
  const std::int64_t bytes =
      workspace_bytes(res, kvevict::KeyDiff{}, cache, {}, Budget::evict_ratio(0.5));
  REQUIRE(bytes > 8 * 100000 * 4);
  REQUIRE(bytes < 8 * 100000 * 8);
}

TEST_CASE("the size grows with rows and threads", "[front][workspace_bytes]") {
  const RowsCase<float> small(RowsForm::head_first, {10}, 8, 1);
  const RowsCase<float> large(RowsForm::head_first, {1000}, 8, 1);
  const auto bytes = [](const RowsCase<float>& keys, int threads) {
    const TestResources res({.threads = threads});
    return workspace_bytes(res, kvevict::KNorm{}, cache_of(keys), {}, Budget::rows(4));
  };
  REQUIRE(bytes(small, 1) < bytes(large, 1));
  if (on_cpu) REQUIRE(bytes(large, 1) < bytes(large, 2));
}

TEST_CASE("the size is refused for what the call would refuse", "[front][workspace_bytes]") {
  const RowsCase<float> keys(RowsForm::head_first, {10}, 8, 1);
  const TestResources res({.threads = 1});
  GivenScores needy{.scores = std::vector<float>(10, 1.0f)};
  needy.evidence = {kvevict::EvidenceKind::probes};
  REQUIRE(refused([&] { workspace_bytes(res, needy, cache_of(keys), {}, Budget::rows(4)); }) ==
          "evidence.probes is missing, must be given for GivenScores");
}

}  // namespace workspace_bytes_test
