// SPDX-License-Identifier: Apache-2.0
// A device view given to a call on the CPU does not compile, for ops as for the front.
#include "catch.hpp"
#include "front/given_scores.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/evict.hpp"

using kvevict::CpuResources;
using kvevict::MemorySpace;

namespace {

template <class Rows, class Scores>
concept NormsCompile = requires(CpuResources& res, const Rows& rows, Scores scores) {
  row_norms(res, rows, 1.0f, scores);
};

template <class Cache, class Evidence>
concept EvictCompiles = requires(CpuResources& res, const Cache& cache, const Evidence& evidence) {
  evict(res, kvevict_test::GivenScores{}, cache, evidence, kvevict::Budget::rows(1));
};

template <class Cache>
concept CompactCompiles = requires(CpuResources& res, const kvevict::Selection& kept,
                                   const Cache& cache) {
  compact(res, kept, cache);
};

template <class T>
using DeviceRows = kvevict::RowsView<T, MemorySpace::device>;
template <class T>
using DeviceCache = kvevict::KvView<T, MemorySpace::device>;

}  // namespace

TEST_CASE("ops take views of their own memory space", "[front][memory_space]") {
  using Host = kvevict::RowsView<const float>;
  using HostScores = kvevict::ScoreView<>;
  STATIC_REQUIRE(NormsCompile<Host, HostScores>);
  STATIC_REQUIRE_FALSE(NormsCompile<DeviceRows<const float>, HostScores>);
  STATIC_REQUIRE_FALSE(NormsCompile<Host, kvevict::ScoreView<MemorySpace::device>>);
}

TEST_CASE("the front takes caches and evidence of its own memory space", "[front][memory_space]") {
  using Host = kvevict::KvView<const float>;
  STATIC_REQUIRE(EvictCompiles<Host, kvevict::Evidence<>>);
  STATIC_REQUIRE(EvictCompiles<kvevict::KvView<kvevict::half>, kvevict::Evidence<>>);
  STATIC_REQUIRE_FALSE(EvictCompiles<DeviceCache<const float>, kvevict::Evidence<>>);
  STATIC_REQUIRE_FALSE(EvictCompiles<Host, kvevict::Evidence<MemorySpace::device>>);
  STATIC_REQUIRE(CompactCompiles<kvevict::KvView<float>>);
  STATIC_REQUIRE_FALSE(CompactCompiles<DeviceCache<float>>);
  // Nor is a cache compacted that may only be read.
  STATIC_REQUIRE_FALSE(CompactCompiles<Host>);
}
