// SPDX-License-Identifier: Apache-2.0
#include "reference/rope.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "reference/linear.hpp"

namespace kvevict_test::reference {
namespace {

std::pair<std::size_t, std::size_t> channels_of(const Rope& rope, std::size_t pair) {
  if (rope.pairing == Pairing::half) return {pair, pair + rope.frequencies.size()};
  return {2 * pair, 2 * pair + 1};
}

}  // namespace

std::vector<double> rope_frequencies(double theta, std::size_t rotary_dim) {
  std::vector<double> out(rotary_dim / 2);
  for (std::size_t j = 0; j < out.size(); ++j) {
    out[j] = std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(rotary_dim));
  }
  return out;
}

Matrix rotation_matrix(const Rope& rope, std::int64_t position, std::size_t dim) {
  if (2 * rope.frequencies.size() > dim) throw std::invalid_argument("more pairs than channels");
  Matrix out = identity(dim);
  for (std::size_t pair = 0; pair < rope.frequencies.size(); ++pair) {
    const auto [a, b] = channels_of(rope, pair);
    const double angle = static_cast<double>(position) * rope.frequencies[pair];
    const double cosine = rope.attention_factor * std::cos(angle);
    const double sine = rope.attention_factor * std::sin(angle);
    out(a, a) = cosine;
    out(a, b) = -sine;
    out(b, a) = sine;
    out(b, b) = cosine;
  }
  return out;
}

Matrix mean_rotation(const Rope& rope, std::int64_t first, std::int64_t count, std::size_t dim) {
  Matrix out(dim, dim);
  for (std::int64_t position = first; position < first + count; ++position) {
    const Matrix one = rotation_matrix(rope, position, dim);
    for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] += one.data[i];
  }
  for (double& value : out.data) value /= static_cast<double>(count);
  return out;
}

Matrix rotated(const Matrix& x, const Positions& positions, const Rope& rope) {
  Matrix out = x;
  for (std::size_t i = 0; i < x.rows; ++i) {
    const Matrix rotation = rotation_matrix(rope, positions.at(i), x.cols);
    const std::vector<double> row(&x.data[i * x.cols], &x.data[i * x.cols] + x.cols);
    const std::vector<double> turned = product(rotation, row);
    std::copy(turned.begin(), turned.end(), &out.data[i * x.cols]);
  }
  return out;
}

Heads future_probes(const Heads& queries_pre_rope, const Rows& rows, const Positions& positions,
                    const Rope& rope) {
  Heads out;
  for (const Matrix& queries : queries_pre_rope) {
    Matrix chosen(rows.size(), queries.cols);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t c = 0; c < queries.cols; ++c) chosen(i, c) = queries(rows[i], c);
    }
    out.push_back(rotated(chosen, positions, rope));
  }
  return out;
}

}  // namespace kvevict_test::reference
