// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kvevict/probes.hpp>

#include "model_eviction/model_policy.hpp"

namespace evaluate {

/// A policy under a label.
struct Method {
  std::string label;  ///< as written: the policy's name, and its settings if there are any
  demo::ModelPolicy policy;
  bool sees_future = false;  ///< its probes are the true queries to come: the bound, not a policy
  bool asked = true;         ///< else only there for comparison: uniform budgets, no refit
  bool critical = false;     ///< CriticalKV around the policy
  kvevict::FutureProbesOptions probes = {};  ///< next_position is the context's end

  bool comparable_across_heads() const { return policy.comparable_across_heads(); }
};

inline constexpr std::string_view oracle_label = "Oracle";
inline constexpr std::string_view critical_label = "CriticalKV";

/// Methods written NAME[/parameter=value...][,...] or all: Random, StreamingLLM and Oracle first,
/// which are always there, then the others in their order, each once; `all` asks for every policy,
/// and for CriticalKV/SnapKV. CriticalKV/NAME[...] is that decorator around a policy;
/// probes.last, .sampled, .future and .seed choose other probes (FutureProbesOptions).
/// Oracle keeps the rows with the highest mean attention of the true queries to come, times |v|.
/// Throws kvevict::Error for an unknown policy, parameter or value.
std::vector<Method> parse_methods(std::string_view text);

}  // namespace evaluate
