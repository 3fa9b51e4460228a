// SPDX-License-Identifier: Apache-2.0
#include "selection_compare.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace kvevict_test {
namespace {

std::string check_set(std::span<const std::int32_t> rows, std::size_t count,
                      const std::string& name) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || static_cast<std::size_t>(rows[i]) >= count) {
      return name + " holds row " + std::to_string(rows[i]) + " of " + std::to_string(count);
    }
    if (i > 0 && rows[i] <= rows[i - 1]) {
      return name + " is not ascending at " + std::to_string(i);
    }
  }
  return {};
}

std::vector<std::int64_t> difference(std::span<const std::int32_t> a,
                                     std::span<const std::int32_t> b) {
  std::vector<std::int64_t> rows;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rows));
  return rows;
}

// NaN ranks below everything; it is mapped there because it cannot be sorted.
std::vector<double> sorted_scores(const std::vector<std::int64_t>& rows,
                                  std::span<const float> scores, std::int64_t& nan_count) {
  std::vector<double> values;
  for (const std::int64_t row : rows) {
    const double score = scores[static_cast<std::size_t>(row)];
    if (std::isnan(score)) {
      ++nan_count;
    } else {
      values.push_back(score);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

SelectionDifference compare_selection(std::span<const std::int32_t> got,
                                      std::span<const std::int32_t> want,
                                      std::span<const float> scores) {
  SelectionDifference result;
  result.problem = check_set(got, scores.size(), "the first set");
  if (result.problem.empty()) result.problem = check_set(want, scores.size(), "the second set");
  if (!result.problem.empty()) return result;

  result.only_got = difference(got, want);
  result.only_want = difference(want, got);
  if (got.size() != want.size()) {
    result.problem = "sizes " + std::to_string(got.size()) + " and " + std::to_string(want.size());
    return result;
  }
  std::int64_t nan_got = 0;
  std::int64_t nan_want = 0;
  const std::vector<double> a = sorted_scores(result.only_got, scores, nan_got);
  const std::vector<double> b = sorted_scores(result.only_want, scores, nan_want);
  if (nan_got != nan_want || a != b) {
    result.problem = std::to_string(result.only_got.size()) +
                     " rows differ that do not tie, from " +
                     std::to_string(std::min(result.only_got.front(), result.only_want.front()));
  }
  return result;
}

}  // namespace kvevict_test
