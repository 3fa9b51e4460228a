// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace emulator_test {

enum class Orders { every, some };

/// What the run of a defect must print in one configuration; empty if it may go unnoticed there.
struct Expectation {
  const char* text = "";
  Orders orders = Orders::every;
};

struct Defect {
  const char* name;
  void (*run)();
  Expectation plain;
  Expectation address;
  Expectation thread;
};

/// Texts that runs print themselves.
inline constexpr const char* wrong_value = "wrong value";
inline constexpr const char* right_value = "right value";
void judge(bool right);
void print_status(int status);

std::vector<Defect> kernel_defects();
std::vector<Defect> call_defects();

}  // namespace emulator_test
