// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "policies/test_policies.hpp"

namespace kvevict_test {

// A policy with a name for the log: "Jacap covariance=full".
struct PolicyVariant {
  std::string name;
  TestPolicy policy;
};

// Every policy of the library with its defaults, then with each value of each of its enumerations,
// booleans and noises, one at a time, then with each of its presets. Of those only some where
// `case_runs` says so.
std::vector<PolicyVariant> policy_variants();

// The defaults alone, for what takes long.
std::vector<PolicyVariant> default_policies();

// All variants on the CPU, the defaults on a device, which would take minutes under emulation.
std::vector<PolicyVariant> variants_for_backend();

// The documented exceptions. A new policy is held to every promise until it is named here.

// Scores that depend on the number of the head among those given.
bool keyed_by_head_number(const TestPolicy& policy);
// Scores that depend on where a row stands among the others, not only on what it holds.
bool uses_order_of_rows(const TestPolicy& policy);
// Scores that depend on positions themselves, not only on their order and distances.
bool uses_absolute_positions(const TestPolicy& policy);
// Takes the best of the evidence that is given, so that its needs do not list it.
bool chooses_its_evidence(const TestPolicy& policy);

}  // namespace kvevict_test
