// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "model_eviction/eviction.hpp"

namespace evaluate {

/// A budget under a label: uniform, global or global/floor=SHARE.
struct BudgetChoice {
  demo::BudgetKind kind = demo::BudgetKind::uniform;
  double floor = 0.0;  ///< see demo::EvictionPlan
};

/// A refit under a label: none, values or absorbed, then /parameter=value for each other strength
/// (fields of kvevict::RefitOptions).
struct RefitChoice {
  demo::RefitKind kind = demo::RefitKind::none;
  kvevict::RefitOptions options = {};
};

/// Throw kvevict::Error, which names `name`, for a text that is no such label.
BudgetChoice parse_budget(std::string_view name, std::string_view text);
RefitChoice parse_refit(std::string_view name, std::string_view text);

/// What a plan's budget and refit are called: parameters only where they are not the default.
std::string budget_label(const demo::EvictionPlan& plan);
std::string refit_label(const demo::EvictionPlan& plan);

}  // namespace evaluate
