// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "summary.hpp"

namespace evaluate {

/// How much of the way from Random's error to the Oracle's an attention-aware policy must go, what
/// share of an error a refit may leave, and how far the Oracle may lie above a policy. Far from
/// what is measured (0.6 and more, 0.7, and below all others), so that only a fault crosses them.
inline constexpr double least_recovered = 0.25;
inline constexpr double most_after_refit = 0.9;
inline constexpr double most_above = 1.02;

/// What contradicts the order that is certain, a sentence each; none if all is well. In every group
/// of rows of texts or tasks with the same queries, protection and ratio, by the errors of
/// attention outputs: SnapKV and ProbeAttention beat Random, refitted ProbeAttention beats the same
/// without, and no policy beats the Oracle, which sees the queries to come, at the same budget of
/// each head and without a refit. Rows that this needs and that are missing contradict it too.
std::vector<std::string> contradictions(std::span<const SummaryRow> rows);

}  // namespace evaluate
