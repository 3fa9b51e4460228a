// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvevict/policies/all.hpp"

namespace kvevict {

namespace detail {

template <class List>
struct VariantOf;
template <class... Ps>
struct VariantOf<TypeList<Ps...>> {
  using type = std::variant<Ps...>;
};

}  // namespace detail

/// Any policy of a list, chosen at run time by name: itself an EvictionPolicy and a value, for
/// command lines, configuration files and tables. `AnyPolicy` is that of the library's policies; a
/// list of one's own may add others, such as decorated ones. Of policies with the same name the
/// first is found by it.
template <class List>
class BasicAnyPolicy {
 public:
  using Variant = typename detail::VariantOf<List>::type;

  template <class P>
  requires std::constructible_from<Variant, P> BasicAnyPolicy(P policy)
      : policy_(std::move(policy)) {}

  /// The policy of that name with its default parameters. Throws invalid_argument listing the
  /// names.
  static BasicAnyPolicy named(std::string_view name) {
    for (const BasicAnyPolicy& policy : all()) {
      if (policy.name() == name) return policy;
    }
    std::string names = "one of ";
    for (const BasicAnyPolicy& policy : all()) {
      names.append(names.back() == ' ' ? "" : ", ").append(policy.name());
    }
    throw Error(ErrorKind::invalid_argument, "policy", detail::quoted(name), names);
  }

  /// Every policy with its default parameters, in the order of the list.
  static std::vector<BasicAnyPolicy> all() {
    std::vector<BasicAnyPolicy> policies;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (policies.push_back(BasicAnyPolicy(std::variant_alternative_t<I, Variant>{})), ...);
    }
    (std::make_index_sequence<std::variant_size_v<Variant>>{});
    return policies;
  }

  /// Sets one parameter from its text; "preset" replaces all of them by those of a named preset.
  /// Throws invalid_argument listing the parameters, or the valid values; the policy is unchanged
  /// then.
  void set(std::string_view parameter, std::string_view value) {
    if (parameter == "preset") return use_preset(value);
    std::visit(
        [&](auto& policy) {
          auto changed = policy;
          bool found = false;
          std::string names;
          changed.parameters(changed, [&](std::string_view name, auto& field, std::string_view) {
            names.append(names.empty() ? "one of " : ", ").append(name);
            if (name != parameter) return;
            parse_parameter(parameter, value, field);
            found = true;
          });
          require(found, detail::joined("parameter of ", policy.name()), detail::quoted(parameter),
                  names.empty() ? "absent: the policy has none" : std::string_view(names));
          changed.validate();
          policy = changed;
        },
        policy_);
  }

  /// The same for "name=value".
  void set(std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    require(equals != std::string_view::npos, "parameter", detail::quoted(assignment),
            "written name=value");
    set(assignment.substr(0, equals), assignment.substr(equals + 1));
  }

  /// Names of the policy's presets; may be empty.
  std::vector<std::string> presets() const {
    std::vector<std::string> names;
    for_each_preset(
        [&](std::string_view name, const BasicAnyPolicy&) { names.emplace_back(name); });
    return names;
  }

  struct Parameter {
    std::string name;
    std::string value;
    std::string description;
  };

  /// Names, present values and meanings of the parameters.
  std::vector<Parameter> parameters() const {
    std::vector<Parameter> list;
    std::visit(
        [&](const auto& policy) {
          policy.parameters(policy, [&](std::string_view name, const auto& field,
                                        std::string_view description) {
            list.push_back({std::string(name), format_parameter(field), std::string(description)});
          });
        },
        policy_);
    return list;
  }

  const Variant& variant() const { return policy_; }

  std::string_view name() const {
    return std::visit([](const auto& policy) { return policy.name(); }, policy_);
  }
  EvidenceSet needs() const {
    return std::visit([](const auto& policy) { return policy.needs(); }, policy_);
  }
  /// What the policy suggests to collect where it may choose its evidence; else what it needs.
  EvidenceSet suggested_evidence() const {
    return std::visit(
        [](const auto& policy) {
          if constexpr (requires { policy.suggested_evidence(); }) {
            return policy.suggested_evidence();
          } else {
            return policy.needs();
          }
        },
        policy_);
  }
  bool comparable_across_heads() const {
    return std::visit([](const auto& policy) { return policy.comparable_across_heads(); }, policy_);
  }
  void validate() const {
    std::visit([](const auto& policy) { policy.validate(); }, policy_);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    std::visit([&](const auto& policy) { policy.score(res, cache, evidence, scores); }, policy_);
  }

  friend bool operator==(const BasicAnyPolicy&, const BasicAnyPolicy&) = default;

 private:
  template <class Visitor>
  void for_each_preset(Visitor&& visit) const {
    std::visit(
        [&](const auto& policy) {
          if constexpr (requires { policy.presets(visit); }) policy.presets(visit);
        },
        policy_);
  }

  void use_preset(std::string_view name) {
    const BasicAnyPolicy before = *this;
    bool found = false;
    std::string names;
    before.for_each_preset([&](std::string_view preset, const BasicAnyPolicy& policy) {
      names.append(names.empty() ? "one of " : ", ").append(preset);
      if (preset != name) return;
      *this = policy;
      found = true;
    });
    require(found, detail::joined("preset of ", before.name()), detail::quoted(name),
            names.empty() ? "absent: the policy has none" : std::string_view(names));
  }

  Variant policy_;
};

using AnyPolicy = BasicAnyPolicy<AllPolicies>;

}  // namespace kvevict
