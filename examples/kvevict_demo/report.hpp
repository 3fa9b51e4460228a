// SPDX-License-Identifier: Apache-2.0
#pragma once

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

void print_header(std::ostream& out);
void print_row(std::ostream& out, const Row& row);

/// An array of objects, one for each row. Throws std::runtime_error when the file cannot be
/// written.
void write_json(const std::string& path, const std::vector<Row>& rows);

}  // namespace demo
