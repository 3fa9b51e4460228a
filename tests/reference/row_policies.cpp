// SPDX-License-Identifier: Apache-2.0
// Policies that cut rows into pieces by their order, or read one vector for each head.
#include <algorithm>
#include <cmath>

#include "reference/attention.hpp"
#include "reference/linear.hpp"
#include "reference/policies.hpp"

namespace kvevict_test::reference {
namespace {

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Softmax over the rows [first, first + lag) of their deviation in units of the next partition.
std::vector<double> lag_importance(const Matrix& rows, std::size_t first, std::size_t lag) {
  std::vector<double> deviations;
  for (std::size_t i = first; i < first + lag; ++i) {
    std::vector<double> scaled;
    for (std::size_t c = 0; c < rows.cols; ++c) {
      double low = rows(first + lag, c);
      double high = low;
      for (std::size_t j = first + lag; j < first + 2 * lag; ++j) {
        low = std::min(low, rows(j, c));
        high = std::max(high, rows(j, c));
      }
      if (high > low) scaled.push_back((rows(i, c) - low) / (high - low));
    }
    deviations.push_back(standard_deviation(scaled));
  }
  return softmax(deviations);
}

void rank_partition(std::vector<double>& scores) {
  const std::vector<double> importance = scores;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    double worse = 0;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (importance[j] < importance[i] || (importance[j] == importance[i] && j > i)) ++worse;
    }
    scores[i] = worse / static_cast<double>(scores.size());
  }
}

std::vector<double> shares_of_squares(const Matrix& rows, std::size_t window) {
  std::vector<double> squares;
  for (std::size_t i = 0; i < rows.rows; ++i) {
    squares.push_back(dot(&rows.data[i * rows.cols], &rows.data[i * rows.cols], rows.cols));
  }
  const std::size_t step = window == 0 ? std::max<std::size_t>(rows.rows, 1) : window;
  std::vector<double> out;
  for (std::size_t i = 0; i < rows.rows; ++i) {
    const std::size_t begin = i / step * step;
    double sum = 0;
    for (std::size_t j = begin; j < std::min(begin + step, rows.rows); ++j) sum += squares[j];
    out.push_back(sum == 0 ? 0 : squares[i] / sum);
  }
  return out;
}

}  // namespace

Scores score(const TOVA& policy, const Inputs& inputs) {
  const Positions positions = {inputs.positions_of_queries().back()};
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const Matrix& keys = inputs.keys[g];
    std::vector<std::vector<double>> per_head;
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      const Matrix& all = inputs.queries[g * inputs.group() + r];
      Matrix last(1, all.cols);
      last.data.assign(all.data.end() - static_cast<std::ptrdiff_t>(all.cols), all.data.end());
      per_head.push_back(causal_attention(last, positions, keys, inputs.positions_of_rows(g)).data);
      per_head.back().resize(keys.rows);
    }
    out.push_back(reduce(per_head, policy.reduction));
  }
  return out;
}

Scores score(const LayerTOVA&, const Inputs& inputs) {
  Scores out = score(TOVA{}, inputs);
  const std::vector<double> mean = reduce(out, Reduction::mean);
  for (std::vector<double>& head : out) head = mean;
  return out;
}

Scores score(const LagKV& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const std::size_t rows = inputs.keys[g].rows;
    std::vector<double> head(rows, 0.0);
    if (rows < policy.skip_first + 2 * policy.lag) {
      for (std::size_t i = policy.skip_first; i < rows; ++i) {
        head[i] = static_cast<double>(i - policy.skip_first) /
                  static_cast<double>(rows - policy.skip_first);
      }
      raise_first(head, policy.skip_first);
      out.push_back(head);
      continue;
    }
    std::size_t first = policy.skip_first;
    double largest = 0;
    for (; first + 2 * policy.lag <= rows; first += policy.lag) {
      const std::vector<double> keys = lag_importance(inputs.keys[g], first, policy.lag);
      const std::vector<double> values = lag_importance(inputs.values[g], first, policy.lag);
      std::vector<double> scores;
      for (std::size_t i = 0; i < policy.lag; ++i) scores.push_back((keys[i] + values[i]) / 2);
      if (!policy.cross_scoring) rank_partition(scores);
      std::copy(scores.begin(), scores.end(), head.begin() + static_cast<std::ptrdiff_t>(first));
      largest = std::max(largest, *std::max_element(scores.begin(), scores.end()));
    }
    for (std::size_t i = 0; i < rows; ++i) {
      if (i < policy.skip_first || i >= first) head[i] = largest;
    }
    out.push_back(head);
  }
  return out;
}

Scores score(const QFilter&, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const Matrix& keys = inputs.keys[g];
    std::vector<double> head;
    for (std::size_t i = 0; i < keys.rows; ++i) {
      head.push_back(
          -dot(&inputs.query_filter.data[g * keys.cols], &keys.data[i * keys.cols], keys.cols));
    }
    out.push_back(head);
  }
  return out;
}

Scores score(const CurDKV& policy, const Inputs& inputs) {
  using Leverage = CurDKV::Leverage;
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const std::vector<double> keys = shares_of_squares(inputs.keys[g], policy.window);
    const std::vector<double> values = shares_of_squares(inputs.values[g], policy.window);
    std::vector<double> head;
    double sum = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      head.push_back(policy.leverage == Leverage::key       ? keys[i]
                     : policy.leverage == Leverage::value   ? values[i]
                     : policy.leverage == Leverage::average ? (keys[i] + values[i]) / 2
                                                            : keys[i] * values[i]);
      sum += head.back();
    }
    for (double& value : head) value = sum == 0 ? 0 : value / sum;
    raise_first(head, policy.skip_first);
    out.push_back(head);
  }
  return out;
}

}  // namespace kvevict_test::reference
