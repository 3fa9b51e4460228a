// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace demo {

/// One eviction and what it cost.
struct Row {
  std::string policy;
  std::string budget;
  std::string refit;
  double evict_ratio = 0.0;
  std::int64_t rows_before = 0;
  std::int64_t rows_after = 0;
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
  double evict_ms = 0.0;
  double refit_ms = 0.0;  ///< part of evict_ms
  double attention_output_error = 0.0;
  double mean_kl = 0.0;
  double top1_agreement = 0.0;
  bool incomparable = false;  ///< a global budget over scores that were not made for it
};

/// Means over the first and over the last tokens generated.
struct FirstAndLast {
  double first = 0.0;
  double last = 0.0;
};

/// One sequence under a limit and what it cost.
struct DecodeRow {
  std::string policy;
  std::int64_t tokens_seen = 0;
  std::int64_t most_rows = 0;    ///< that any head held
  std::int64_t most_bytes = 0;   ///< that the cache took
  std::int64_t state_bytes = 0;  ///< of what was collected beside it, as saved
  std::int64_t in_step = 0;      ///< sequences that were fed together
  std::int64_t timed = 0;        ///< generated tokens that each time is a mean of
  FirstAndLast step_ms;          ///< a token of each of the sequences in step
  FirstAndLast evictor_ms;       ///< of it, the eviction in this sequence and its evidence
  double loss = 0.0;             ///< nats per token of the text read
  double generated_loss = NAN;   ///< of what it wrote, by the model with the whole cache; or NaN
};

void print_header(std::ostream& out);
void print_row(std::ostream& out, const Row& row);
void print_decode_header(std::ostream& out);
void print_row(std::ostream& out, const DecodeRow& row);
/// How long the steps took in which a sequence went on with others.
void print_steps(std::ostream& out, const DecodeRow& row);

/// An array of objects, one for each row. Throws std::runtime_error when the file cannot be
/// written.
void write_json(const std::string& path, const std::vector<Row>& rows);
void write_json(const std::string& path, const std::vector<DecodeRow>& rows);

/// Text with line breaks shown, so that a generated line stays one line.
std::string one_line(const std::string& text);

}  // namespace demo
