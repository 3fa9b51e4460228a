// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/concepts.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "catch.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/allocators/uniform.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/policies/all.hpp"

using kvevict::BudgetAllocator;
using kvevict::EvictionPolicy;
using kvevict::Evidence;
using kvevict::KvView;
using kvevict::MemorySpace;
using kvevict::ScoreView;

namespace {

// The least that is a policy. Each type below lacks one piece of it.
struct Archetype {
  std::string_view name() const;
  kvevict::EvidenceSet needs() const;
  bool comparable_across_heads() const;
  template <class R, class T>
  void score(R&, const KvView<const T, R::space>&, const Evidence<R::space>&,
             ScoreView<R::space>) const;
  [[maybe_unused]] friend bool operator==(const Archetype&, const Archetype&) = default;
};

template <class Base>
struct Comparable : Base {
  [[maybe_unused]] friend bool operator==(const Comparable&, const Comparable&) { return true; }
};

struct WithoutName {
  kvevict::EvidenceSet needs() const;
  bool comparable_across_heads() const;
  template <class R, class T>
  void score(R&, const KvView<const T, R::space>&, const Evidence<R::space>&,
             ScoreView<R::space>) const;
};

struct WithoutNeeds {
  std::string_view name() const;
  bool comparable_across_heads() const;
  template <class R, class T>
  void score(R&, const KvView<const T, R::space>&, const Evidence<R::space>&,
             ScoreView<R::space>) const;
};

struct WithoutComparable {
  std::string_view name() const;
  kvevict::EvidenceSet needs() const;
  template <class R, class T>
  void score(R&, const KvView<const T, R::space>&, const Evidence<R::space>&,
             ScoreView<R::space>) const;
};

struct WithoutScore {
  std::string_view name() const;
  kvevict::EvidenceSet needs() const;
  bool comparable_across_heads() const;
};

struct WithoutEquality {
  std::string_view name() const;
  kvevict::EvidenceSet needs() const;
  bool comparable_across_heads() const;
  template <class R, class T>
  void score(R&, const KvView<const T, R::space>&, const Evidence<R::space>&,
             ScoreView<R::space>) const;
};

struct WithoutCopy : WithoutEquality {
  std::unique_ptr<int> state;
  [[maybe_unused]] friend bool operator==(const WithoutCopy&, const WithoutCopy&) { return true; }
};

// A policy whose scoring changes it is not a configuration.
struct WithMutableScore : WithoutScore {
  template <class R, class T>
  void score(R&, const KvView<const T, R::space>&, const Evidence<R::space>&, ScoreView<R::space>);
};

struct WithScoreResult : WithoutScore {
  template <class R, class T>
  int score(R&, const KvView<const T, R::space>&, const Evidence<R::space>&,
            ScoreView<R::space>) const;
};

struct WithWritableCache : WithoutScore {
  template <class R>
  void score(R&, const KvView<float, R::space>&, const Evidence<R::space>&,
             ScoreView<R::space>) const;
};

struct WithNeedsOfOneKind : Archetype {
  kvevict::EvidenceKind needs() const;
  [[maybe_unused]] friend bool operator==(const WithNeedsOfOneKind&, const WithNeedsOfOneKind&) {
    return true;
  }
};

// A policy for one element type and the host only is one for exactly that.
struct FloatOnHost : WithoutScore {
  template <class R>
  void score(R&, const KvView<const float>&, const Evidence<>&, ScoreView<>) const;
};

// The least that are resources, for a device. Each type below lacks one piece of it.
struct DeviceSelection {};
struct DeviceResources {
  static constexpr MemorySpace space = MemorySpace::device;
  using selection_type = DeviceSelection;
  kvevict::Workspace& workspace();
  kvevict::Workspace& host_workspace();
  void make_room(DeviceSelection&, std::span<const std::int64_t>);
  void reset_report();
  void reset_nan_scores();
  void deliver_report(DeviceSelection&);
};

struct WithoutSpace : DeviceResources {
  static constexpr int space() { return 0; }
};
struct WithoutSelection : DeviceResources {
 private:
  using selection_type = DeviceSelection;
};
struct WithoutWorkspace : DeviceResources {
  void workspace();
};
struct WithoutHostWorkspace : DeviceResources {
  void host_workspace();
};
struct WithoutRoom : DeviceResources {
  void make_room();
};
struct WithoutReset : DeviceResources {
  void reset_report(int);
};
struct WithoutNanReset : DeviceResources {
  void reset_nan_scores(int);
};
struct WithoutDelivery : DeviceResources {
  void deliver_report();
};

struct Allocator {
  template <class R>
  void allocate(R&, const kvevict::AllocationInput<R::space>&, std::int64_t*) const;
};
struct AllocatorWithoutAllocate {};
struct AllocatorWithMutableAllocate {
  template <class R>
  void allocate(R&, const kvevict::AllocationInput<R::space>&, std::int64_t*);
};
struct AllocatorOfNarrowCounts {
  template <class R>
  void allocate(R&, const kvevict::AllocationInput<R::space>&, std::int32_t*) const;
};
struct AllocatorWithResult {
  template <class R>
  std::int64_t allocate(R&, const kvevict::AllocationInput<R::space>&, std::int64_t*) const;
};
struct AllocatorWithoutCopy : Allocator {
  std::unique_ptr<int> state;
};

template <class List>
struct AllArePolicies;
template <class... Ps>
struct AllArePolicies<kvevict::TypeList<Ps...>> {
  template <class R, class T>
  static constexpr bool value = (EvictionPolicy<Ps, R, T> && ...);
};

}  // namespace

