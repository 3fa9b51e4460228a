// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reference/types.hpp"
#include "support/golden.hpp"

namespace kvevict_test::reference {

// Scores of a policy chosen by name, with parameters as `name=value` pairs: the spellings of the
// library's any_policy, and the same loops behind every test. Parameters that are not given have
// the defaults of the structures in policies.hpp and h2o.hpp; CapKV's epsilon, sharpness and noise
// follow its form. Names: KNorm, KeyDiff, StreamingLLM, SnapKV, H2O, ExpectedAttention, Jacap,
// CapKV, TOVA, LagKV, QFilter, CurDKV, NonCausalAttention, LeverageScore, Compactor, RKV,
// ProbeAttention, DropLoss, SketchedLeverage, and LayerTOVA, LayerNonCausalAttention,
// LayerCompactor: kvpress' forms that look at all heads of a layer. Throws std::invalid_argument on
// an unknown policy, parameter or value.
Scores score(const std::string& policy, const Pairs& parameters, const Inputs& inputs);

}  // namespace kvevict_test::reference
