// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reference/types.hpp"
#include "support/golden.hpp"
#include "support/tolerance.hpp"

namespace kvevict_test {

// Families of the policy tests. Both are relative to the largest score of the head: selection
// compares scores of one head with each other, and an error far below the largest cannot change
// what is kept by more than a near tie.

// Norms, cosines and attention weights: sums in fp32 of up to a few hundred products, and
// exponentials of logits up to about 30, whose fp32 error 30 * 2^-24 is relative in the weight.
inline constexpr Tolerance attention_score{1e-5, 1e-6};

// Behind a factorisation: the promise is 1e-4 relative to the double-precision score.
inline constexpr Tolerance capacity_score{1e-4, 1e-6};

// A set of inputs with a name for the log.
struct NamedInputs {
  std::string name;
  reference::Inputs inputs;
};

// Random inputs that differ in everything a loop could get wrong: 1 to 5 heads, ragged, empty and
// single rows, groups of 1 to 4, dimensions 4 to 80, odd ones and values of another dimension than
// keys, tails of register and row tiles (130, 300 rows), positions with holes, masked probes. Made
// once.
const std::vector<NamedInputs>& varied_inputs();

// The library's scores of the named policy against the double-precision loops, every head:
// |got - want| <= rel |want| + abs (largest |want| of the head).
Comparison compare_with_reference(const std::string& policy, const Pairs& parameters,
                                  const reference::Inputs& inputs, Tolerance tolerance);

// The same for all varied inputs, with Catch2 checks that name the inputs. Returns the largest use
// of the tolerance.
double check_varied(const std::string& policy, const Pairs& parameters, Tolerance tolerance);

}  // namespace kvevict_test
