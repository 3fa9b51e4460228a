// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/linear.hpp"
#include "reference/policies.hpp"

namespace kvevict_test::reference {
namespace {

// log(exp(a) + exp(b)) without overflow; minus infinity stands for 0.
double log_add(double a, double b) {
  const double larger = std::max(a, b);
  if (std::isinf(larger) && larger < 0) return larger;
  return larger + std::log(std::exp(a - larger) + std::exp(b - larger));
}

double log_of(double x) { return x > 0 ? std::log(x) : -std::numeric_limits<double>::infinity(); }

double log_reduce(const std::vector<double>& logs, Reduction reduction) {
  double out = -std::numeric_limits<double>::infinity();
  for (const double value : logs) {
    out = reduction == Reduction::max ? std::max(out, value) : log_add(out, value);
  }
  return reduction == Reduction::mean ? out - std::log(static_cast<double>(logs.size())) : out;
}

// The norm that multiplies the attention of one query head, for every row.
std::vector<double> value_norms(ValueNorm value_norm, const Inputs& inputs,
                                std::size_t query_head) {
  const Matrix& values = inputs.values[query_head / inputs.group()];
  std::vector<double> out(values.rows, 1.0);
  if (value_norm == ValueNorm::none) return out;
  const bool projected = value_norm == ValueNorm::output_projection;
  const Matrix u = projected ? projected_values(inputs, query_head) : values;
  for (std::size_t i = 0; i < u.rows; ++i) out[i] = norm(&u.data[i * u.cols], u.cols);
  return out;
}

// z - log sum exp z over the rows from skip_first on: the logarithm of their attention.
std::vector<double> log_attention(const ExpectedAttention& policy, const Inputs& inputs,
                                  std::size_t query_head) {
  const Matrix& keys = inputs.keys[query_head / inputs.group()];
  std::vector<double> z = logits(inputs.stats.mean[query_head].data(), keys, 1);
  if (policy.covariance != Covariance::none) {
    const std::vector<double> square =
        quadratic_form(keys, inputs.stats.covariance[query_head], policy.covariance);
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] += square[i] / (2 * static_cast<double>(keys.cols));
    }
  }
  double total = -std::numeric_limits<double>::infinity();
  for (std::size_t i = policy.skip_first; i < z.size(); ++i) total = log_add(total, z[i]);
  for (double& value : z) value -= total;
  return z;
}

}  // namespace

Scores score(const SnapKV& policy, const Inputs& inputs) {
  const Positions query_positions = inputs.positions_of_queries();
  const std::size_t window = std::min(policy.window, query_positions.size());
  if (window == 0) throw std::invalid_argument("the query window is empty");
  const std::size_t first_query = query_positions.size() - window;
  const Positions window_positions(
      query_positions.begin() + static_cast<std::ptrdiff_t>(first_query), query_positions.end());
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const Matrix& keys = inputs.keys[g];
    const Positions rows = inputs.positions_of_rows(g);
    std::size_t prefix = 0;
    while (prefix < keys.rows && rows[prefix] < window_positions.front()) ++prefix;

    std::vector<std::vector<double>> per_head;
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      const Matrix& all = inputs.queries[g * inputs.group() + r];
      Matrix queries(window, all.cols);
      std::copy(all.data.begin() + static_cast<std::ptrdiff_t>(first_query * all.cols),
                all.data.end(), queries.data.begin());
      const Matrix weights = causal_attention(queries, window_positions, keys, rows);
      std::vector<double> received(prefix, 0.0);
      for (std::size_t i = 0; i < prefix; ++i) {
        for (std::size_t q = 0; q < window; ++q) {
          received[i] += weights(q, i) / static_cast<double>(window);
        }
      }
      per_head.push_back(pool(received, policy.kernel, policy.pooling, policy.count_padding));
    }
    std::vector<double> head = reduce(per_head, policy.reduction);
    const double largest = head.empty() ? 0 : *std::max_element(head.begin(), head.end());
    head.resize(keys.rows, largest);
    out.push_back(head);
  }
  return out;
}

Scores score(const ProbeAttention& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    std::vector<double> score(inputs.keys[g].rows, 0.0);
    std::size_t count = 0;
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      const std::size_t head = g * inputs.group() + r;
      const Matrix weights = probe_weights(inputs, head);
      const std::vector<double> norms = value_norms(policy.value_norm, inputs, head);
      count += weights.rows;
      for (std::size_t q = 0; q < weights.rows; ++q) {
        for (std::size_t i = 0; i < weights.cols; ++i) {
          const double p = weights(q, i) * norms[i];
          if (policy.statistic == ProbeStatistic::mean) score[i] += p;
          if (policy.statistic == ProbeStatistic::rms) score[i] += p * p;
          if (policy.statistic == ProbeStatistic::max) score[i] = std::max(score[i], p);
        }
      }
    }
    for (double& value : score) {
      if (policy.statistic == ProbeStatistic::mean) value /= static_cast<double>(count);
      if (policy.statistic == ProbeStatistic::rms) {
        value = std::sqrt(value / static_cast<double>(count));
      }
    }
    out.push_back(score);
  }
  return out;
}

