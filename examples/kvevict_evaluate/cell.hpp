// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace evaluate {

/// What is known of an answer after an eviction.
struct AnswerResult {
  double depth = 0.0;            ///< of its evidence, as a share of the context
  double log_probability = 0.0;  ///< nats for each token
  double survival = 0.0;         ///< share of the heads that kept all rows of its evidence

  friend bool operator==(const AnswerResult&, const AnswerResult&) = default;
};

/// One eviction of one context, and what is left after it. The first members name it.
struct Cell {
  std::string model;
  std::string context;
  std::string kind;
  std::string use;
  std::string checksum;
  std::string queries;  ///< agnostic: the question comes after the eviction; aware: before it
  std::string policy;   ///< label of the method; full: nothing evicted
  std::string budget;   ///< uniform, global
  std::string refit;    ///< none, values, absorbed
  std::int64_t sinks = 0;
  std::int64_t recent = 0;
  double evict_ratio = 0.0;

  std::int64_t rows_before = 0;
  std::int64_t rows_after = 0;
  std::int64_t incomparable = 0;  ///< 1: a global budget over scores that were not made for it
  double evict_ms = 0.0;
  double refit_ms = 0.0;  ///< part of evict_ms
  double error = 0.0;     ///< of attention outputs, see demo::Distance
  double mean_kl = 0.0;
  double kl_99 = 0.0;
  double top1 = 0.0;
  double loss = 0.0;  ///< nats for each token of the continuation
  std::string kept;   ///< positions left in the first KV head of the middle layer: 0-3;8;20-31
  std::vector<AnswerResult> answers;

  friend bool operator==(const Cell&, const Cell&) = default;

  bool is_full() const { return policy == "full"; }
};

/// The text that tells a cell from all others.
std::string key_of(const Cell& cell);

/// A table in text, a cell in each line: comma-separated, lists separated by semicolons.
std::string csv_header();
std::string csv_line(const Cell& cell);
/// A line of such a table. Throws std::runtime_error for a line that is not one.
Cell parse_csv_line(std::string_view line);

/// An object of JSON.
std::string json_object(const Cell& cell);

}  // namespace evaluate
