// SPDX-License-Identifier: Apache-2.0
// Allocators and decorators carve what workspace_bytes announces, and nothing from the heap.
#include <vector>

#include "catch.hpp"
#include "kvevict/kvevict.hpp"
#include "support/allocation_counter.hpp"
#include "support/random.hpp"

namespace allocators_workspace_test {

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::KNorm;

namespace {

constexpr std::int64_t heads = 24;
constexpr std::int64_t dim = 16;

struct Cache {
  std::vector<float> keys = random_values(Shape::normal, heads * 300 * dim, 1);
  std::vector<float> values = random_values(Shape::normal, heads * 300 * dim, 2);

  kvevict::KvView<const float> view(std::int64_t rows) const {
    return kvevict::KvView<const float>::hnd(keys.data(), values.data(), heads, rows, dim);
  }
};

template <class P, class A>
void check(const P& policy, const A& allocator) {
  const Cache cache;
  const kvevict::Budget budget = kvevict::Budget::evict_ratio(0.6);
  const kvevict::Protect protect{.sinks = 2, .recent = 3};
  for (const int threads : {1, 2}) {
    CpuResources res({.threads = threads});
    const std::int64_t bytes =
        workspace_bytes(res, policy, cache.view(300), {}, budget, protect, allocator);
    kvevict::Selection kept;
    const auto call = [&](std::int64_t rows) {
      evict_into(res, kept, policy, cache.view(rows), {}, budget, protect, allocator);
    };
    call(300);
    REQUIRE(res.workspace().peak_bytes() == bytes);
    call(300);  // threads may start late
    const AllocationScope scope;
    call(300);
    call(120);
    const std::int64_t allocations = scope.count().allocations;
    REQUIRE(allocations == 0);
  }
}

}  // namespace

TEST_CASE("warm allocators allocate nothing", "[cpu][workspace]") {
  check(KNorm{}, kvevict::AdaptiveBudget{.heads_per_layer = 2, .allow_incomparable = true});
  check(KNorm{}, kvevict::MassBudget{.heads_per_group = 4});
  check(KNorm{}, kvevict::MassBudget::published(8));
  check(KNorm{}, kvevict::PyramidBudget{.window = 4});
  check(KNorm{}, kvevict::SpreadBudget{.heads_per_group = 1});
  check(KNorm{}, kvevict::SpreadBudget{.heads_together = 6});
  const std::vector<double> keep(heads, 0.4);
  check(KNorm{}, kvevict::TableBudget{.keep = keep, .heads_per_group = 1});
}

TEST_CASE("warm decorators allocate nothing", "[cpu][workspace]") {
  const kvevict::UniformBudget uniform;
  check(kvevict::BlockStreaming<KNorm>{.keep = 100, .block = 30}, uniform);
  check(kvevict::ValueWeighted<KNorm>{.from_lowest = true, .first_stage = 0.25}, uniform);
  check(kvevict::CriticalKV<KNorm>{.size = kvevict::ValueSize::norm},
        kvevict::GlobalBudget{.allow_incomparable = true});
  check(kvevict::Blend<KNorm, kvevict::KeyDiff>{}, uniform);
  check(kvevict::PerLayer<KNorm, kvevict::KeyDiff>{.heads = {0, 5}}, uniform);
  check(kvevict::SpanProtection<KNorm>{.closed = 9, .spans = {{20, 30}}}, uniform);
}

TEST_CASE("warm selections of equal counts and of the same rows allocate nothing",
          "[cpu][workspace]") {
  const Cache cache;
  CpuResources res({.threads = 2});
  std::vector<float> memory = random_values(Shape::normal, heads * 300, 3);
  const kvevict::ScoreView<> scores{memory.data(), cache.view(300).layout()};
  kvevict::Selection kept;
  const auto call = [&] {
    select_rows(res, kept, scores, cache.view(300), true, kvevict::Budget::rows(40), {},
                kvevict::GlobalBudget{});
    fill_to_uniform_counts(res, kept, kept, scores, cache.view(300), {}, 3);
    select_same_rows(res, kept, scores, cache.view(300), 3, kvevict::GroupReduction::mean,
                     kvevict::Budget::rows(40));
  };
  call();
  call();
  const AllocationScope scope;
  call();
  const std::int64_t allocations = scope.count().allocations;
  REQUIRE(allocations == 0);
}

}  // namespace allocators_workspace_test
