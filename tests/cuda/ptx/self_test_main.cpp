// SPDX-License-Identifier: Apache-2.0
// Programs built by nvcc and run by the emulator: what they compute is compared with the host, and
// each seeded defect must be reported. An argument selects one group of checks.
#include <cstdio>
#include <cstring>
#include <exception>

#include "self_test.hpp"

namespace ptx_test {

void Report::expect(bool holds, const std::string& what) {
  ++checks_;
  if (holds) return;
  ++failures_;
  constexpr int most_printed = 50;
  if (failures_ <= most_printed) std::printf("FAILED: %s\n", what.c_str());
}

namespace {

struct Group {
  const char* name;
  void (*check)(Report&);
};

constexpr Group groups[] = {{"integers", &check_integers},
                            {"bits", &check_bits},
                            {"floats", &check_floats},
                            {"functions", &check_functions},
                            {"conversions", &check_conversions},
                            {"memory", &check_memory},
                            {"calls", &check_calls},
                            {"atomics", &check_atomics},
                            {"warps", &check_warps},
                            {"blocks", &check_blocks},
                            {"defects", &check_defects}};

int check_groups(const char* only) {
  Report report;
  for (const Group& group : groups) {
    if (only != nullptr && std::strcmp(only, group.name) != 0) continue;
    const int before = report.checks();
    try {
      group.check(report);
    } catch (const std::exception& error) {
      report.expect(false, std::string(group.name) + ": " + error.what());
    }
    std::printf("%-12s %d checks\n", group.name, report.checks() - before);
  }
  std::printf("%d checks, %d failed\n", report.checks(), report.failures());
  return report.failures() == 0 && report.checks() > 0 ? 0 : 1;
}

}  // namespace
}  // namespace ptx_test

int main(int count, char** arguments) {
  return ptx_test::check_groups(count > 1 ? arguments[1] : nullptr);
}
