// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/error.hpp"

namespace kvevict::detail {

/// Checks the parameters of a policy that is held by another.
template <class P>
void validate_inner(const P& policy) {
  if constexpr (requires { policy.validate(); }) policy.validate();
}

/// Shows the parameters of a policy that is held by another, with names that begin with `prefix`.
template <class P, class Visitor>
void visit_inner(P& policy, std::string_view prefix, Visitor&& visit) {
  if constexpr (requires { policy.parameters(policy, visit); }) {
    policy.parameters(policy, [&](std::string_view name, auto& field, std::string_view meaning) {
      visit(std::string_view(joined(prefix, name)), field, meaning);
    });
  }
}

}  // namespace kvevict::detail
