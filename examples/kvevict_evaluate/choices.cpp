// SPDX-License-Identifier: Apache-2.0
#include "choices.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "text_list.hpp"

namespace evaluate {
namespace {

/// visit(name, field) of what a label can set.
template <class Options, class Visit>
void for_each_strength(Options& options, Visit&& visit) {
  visit("ridge", options.ridge);
  visit("mass_ridge", options.mass_ridge);
  visit("weight_floor", options.weight_floor);
  visit("direction_ridge", options.direction_ridge);
  visit("largest_spread", options.largest_spread);
  visit("check_every", options.check_every);
}

/// Calls set(parameter, value) for each assignment behind the first part; false says that there is
/// no such parameter.
template <class Set>
void read_assignments(std::string_view name, const std::vector<std::string>& parts, Set&& set) {
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    const std::size_t equals = std::min(part->find('='), part->size());
    const std::size_t value = std::min(equals + 1, part->size());
    kvevict::require(set(part->substr(0, equals), part->substr(value)), name, *part,
                     "PARAMETER=VALUE of one that it has");
  }
}

template <class Kind>
Kind kind_of(std::string_view name, const std::string& text, std::initializer_list<Kind> kinds,
             std::string_view names) {
  for (const Kind kind : kinds) {
    if (text == demo::name_of(kind)) return kind;
  }
  throw kvevict::Error(kvevict::ErrorKind::invalid_argument, name, text, names);
}

}  // namespace

BudgetChoice parse_budget(std::string_view name, std::string_view text) {
  using demo::BudgetKind;
  const std::vector<std::string> parts = split(text, '/');
  BudgetChoice choice;
  choice.kind =
      kind_of(name, parts.front(), {BudgetKind::uniform, BudgetKind::global}, "of uniform, global");
  read_assignments(name, parts, [&](const std::string& parameter, const std::string& value) {
    if (choice.kind != BudgetKind::global || parameter != "floor") return false;
    kvevict::parse_parameter(name, value, choice.floor);
    kvevict::require(choice.floor >= 0.0 && choice.floor <= 1.0, name, choice.floor, "in [0, 1]");
    return true;
  });
  return choice;
}

RefitChoice parse_refit(std::string_view name, std::string_view text) {
  using demo::RefitKind;
  const std::vector<std::string> parts = split(text, '/');
  RefitChoice choice;
  choice.kind =
      kind_of(name, parts.front(), {RefitKind::none, RefitKind::values, RefitKind::absorbed},
              "of none, values, absorbed");
  read_assignments(name, parts, [&](const std::string& parameter, const std::string& value) {
    bool found = false;
    for_each_strength(choice.options, [&](std::string_view strength, auto& field) {
      if (choice.kind == RefitKind::none || parameter != strength) return;
      kvevict::parse_parameter(name, value, field);
      found = true;
    });
    return found;
  });
  return choice;
}

std::string budget_label(const demo::EvictionPlan& plan) {
  std::string label(demo::name_of(plan.budget));
  if (plan.floor != 0.0) label += "/floor=" + kvevict::format_parameter(plan.floor);
  return label;
}

std::string refit_label(const demo::EvictionPlan& plan) {
  std::vector<std::string> usual;
  const kvevict::RefitOptions defaults;
  for_each_strength(defaults, [&](std::string_view, const auto& field) {
    usual.push_back(kvevict::format_parameter(field));
  });
  std::string label(demo::name_of(plan.refit));
  std::size_t i = 0;
  for_each_strength(plan.refitting, [&](std::string_view strength, const auto& field) {
    const std::string value = kvevict::format_parameter(field);
    if (value != usual[i++]) label.append("/").append(strength).append("=").append(value);
  });
  return label;
}

}  // namespace evaluate
