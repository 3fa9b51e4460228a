// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "command_line/option_table.hpp"
#include "kvevict/core/budget.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/math/rope.hpp"

namespace kvevict_score {

using command_line::UsageError;

/// Whether queries come from before or after the rotary embedding.
enum class QueryFrame { pre_rope, post_rope };

inline std::span<const kvevict::EnumName<QueryFrame>> enum_names(QueryFrame) {
  static constexpr kvevict::EnumName<QueryFrame> names[] = {{QueryFrame::pre_rope, "pre_rope"},
                                                            {QueryFrame::post_rope, "post_rope"}};
  return names;
}

/// Whether every head keeps its own share, or one threshold serves all heads.
enum class BudgetScope { uniform, global };

inline std::span<const kvevict::EnumName<BudgetScope>> enum_names(BudgetScope) {
  static constexpr kvevict::EnumName<BudgetScope> names[] = {{BudgetScope::uniform, "uniform"},
                                                             {BudgetScope::global, "global"}};
  return names;
}

/// The command line. Empty file names and unset optionals were not given.
struct Options {
  std::string policy;
  std::vector<std::string> settings;  ///< "name=value" of the policy's parameters

  std::string keys;
  std::string values;
  std::string keys_pre_rope;
  std::string queries;
  std::optional<QueryFrame> queries_are;
  std::string output_projection;
  std::string probes;
  std::string query_filter;
  kvevict::ProbeMask probe_mask = kvevict::ProbeMask::none;

  std::optional<double> rope_theta;
  std::optional<kvevict::RopePairing> rope_pairing;
  std::int64_t rope_dim = -1;
  std::optional<std::int64_t> next_position;
  std::optional<std::int64_t> stats_window;
  std::int64_t skip_queries = 4;
  std::int64_t future = 512;
  std::int64_t probe_last = 128;
  std::int64_t probe_sampled = 64;
  std::int64_t probe_future = 256;
  std::uint64_t probe_seed = 0;

  std::optional<double> evict_ratio;
  std::optional<std::int64_t> keep_rows;
  std::optional<std::int64_t> keep_bytes;
  kvevict::Rounding rounding = kvevict::Rounding::exact;
  BudgetScope scope = BudgetScope::uniform;
  bool allow_incomparable = false;
  std::int64_t sinks = 0;
  std::int64_t recent = 0;

  std::string scores;
  std::string kept;
  int threads = 0;
  bool list_policies = false;
  bool help = false;

  /// The budget that was asked for, if any.
  std::optional<kvevict::Budget> budget() const;
};

/// Parses the arguments behind the program's name, `--name value` or `--name=value`. Throws
/// UsageError for an unknown option (listing the known ones), a missing value, and options that are
/// missing or contradict each other, kvevict::Error for a value that is not what its option takes.
Options parse_options(const std::vector<std::string>& arguments);

/// The text of --help.
std::string help_text();

}  // namespace kvevict_score
