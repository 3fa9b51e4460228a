// SPDX-License-Identifier: Apache-2.0
#include "reference/capacity.hpp"

#include <algorithm>

#include "reference/linear.hpp"

namespace kvevict_test::reference {
namespace {

Matrix columns_of_head(const Matrix& output_projection, std::size_t query_head, std::size_t dim) {
  Matrix out(output_projection.rows, dim);
  for (std::size_t i = 0; i < out.rows; ++i) {
    for (std::size_t c = 0; c < dim; ++c) out(i, c) = output_projection(i, query_head * dim + c);
  }
  return out;
}

}  // namespace

std::vector<double> leverage(const Matrix& values, const Matrix& metric,
                             const std::vector<double>& capacity_weight,
                             const std::vector<double>& score_weight, Noise noise) {
  const std::size_t dim = values.cols;
  Matrix gram(dim, dim);
  for (std::size_t i = 0; i < values.rows; ++i) {
    for (std::size_t a = 0; a < dim; ++a) {
      for (std::size_t b = 0; b < dim; ++b) {
        gram(a, b) += capacity_weight[i] * values(i, a) * values(i, b);
      }
    }
  }
  Matrix capacity = metric.empty() ? gram : product(metric, gram);
  const double s2 =
      noise.relative ? noise.value * trace(capacity) / static_cast<double>(dim) : noise.value;
  std::vector<double> out(values.rows, 0.0);
  if (noise.relative && s2 == 0) return out;
  for (std::size_t i = 0; i < dim; ++i) capacity(i, i) += s2;

  const LinearSystem system(capacity);
  for (std::size_t i = 0; i < values.rows; ++i) {
    const std::vector<double> v(&values.data[i * dim], &values.data[i * dim] + dim);
    const std::vector<double> solved = system.solve(metric.empty() ? v : product(metric, v));
    out[i] = score_weight[i] * dot(v.data(), solved.data(), dim);
  }
  return out;
}

Matrix output_metric(const Matrix& output_projection, std::size_t query_head, std::size_t dim) {
  const Matrix w = columns_of_head(output_projection, query_head, dim);
  return product(transposed(w), w);
}

Matrix group_output_metric(const Inputs& inputs, std::size_t kv_head) {
  const std::size_t dim = inputs.values[kv_head].cols;
  Matrix out(dim, dim);
  for (std::size_t r = 0; r < inputs.group(); ++r) {
    const Matrix one = output_metric(inputs.output_projection, kv_head * inputs.group() + r, dim);
    for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] += one.data[i];
  }
  return out;
}

double log_det(const Matrix& u, const std::vector<double>& weights, const Rows& rows, double s2) {
  Matrix a = identity(u.cols);
  for (const std::size_t i : rows) {
    for (std::size_t c = 0; c < u.cols; ++c) {
      for (std::size_t d = 0; d < u.cols; ++d) a(c, d) += weights[i] / s2 * u(i, c) * u(i, d);
    }
  }
  return LinearSystem(a).log_determinant();
}

Rows greedy_log_det(const Matrix& u, const std::vector<double>& weights, double s2,
                    const Rows& first, std::size_t count) {
  Rows picked = first;
  while (picked.size() < count) {
    std::size_t best = u.rows;
    double most = 0;
    for (std::size_t i = 0; i < u.rows; ++i) {
      if (std::find(picked.begin(), picked.end(), i) != picked.end()) continue;
      picked.push_back(i);
      const double reached = log_det(u, weights, picked, s2);
      picked.pop_back();
      if (best == u.rows || reached > most) {
        best = i;
        most = reached;
      }
    }
    picked.push_back(best);
  }
  std::sort(picked.begin(), picked.end());
  return picked;
}

Matrix projected_values(const Inputs& inputs, std::size_t query_head) {
  const Matrix& values = inputs.values[query_head / inputs.group()];
  const Matrix w = columns_of_head(inputs.output_projection, query_head, values.cols);
  return product(values, transposed(w));
}

}  // namespace kvevict_test::reference
