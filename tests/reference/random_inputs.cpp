// SPDX-License-Identifier: Apache-2.0
#include "reference/random_inputs.hpp"

#include "reference/query_stats.hpp"

namespace kvevict_test::reference {
namespace {

Matrix random_matrix(std::size_t rows, std::size_t cols, Shape shape, std::uint64_t seed) {
  Matrix out(rows, cols);
  const std::vector<float> values =
      random_values(shape, static_cast<std::int64_t>(rows * cols), seed);
  out.data.assign(values.begin(), values.end());
  return out;
}

void round_to_float(std::vector<double>& values) {
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
}

}  // namespace

Inputs random_inputs(const InputShape& shape, std::uint64_t seed) {
  std::uint64_t stream = seed * 1000;
  Inputs inputs;
  for (const std::size_t rows : shape.rows) {
    inputs.keys.push_back(random_matrix(rows, shape.dim, shape.values, ++stream));
    inputs.values.push_back(random_matrix(rows, shape.value_dim, shape.values, ++stream));
    for (std::size_t r = 0; r < shape.group; ++r) {
      inputs.queries.push_back(random_matrix(shape.queries, shape.dim, Shape::normal, ++stream));
      inputs.probes.push_back(random_matrix(shape.probes, shape.dim, Shape::normal, ++stream));
    }
  }
  inputs.stats = query_stats(inputs.queries, 0);
  for (std::vector<double>& mean : inputs.stats.mean) round_to_float(mean);
  for (Matrix& covariance : inputs.stats.covariance) round_to_float(covariance.data);
  inputs.output_projection =
      random_matrix(shape.hidden, shape.value_dim * inputs.query_heads(), Shape::normal, ++stream);
  inputs.query_filter = random_matrix(shape.rows.size(), shape.dim, Shape::normal, ++stream);
  for (const std::size_t rows : shape.rows) {
    inputs.keys_before_rope.push_back(random_matrix(rows, shape.dim, shape.values, ++stream));
  }
  return inputs;
}

}  // namespace kvevict_test::reference
