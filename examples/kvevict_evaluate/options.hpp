// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "choices.hpp"
#include "command_line/option_table.hpp"
#include "context_list.hpp"
#include "method.hpp"

namespace evaluate {

using UsageError = command_line::UsageError;

/// What the command line says.
struct Options {
  std::string model;
  std::string list;                   ///< of contexts
  std::string texts = ".";            ///< folder of the texts
  std::string out;                    ///< folder of results
  std::string store;                  ///< folder of prefills; empty: "prefills" in `out`
  std::vector<std::string> contexts;  ///< names; none: all of the list
  std::optional<Use> use;             ///< only these
  std::string policies = "all";
  std::vector<double> evict_ratios = {0.5, 0.75, 0.9, 0.95};
  std::vector<BudgetChoice> budgets = {{demo::BudgetKind::uniform}, {demo::BudgetKind::global}};
  std::vector<RefitChoice> refits = {{}};
  std::vector<kvevict::Protect> protections = {{.sinks = 4, .recent = 32}};
  bool agnostic = true;
  bool aware = false;
  bool by_use = false;  ///< the summary tells contexts for tuning from those for confirming
  bool gate = false;
  int threads = 0;  ///< 0: one for each hardware thread
  bool help = false;
};

/// Reads the arguments after the program's name. Throws UsageError, or kvevict::Error for a value.
Options parse_options(const std::vector<std::string>& arguments);

std::string help_text();

}  // namespace evaluate
