// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "decode/cache_engine.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/cpu/query_stats.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/running_mass.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/decode_evictor.hpp"
#include "policies/any_policy_calls.hpp"

namespace kvevict_test {

using Evictor = kvevict::DecodeEvictor<TestPolicy>;

// One step of an engine: room, rows, queries. Returns whether rows were evicted.
template <class P, class T, class A = kvevict::UniformBudget>
bool decode_step(TestResources& res, kvevict::DecodeEvictor<P>& evictor, Engine<T>& engine,
                 kvevict::Selection& kept, std::int64_t tokens,
                 const kvevict::Evidence<>& given = {}, const A& allocator = {}) {
  const bool evicted = evictor.make_room(res, kept, engine.view(), tokens, given, allocator);
  if (evicted) engine.keep(kept);
  const std::int64_t next = evictor.next_position();
  engine.append(next, tokens);
  evictor.observe(res, engine.view(), tokens, engine.queries(next, tokens).view());
  return evicted;
}

// Every policy with parameters that suit small caches, and Jacap from statistics as well.
std::vector<TestPolicy> decode_policies();

// Options whose windows are exceeded by sequences of a few dozen tokens.
kvevict::DecodeEvidenceOptions short_memory();

/// Of a schedule whose limit is below what some of the policies protect by themselves.
inline constexpr kvevict::Protect unprotected{};

// Factors of an output projection for policies that ask for one: the identity's.
class IdentityProjection {
 public:
  explicit IdentityProjection(const EngineShape& shape)
      : heads_(shape.heads * shape.group), dim_(shape.dim) {
    factors_.resize(static_cast<std::size_t>(heads_ * dim_ * dim_), 0.0f);
    for (std::int64_t i = 0; i < heads_ * dim_; ++i) {
      factors_[static_cast<std::size_t>(i * dim_ + i % dim_)] = 1.0f;
    }
  }
  kvevict::Evidence<> evidence() const {
    kvevict::Evidence<> evidence;
    evidence.output_projection = kvevict::OutputProjection<>{
        kvevict::MatrixBatchView<const float>::packed(factors_.data(), heads_, dim_, dim_)};
    return evidence;
  }

 private:
  std::int64_t heads_;
  std::int64_t dim_;
  std::vector<float> factors_;
};

}  // namespace kvevict_test
