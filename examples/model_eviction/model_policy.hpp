// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include <kvevict/any_policy.hpp>
#include <kvevict/recipes.hpp>

namespace demo {

namespace detail {

template <class List>
struct WithBlend;
template <class... Policies>
struct WithBlend<kvevict::TypeList<Policies...>> {
  using type = kvevict::TypeList<Policies..., kvevict::recipes::ProbesAndReplay>;
};

}  // namespace detail

/// The library's policies, and the sum of two of them.
using ModelPolicy = kvevict::BasicAnyPolicy<detail::WithBlend<kvevict::AllPolicies>::type>;

inline ModelPolicy model_policy(const kvevict::AnyPolicy& policy) {
  return std::visit([](const auto& held) { return ModelPolicy(held); }, policy.variant());
}

}  // namespace demo
