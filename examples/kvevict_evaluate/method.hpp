// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_eviction/model_policy.hpp"

namespace evaluate {

/// A policy under a label.
struct Method {
  std::string label;  ///< as written: the policy's name, and its settings if there are any
  demo::ModelPolicy policy;
  bool sees_future = false;  ///< its probes are the true queries to come: the bound, not a policy
  bool asked = true;         ///< else only there for comparison: uniform budgets, no refit

  bool comparable_across_heads() const { return policy.comparable_across_heads(); }
};

inline constexpr std::string_view oracle_label = "Oracle";

/// Methods written NAME[/parameter=value...][,...] or all: Random, StreamingLLM and Oracle first,
/// which are always there, then the others in their order, each once; `all` asks for every policy.
/// Oracle keeps the rows with the highest mean attention of the true queries to come, times |v|.
/// Throws kvevict::Error for an unknown policy, parameter or value.
std::vector<Method> parse_methods(std::string_view text);

}  // namespace evaluate