TEST_CASE("the archetype is a policy, and nothing less is", "[core][concepts]") {
  STATIC_REQUIRE(EvictionPolicy<Archetype>);
  STATIC_REQUIRE(EvictionPolicy<Archetype, DeviceResources, kvevict::half>);
  STATIC_REQUIRE(EvictionPolicy<Comparable<WithoutEquality>>);

  STATIC_REQUIRE_FALSE(EvictionPolicy<Comparable<WithoutName>>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Comparable<WithoutNeeds>>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Comparable<WithoutComparable>>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Comparable<WithoutScore>>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<WithoutEquality>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<WithoutCopy>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Comparable<WithMutableScore>>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Comparable<WithScoreResult>>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Comparable<WithWritableCache>>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<WithNeedsOfOneKind>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<int>);
}

TEST_CASE("a policy is one for the spaces and types that it scores", "[core][concepts]") {
  using Policy = Comparable<FloatOnHost>;
  STATIC_REQUIRE(EvictionPolicy<Policy, kvevict::CpuResources, float>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Policy, kvevict::CpuResources, kvevict::half>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Policy, DeviceResources, float>);
}

TEST_CASE("every policy of the list serves every element type", "[core][concepts]") {
  using All = AllArePolicies<kvevict::AllPolicies>;
  STATIC_REQUIRE(All::value<kvevict::CpuResources, float>);
  STATIC_REQUIRE(All::value<kvevict::CpuResources, kvevict::half>);
  STATIC_REQUIRE(All::value<kvevict::CpuResources, kvevict::bfloat16>);
  STATIC_REQUIRE(All::value<kvevict::detail::ArchetypeResources, float>);
  STATIC_REQUIRE(All::value<DeviceResources, float>);
}

TEST_CASE("resources need a space, workspaces, selections and a report", "[core][concepts]") {
  STATIC_REQUIRE(kvevict::Resources<kvevict::CpuResources>);
  STATIC_REQUIRE(kvevict::Resources<kvevict::detail::ArchetypeResources>);
  STATIC_REQUIRE(kvevict::Resources<DeviceResources>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutSpace>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutSelection>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutWorkspace>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutHostWorkspace>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutRoom>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutReset>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutNanReset>);
  STATIC_REQUIRE_FALSE(kvevict::Resources<WithoutDelivery>);
  STATIC_REQUIRE_FALSE(EvictionPolicy<Archetype, WithoutWorkspace>);
}

TEST_CASE("an allocator divides a budget without changing itself", "[core][concepts]") {
  STATIC_REQUIRE(BudgetAllocator<Allocator>);
  STATIC_REQUIRE(BudgetAllocator<Allocator, DeviceResources>);
  STATIC_REQUIRE(BudgetAllocator<kvevict::UniformBudget, kvevict::CpuResources>);
  STATIC_REQUIRE(BudgetAllocator<kvevict::GlobalBudget, kvevict::CpuResources>);
  STATIC_REQUIRE_FALSE(BudgetAllocator<AllocatorWithoutAllocate>);
  STATIC_REQUIRE_FALSE(BudgetAllocator<AllocatorWithMutableAllocate>);
  STATIC_REQUIRE_FALSE(BudgetAllocator<AllocatorOfNarrowCounts>);
  STATIC_REQUIRE_FALSE(BudgetAllocator<AllocatorWithResult>);
  STATIC_REQUIRE_FALSE(BudgetAllocator<AllocatorWithoutCopy>);
  STATIC_REQUIRE_FALSE(BudgetAllocator<int>);
}
