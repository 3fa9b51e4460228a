// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "reference/linear.hpp"
#include "reference/policies.hpp"

namespace kvevict_test::reference {
namespace {

// a_i (1 - a_i) of one query head's mean query.
std::vector<double> jacobian_of_mean(const Jacap& policy, const Inputs& inputs,
                                     std::size_t query_head) {
  const std::vector<double> z =
      logits(inputs.stats.mean[query_head].data(), inputs.keys[query_head / inputs.group()],
             policy.temperature);
  std::vector<double> out = softmax(z);
  const std::vector<double> others = softmax_complement(z);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= others[i];
  return out;
}

// Mean over the probes of one query head of p (1 - p).
std::vector<double> jacobian_of_probes(const Jacap& policy, const Inputs& inputs,
                                       std::size_t query_head) {
  const Matrix weights = probe_weights(inputs, query_head, policy.temperature);
  std::vector<double> out(weights.cols, 0.0);
  for (std::size_t q = 0; q < weights.rows; ++q) {
    for (std::size_t i = 0; i < weights.cols; ++i) {
      double others = 0;
      for (std::size_t j = 0; j < weights.cols; ++j) {
        if (j != i) others += weights(q, j);
      }
      out[i] += weights(q, i) * others / static_cast<double>(weights.rows);
    }
  }
  return out;
}

// w of one query head from the mean query.
std::vector<double> mean_weights(const Jacap& policy, const Inputs& inputs,
                                 std::size_t query_head) {
  std::vector<double> w = jacobian_of_mean(policy, inputs, query_head);
  for (double& value : w) value *= value;
  if (policy.covariance == Covariance::none) return w;
  const Matrix& keys = inputs.keys[query_head / inputs.group()];
  const std::vector<double> kappa =
      quadratic_form(keys, inputs.stats.covariance[query_head], policy.covariance);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] *= kappa[i] / static_cast<double>(keys.cols);
  return w;
}

std::vector<double> squared(std::vector<double> values) {
  for (double& value : values) value *= value;
  return values;
}

// The rows from `first` on.
Matrix rows_from(const Matrix& a, std::size_t first) {
  Matrix out(a.rows - first, a.cols);
  std::copy(a.data.begin() + static_cast<std::ptrdiff_t>(first * a.cols), a.data.end(),
            out.data.begin());
  return out;
}

// Weights of one query head of CapKV over the given keys.
std::vector<double> alignment_weights(const CapKV& policy, const std::vector<double>& mean,
                                      const Matrix& keys) {
  std::vector<double> z = logits(mean.data(), keys, 1);
  double factor = 1 / policy.temperature;
  if (policy.form == CapKV::Form::reference) {
    factor = policy.sharpness;
    const double length = norm(mean.data(), mean.size());
    for (std::size_t i = 0; i < keys.rows; ++i) {
      const double* key = &keys.data[i * keys.cols];
      const double lengths = length * norm(key, keys.cols);
      z[i] = lengths == 0 ? 0 : dot(mean.data(), key, keys.cols) / lengths;
    }
  }
  const double largest = *std::max_element(z.begin(), z.end());
  for (double& value : z) value = std::exp(factor * (value - largest));
  return z;
}

}  // namespace

Scores score(const Jacap& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const Matrix& values = inputs.values[g];
    if (values.rows == 0) {
      out.emplace_back();
      continue;
    }
    std::vector<std::vector<double>> per_head;
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      const std::size_t h = g * inputs.group() + r;
      per_head.push_back(policy.probes ? jacobian_of_probes(policy, inputs, h)
                                       : mean_weights(policy, inputs, h));
    }
    if (policy.pooled) {
      std::vector<double> w = reduce(per_head, policy.reduction);
      if (policy.probes) w = squared(w);
      const Matrix metric = policy.output_projection ? group_output_metric(inputs, g) : Matrix();
      out.push_back(leverage(values, metric, w, w, policy.noise));
      continue;
    }
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      const std::vector<double> w = policy.probes ? squared(per_head[r]) : per_head[r];
      const Matrix metric =
          policy.output_projection
              ? output_metric(inputs.output_projection, g * inputs.group() + r, values.cols)
              : Matrix();
      per_head[r] = leverage(values, metric, w, w, policy.noise);
    }
    out.push_back(reduce(per_head, policy.reduction));
  }
  return out;
}

Scores score(const CapKV& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const std::size_t rows = inputs.keys[g].rows;
    if (rows <= policy.skip_first) {
      out.emplace_back(rows, 0.0);
      continue;
    }
    const Matrix keys = rows_from(inputs.keys[g], policy.skip_first);
    const Matrix values = rows_from(inputs.values[g], policy.skip_first);
    std::vector<std::vector<double>> weights;
    std::vector<std::vector<double>> matrix_weights;
    for (std::size_t r = 0; r < inputs.group(); ++r) {
      weights.push_back(alignment_weights(policy, inputs.stats.mean[g * inputs.group() + r], keys));
      matrix_weights.push_back(weights.back());
      if (policy.form == CapKV::Form::paper) continue;
      for (double& value : matrix_weights.back()) value += policy.epsilon;
    }
    std::vector<double> head;
    if (policy.pooled) {
      const Matrix metric = policy.output_projection ? group_output_metric(inputs, g) : Matrix();
      head = leverage(values, metric, reduce(matrix_weights, policy.reduction),
                      reduce(weights, policy.reduction), policy.noise);
    } else {
      for (std::size_t r = 0; r < inputs.group(); ++r) {
        const Matrix metric =
            policy.output_projection
                ? output_metric(inputs.output_projection, g * inputs.group() + r, values.cols)
                : Matrix();
        weights[r] = leverage(values, metric, matrix_weights[r], weights[r], policy.noise);
      }
      head = reduce(weights, policy.reduction);
    }
    head.insert(head.begin(), policy.skip_first, 0.0);
    raise_first(head, policy.skip_first);
    out.push_back(head);
  }
  return out;
}

}  // namespace kvevict_test::reference
