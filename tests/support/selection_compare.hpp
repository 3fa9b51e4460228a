// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvevict_test {

// How two kept sets of one head differ.
struct SelectionDifference {
  std::string problem;                 // empty when the sets agree up to ties
  std::vector<std::int64_t> only_got;  // rows in the first set only, ascending
  std::vector<std::int64_t> only_want;

  bool same() const { return only_got.empty() && only_want.empty() && problem.empty(); }
  bool same_up_to_ties() const { return problem.empty(); }
};

// Compares kept rows by the scores they were chosen by. Each set must be ascending, unique and
// within [0, scores.size()), and both must have the same size. A row that is in one set only is
// forgiven when it ties with the row that stands for it in the other: with both lists of extra rows
// sorted by score, the scores must be equal pair by pair (-0 equals +0, NaN equals NaN). Nothing
// else is forgiven, close scores are not ties.
SelectionDifference compare_selection(std::span<const std::int32_t> got,
                                      std::span<const std::int32_t> want,
                                      std::span<const float> scores);

}  // namespace kvevict_test