Scores score(const DropLoss& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const std::size_t rows = inputs.keys[g].rows;
    std::vector<double> squares(rows, 0.0);
    std::size_t count = 0;
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      const std::size_t head = g * inputs.group() + r;
      const Matrix weights = probe_weights(inputs, head);
      const Matrix u = policy.output_projection ? projected_values(inputs, head) : inputs.values[g];
      count += weights.rows;
      for (std::size_t q = 0; q < weights.rows; ++q) {
        // Weights and weighted values of the rows before each and of those behind it: what is left
        // without the row, with no difference of nearly equal numbers.
        Matrix before(rows + 1, u.cols + 1);
        Matrix behind(rows + 1, u.cols + 1);
        const auto entry = [&](std::size_t i, std::size_t c) {
          return weights(q, i) * (c < u.cols ? u(i, c) : 1.0);
        };
        for (std::size_t c = 0; c <= u.cols; ++c) {
          for (std::size_t i = 0; i < rows; ++i) before(i + 1, c) = before(i, c) + entry(i, c);
          for (std::size_t i = rows; i > 0; --i) behind(i - 1, c) = behind(i, c) + entry(i - 1, c);
        }
        for (std::size_t i = 0; i < rows; ++i) {
          const double left = before(i, u.cols) + behind(i + 1, u.cols);
          for (std::size_t c = 0; c < u.cols; ++c) {
            // Weights sum to one, or to nothing.
            const double without = left > 0 ? (before(i, c) + behind(i + 1, c)) / left : 0.0;
            const double moved = weights(q, i) * (u(i, c) - without);
            squares[i] += moved * moved;
          }
        }
      }
    }
    for (double& value : squares) value = std::sqrt(value / static_cast<double>(count));
    out.push_back(squares);
  }
  return out;
}

Scores score(const RKV& policy, const Inputs& inputs) {
  SnapKV importance;
  importance.window = policy.window;
  importance.kernel = policy.kernel;
  importance.pooling = Pooling::max;
  importance.reduction = policy.reduction;
  Scores out = score(importance, inputs);
  const Positions queries = inputs.positions_of_queries();
  const std::int64_t bound = queries[queries.size() - std::min(policy.window, queries.size())];
  for (std::size_t g = 0; g < out.size(); ++g) {
    const Matrix& keys = inputs.keys[g];
    const std::vector<double> redundancy = softmax(mean_similarity(keys, policy.threshold));
    const Positions rows = inputs.positions_of_rows(g);
    double largest = 0;
    std::size_t prefix = 0;
    for (; prefix < keys.rows && rows[prefix] < bound; ++prefix) {
      double& value = out[g][prefix];
      value = policy.lambda * value - (1 - policy.lambda) * redundancy[prefix];
      if (prefix == 0 || value > largest) largest = value;
    }
    std::fill(out[g].begin() + static_cast<std::ptrdiff_t>(prefix), out[g].end(), largest);
  }
  return out;
}

Scores score(const ExpectedAttention& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const std::size_t rows = inputs.keys[g].rows;
    double epsilon =
        policy.epsilon_per_row ? policy.epsilon / static_cast<double>(rows) : policy.epsilon;
    if (policy.value_norm == ValueNorm::none) epsilon = 0;
    std::vector<std::vector<double>> logs;
    std::vector<std::vector<double>> norms;
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      logs.push_back(log_attention(policy, inputs, g * inputs.group() + r));
      norms.push_back(value_norms(policy.value_norm, inputs, g * inputs.group() + r));
    }
    const bool norm_of_each_head = policy.value_norm == ValueNorm::output_projection;
    std::vector<double> head(rows, 0.0);
    for (std::size_t i = policy.skip_first; i < rows; ++i) {
      std::vector<double> parts;
      for (std::size_t r = 0; r < inputs.group(); ++r) {
        parts.push_back(norm_of_each_head
                            ? log_add(logs[r][i], log_of(epsilon)) + log_of(norms[r][i])
                            : logs[r][i]);
      }
      double log_score = log_reduce(parts, policy.reduction);
      if (!norm_of_each_head) log_score = log_add(log_score, log_of(epsilon)) + log_of(norms[0][i]);
      head[i] = policy.log_domain ? log_score : std::exp(log_score);
    }
    raise_first(head, policy.skip_first);
    out.push_back(head);
  }
  return out;
}

}  // namespace kvevict_test::reference
