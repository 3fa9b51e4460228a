// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/policies/h2o.hpp"
#include "kvevict/policies/kvzip.hpp"

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

/// Calls each(held...) with the policies that a policy holds itself.
template <class P, class Each>
void with_held(const P& policy, const Each& each) {
  if constexpr (requires { policy.variant(); }) {
    std::visit(each, policy.variant());
  } else if constexpr (requires { policy.inner; }) {
    each(policy.inner);
  } else if constexpr (requires { policy.policies; }) {
    std::apply(each, policy.policies);
  } else if constexpr (requires {
                         policy.base;
                         policy.other;
                       }) {
    each(policy.base, policy.other);
  } else {
    each();
  }
}

/// Calls use(policy) for the policies that a policy holds, at any depth, and for one that holds
/// none itself.
template <class P, class Use>
void for_each_held(const P& policy, const Use& use) {
  with_held(policy, [&](const auto&... held) {
    if constexpr (sizeof...(held) == 0) {
      use(policy);
    } else {
      (for_each_held(held, use), ...);
    }
  });
}

/// Widens `protect` to what a policy and those that it holds suggest for `rows` kept rows, but for
/// spans, which are added to `spans`.
template <class P>
void add_suggested(const P& policy, std::int64_t rows, Protect& protect,
                   std::vector<PositionSpan>& spans) {
  const auto add = [&](const Protect& suggested) {
    protect.sinks = std::max(protect.sinks, suggested.sinks);
    protect.recent = std::max(protect.recent, suggested.recent);
    spans.insert(spans.end(), suggested.spans.begin(), suggested.spans.end());
  };
  if constexpr (requires { policy.suggested_protection(); }) {
    add(policy.suggested_protection());
  } else if constexpr (requires { policy.published_protection(rows); }) {
    add(policy.published_protection(rows));
  }
  with_held(policy, [&](const auto&... held) { (add_suggested(held, rows, protect, spans), ...); });
}

/// What to collect for a policy: what it needs, and what it and those that it holds suggest where
/// they may choose.
template <class P>
EvidenceSet collected_evidence(const P& policy) {
  EvidenceSet kinds = policy.needs();
  for_each_held(policy, [&](const auto& held) {
    if constexpr (requires { held.suggested_evidence(); }) kinds |= held.suggested_evidence();
  });
  return kinds;
}

}  // namespace detail

/// The protection that a policy is published with for `rows` kept rows: what it and those that it
/// holds suggest, the most of each, and all their spans; of H2O the recent half of the rows,
/// without which it drops new rows, that have received little yet, for old ones. Policies that
/// suggest nothing protect nothing. Spans are written to `spans`, to which the result refers.
template <class P>
Protect suggested_protection(const P& policy, std::int64_t rows, std::vector<PositionSpan>& spans) {
  spans.clear();
  Protect protect;
  detail::add_suggested(policy, rows, protect, spans);
  protect.spans = spans;
  return protect;
}

/// How a policy's attention mass accumulates: as the H2O or KVzip that it is or holds does. Throws
/// unsupported when it holds two that differ, since one mass cannot serve both.
template <class P>
H2O accumulation_of(const P& policy) {
  std::optional<H2O> found;
  const auto add = [&](const H2O& held) {
    require(!found || *found == held, "policy", "two that accumulate attention differently",
            "of one accumulation", ErrorKind::unsupported);
    found = held;
  };
  detail::for_each_held(policy, [&](const auto& held) {
    using Held = std::remove_cvref_t<decltype(held)>;
    if constexpr (std::is_same_v<Held, H2O>) add(held);
    if constexpr (std::is_same_v<Held, KVzip>) add(held.accumulation());
  });
  return found.value_or(H2O{});
}

namespace detail {

/// Queries that a policy takes from a query window: the most of those that it is or holds, where
/// they say how many.
template <class P>
std::int64_t window_of(const P& policy, std::int64_t otherwise) {
  std::int64_t most = 0;
  for_each_held(policy, [&](const auto& held) {
    if (!held.needs().contains(EvidenceKind::query_window)) return;
    if constexpr (requires { std::int64_t{held.window}; }) {
      most = std::max(most, held.window);
    } else {
      most = std::max(most, otherwise);
    }
  });
  return most > 0 ? most : otherwise;
}

/// "(KNorm, SnapKV)": the policies that a policy holds, at any depth, and for which heads. Empty
/// for one that holds none; an AnyPolicy is what it holds.
template <class P>
std::string held_text(const P& policy) {
  constexpr bool any = requires { policy.variant(); };
  constexpr bool by_head = requires {
    policy.base;
    policy.heads;
  };
  std::string text;
  const auto add = [&](const auto& held) {
    if constexpr (!any) text.append(text.empty() ? "(" : ", ").append(held.name());
    text.append(held_text(held));
  };
  with_held(policy, [&](const auto&... held) { (add(held), ...); });
  if constexpr (any) return text;
  if constexpr (by_head) {
    text.append(", the second for heads");
    for (const std::int64_t head : policy.heads) text.append(" ").append(text_of(head));
  }
  return text.empty() ? text : text.append(")");
}

/// Names and parameters, the same for a policy and for an AnyPolicy that holds it.
template <class P>
std::string policy_text(const P& policy) {
  std::string text(policy.name());
  text.append(held_text(policy));
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
