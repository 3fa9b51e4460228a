// SPDX-License-Identifier: Apache-2.0
#include "policies/edit_inputs.hpp"

#include <cmath>

#include "reference/linear.hpp"
#include "support/random.hpp"

namespace kvevict_test {

using reference::Heads;
using reference::Inputs;
using reference::Matrix;

Heads scaled(Heads heads, double factor) {
  for (Matrix& head : heads) {
    for (double& value : head.data) value *= factor;
  }
  return heads;
}

Matrix rows_of(const Matrix& a, const std::vector<std::size_t>& rows) {
  Matrix out(rows.size(), a.cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t c = 0; c < a.cols; ++c) out(i, c) = a(rows[i], c);
  }
  return out;
}

Inputs with_rows(Inputs inputs, std::size_t kv_head, const std::vector<std::size_t>& rows) {
  inputs.keys[kv_head] = rows_of(inputs.keys[kv_head], rows);
  inputs.values[kv_head] = rows_of(inputs.values[kv_head], rows);
  if (!inputs.keys_before_rope.empty()) {
    inputs.keys_before_rope[kv_head] = rows_of(inputs.keys_before_rope[kv_head], rows);
  }
  if (!inputs.row_positions.empty()) inputs.row_positions[kv_head].resize(rows.size());
  return inputs;
}

Inputs one_head(const Inputs& inputs, std::size_t kv_head) {
  const std::size_t group = inputs.group();
  const std::size_t dim = inputs.values[kv_head].cols;
  Inputs alone;
  alone.keys = {inputs.keys[kv_head]};
  alone.values = {inputs.values[kv_head]};
  if (!inputs.row_positions.empty()) alone.row_positions = {inputs.row_positions[kv_head]};
  alone.query_positions = inputs.positions_of_queries();
  alone.probe_positions = inputs.probe_positions;
  alone.query_filter = rows_of(inputs.query_filter, {kv_head});
  alone.keys_before_rope = {inputs.keys_before_rope[kv_head]};
  if (!inputs.output_projection.empty()) {
    alone.output_projection = Matrix(inputs.output_projection.rows, group * dim);
  }
  for (std::size_t r = 0; r < group; ++r) {
    const std::size_t h = kv_head * group + r;
    alone.queries.push_back(inputs.queries[h]);
    alone.probes.push_back(inputs.probes[h]);
    alone.stats.mean.push_back(inputs.stats.mean[h]);
    alone.stats.covariance.push_back(inputs.stats.covariance[h]);
    for (std::size_t i = 0; i < alone.output_projection.rows; ++i) {
      for (std::size_t c = 0; c < dim; ++c) {
        alone.output_projection(i, r * dim + c) = inputs.output_projection(i, h * dim + c);
      }
    }
  }
  return alone;
}

Matrix random_rotation(std::size_t dim, std::uint64_t seed) {
  Matrix out = reference::identity(dim);
  const Random random(seed);
  for (std::size_t a = 0; a < dim; ++a) {
    for (std::size_t b = a + 1; b < dim; ++b) {
      const double angle = random.uniform(a * dim + b, 0, 6.283185307179586);
      const double cosine = std::cos(angle);
      const double sine = std::sin(angle);
      for (std::size_t c = 0; c < dim; ++c) {
        const double x = out(a, c);
        const double y = out(b, c);
        out(a, c) = cosine * x - sine * y;
        out(b, c) = sine * x + cosine * y;
      }
    }
  }
  return out;
}

Heads rotated(const Heads& heads, const Matrix& rotation) {
  Heads out;
  for (const Matrix& head : heads) {
    out.push_back(reference::product(head, reference::transposed(rotation)));
  }
  return out;
}

}  // namespace kvevict_test
