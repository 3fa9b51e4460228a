// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <kvevict/any_policy.hpp>

#include "model_eviction/eviction.hpp"

namespace demo {

/// What the command line says.
struct Options {
  std::vector<kvevict::AnyPolicy> policies;  ///< parameters set
  std::vector<double> evict_ratios = {0.5, 0.75, 0.9};
  std::vector<BudgetKind> budgets = {BudgetKind::uniform, BudgetKind::global};
  std::vector<RefitKind> refits = {RefitKind::none};
  kvevict::FutureProbesOptions probes = {};  ///< next_position is the context's end
  std::int64_t sinks = 4;
  std::int64_t recent = 32;
  std::int64_t context = 2000;
  std::int64_t continuation = 256;
  std::int64_t generate = 32;
  std::int64_t decode_limit = 0;  ///< rows of a head while decoding; 0: the table of evictions
  std::int64_t slack = 16;        ///< with decode_limit: rows that an eviction makes room for
  double temperature = 0.0;       ///< with decode_limit: of the text generated; 0: greedy
  std::string save;               ///< with decode_limit: file for the state at the end
  std::string resume;             ///< with decode_limit: file to go on from
  int threads = 0;                ///< 0: one for each hardware thread
  bool half_rows = false;
  std::string text;
  std::string model;
  std::string json;
  bool help = false;
};

/// Thrown for a command line that cannot be read; the message says what is wrong and what is valid.
struct UsageError {
  std::string message;
};

/// Reads the arguments after the program's name. Throws UsageError.
Options parse_options(const std::vector<std::string>& arguments);

std::string usage_text();

}  // namespace demo
