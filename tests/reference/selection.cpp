// SPDX-License-Identifier: Apache-2.0
#include "reference/selection.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

namespace kvevict_test::reference {
namespace {

// True when a is kept before b.
bool better(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a > b;
}

struct Candidate {
  double score;
  std::size_t head;
  std::size_t row;
};

}  // namespace

Rows selection_order(const std::vector<double>& scores) {
  Rows order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&scores](std::size_t a, std::size_t b) {
    return better(scores[a], scores[b]);
  });
  return order;
}

Rows select_top(const std::vector<double>& scores, std::size_t count, const Rows& protected_rows) {
  if (count > scores.size()) throw std::invalid_argument("the budget exceeds the rows");
  if (count < protected_rows.size()) {
    throw std::invalid_argument("the protected rows exceed the budget");
  }
  Rows kept = protected_rows;
  for (const std::size_t row : selection_order(scores)) {
    if (kept.size() == count) break;
    if (std::find(protected_rows.begin(), protected_rows.end(), row) == protected_rows.end()) {
      kept.push_back(row);
    }
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

Rows protected_rows(const Positions& positions, std::int64_t sinks, std::int64_t recent,
                    const std::vector<std::pair<std::int64_t, std::int64_t>>& spans) {
  Rows out;
  const auto rows = static_cast<std::int64_t>(positions.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t position = positions[static_cast<std::size_t>(i)];
    bool keep = position < sinks || i >= rows - recent;
    for (const auto& [first, last] : spans) keep = keep || (position >= first && position < last);
    if (keep) out.push_back(static_cast<std::size_t>(i));
  }
  return out;
}

// 1 - ratio is a decimal fraction 0.c1 c2 c3 ...: multiplying by `rows` from the last digit on,
// nested floors of tenths give the floor of the whole.
std::int64_t exact_kept_rows(std::int64_t rows, double ratio) {
  if (!(ratio >= 0 && ratio <= 1)) throw std::invalid_argument("the ratio is not within [0, 1]");
  if (ratio == 1) return 0;
  char text[1200];
  const auto [end, error] =
      std::to_chars(text, text + sizeof(text), ratio, std::chars_format::fixed);
  if (error != std::errc{}) throw std::logic_error("the ratio does not fit its buffer");
  const std::string digits(text, end);
  const std::size_t point = digits.find('.');
  std::string fraction = point == std::string::npos ? std::string() : digits.substr(point + 1);

  // 10^k - fraction, digit by digit.
  int borrow = 0;
  for (std::size_t i = fraction.size(); i-- > 0;) {
    const int digit = (fraction[i] - '0') + borrow;
    borrow = digit > 0 ? 1 : 0;
    fraction[i] = static_cast<char>('0' + (digit > 0 ? 10 - digit : 0));
  }
  if (borrow == 0) return rows;  // the ratio is 0

  std::int64_t kept = 0;
  for (std::size_t i = fraction.size(); i-- > 0;) kept = (kept + (fraction[i] - '0') * rows) / 10;
  return kept;
}

std::int64_t reference_kept_rows(std::int64_t rows, double ratio) {
  if (ratio >= 1) return 0;
  const auto kept = static_cast<std::int64_t>(static_cast<double>(rows) * (1.0 - ratio));
  return std::min(rows, std::max<std::int64_t>(1, kept));
}

std::vector<Rows> select_global(const Scores& scores, std::size_t total,
                                const std::vector<Rows>& protected_rows, std::size_t floor,
                                std::size_t cap) {
  std::vector<Rows> kept;
  std::vector<Candidate> rest;
  std::size_t count = 0;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    const std::size_t least = std::min(floor, scores[head].size());
    const std::size_t fixed = protected_rows.empty() ? 0 : protected_rows[head].size();
    kept.push_back(select_top(scores[head], std::max(least, fixed),
                              protected_rows.empty() ? Rows() : protected_rows[head]));
    count += kept[head].size();
    for (std::size_t row = 0; row < scores[head].size(); ++row) {
      if (std::find(kept[head].begin(), kept[head].end(), row) == kept[head].end()) {
        rest.push_back({scores[head][row], head, row});
      }
    }
  }
  if (count > total) throw std::invalid_argument("the floors exceed the budget");

  // The candidates are listed by head and row: a stable sort leaves ties in that order.
  std::stable_sort(rest.begin(), rest.end(),
                   [](const Candidate& a, const Candidate& b) { return better(a.score, b.score); });
  for (const Candidate& candidate : rest) {
    if (count == total) break;
    if (kept[candidate.head].size() >= cap) continue;
    kept[candidate.head].push_back(candidate.row);
    ++count;
  }
  if (count != total) throw std::invalid_argument("the caps cannot hold the budget");
  for (Rows& rows : kept) std::sort(rows.begin(), rows.end());
  return kept;
}

}  // namespace kvevict_test::reference
