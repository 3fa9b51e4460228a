// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ptx_test {

/// Counts checks and prints those that fail.
class Report {
 public:
  void expect(bool holds, const std::string& what);
  int checks() const { return checks_; }
  int failures() const { return failures_; }

 private:
  int checks_ = 0;
  int failures_ = 0;
};

// One for each .cu file.
void check_integers(Report& report);
void check_bits(Report& report);
void check_floats(Report& report);
void check_functions(Report& report);
void check_conversions(Report& report);
void check_memory(Report& report);
void check_calls(Report& report);
void check_atomics(Report& report);
void check_warps(Report& report);
void check_blocks(Report& report);
void check_defects(Report& report);

}  // namespace ptx_test
