// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/policies/h2o.hpp"

namespace kvevict {

// What a DecodeEvictor asks of any policy and any allocator, where they have an answer.
namespace detail {

/// Hands an allocator shares that were planned instead of those of a budget.
template <class A>
struct PlannedShares {
  const std::int64_t* shares;
  A inner;

  template <class R>
  void allocate(R& res, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    AllocationInput<R::space> planned = input;
    planned.shares = shares;
    inner.allocate(res, planned, counts);
  }
};

/// The allocator, told that no head may keep more than `most` rows, if it has such a bound.
template <class A>
A with_cap(A allocator, std::int64_t most) {
  if constexpr (requires { allocator.cap = most; }) {
    allocator.cap = std::min<std::int64_t>(allocator.cap, most);
  }
  return allocator;
}

/// Rows that the allocator gives every head at least.
template <class A>
std::int64_t floor_of_allocator(const A& allocator) {
  if constexpr (requires { std::int64_t{allocator.floor}; }) return allocator.floor;
  return 0;
}

/// What to collect for a policy: what it needs, and what it suggests where it may choose.
template <class P>
EvidenceSet collected_evidence(const P& policy) {
  EvidenceSet kinds = policy.needs();
  if constexpr (requires { policy.suggested_evidence(); }) kinds |= policy.suggested_evidence();
  return kinds;
}

/// How a policy's attention mass accumulates: its own parameters if it is H2O.
template <class P>
H2O accumulation_of(const P& policy) {
  if constexpr (std::is_same_v<P, H2O>) {
    return policy;
  } else if constexpr (requires { std::get_if<H2O>(&policy.variant()); }) {
    const H2O* held = std::get_if<H2O>(&policy.variant());
    return held != nullptr ? *held : H2O{};
  } else {
    return H2O{};
  }
}

/// Queries that a policy takes from a query window, if it says so.
template <class P>
std::int64_t window_of(const P& policy, std::int64_t otherwise) {
  if constexpr (requires { std::int64_t{policy.window}; }) {
    return policy.window;
  } else if constexpr (requires { policy.variant(); }) {
    return std::visit([&](const auto& held) { return window_of(held, otherwise); },
                      policy.variant());
  } else {
    return otherwise;
  }
}

/// Name and parameters, the same for a policy and for an AnyPolicy that holds it.
template <class P>
std::string policy_text(const P& policy) {
  std::string text(policy.name());
  const auto add = [&](std::string_view name, std::string_view value) {
    text.append(" ").append(name).append("=").append(value);
  };
  const auto visit = [&](std::string_view name, const auto& field, std::string_view) {
    add(name, format_parameter(field));
  };
  if constexpr (requires { policy.parameters().begin(); }) {
    for (const auto& parameter : policy.parameters()) add(parameter.name, parameter.value);
  } else if constexpr (requires { P::parameters(policy, visit); }) {
    P::parameters(policy, visit);
  }
  return text;
}

}  // namespace detail

}  // namespace kvevict
