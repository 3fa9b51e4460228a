// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include <kvevict/any_policy.hpp>
#include <kvevict/decorators/blend.hpp>

namespace demo {

/// What the future asks (probes) and what the context needs to be said again (a replay), by the sum
/// of both: attention weights alike.
using ProbesAndReplay = kvevict::Blend<kvevict::ProbeAttention, kvevict::KVzip>;

namespace detail {

template <class List>
struct WithBlend;
template <class... Policies>
struct WithBlend<kvevict::TypeList<Policies...>> {
  using type = kvevict::TypeList<Policies..., ProbesAndReplay>;
};

}  // namespace detail

/// The library's policies, and one that holds two of them.
using ModelPolicy = kvevict::BasicAnyPolicy<detail::WithBlend<kvevict::AllPolicies>::type>;

inline ModelPolicy model_policy(const kvevict::AnyPolicy& policy) {
  return std::visit([](const auto& held) { return ModelPolicy(held); }, policy.variant());
}

}  // namespace demo
