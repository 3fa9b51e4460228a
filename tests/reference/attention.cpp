// SPDX-License-Identifier: Apache-2.0
#include "reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/linear.hpp"

namespace kvevict_test::reference {
namespace {

void store_row(Matrix& out, std::size_t row, const std::vector<double>& values) {
  std::copy(values.begin(), values.end(),
            out.data.begin() + static_cast<std::ptrdiff_t>(row * out.cols));
}

}  // namespace

std::vector<double> logits(const double* query, const Matrix& keys, double temperature) {
  const double scale = temperature * std::sqrt(static_cast<double>(keys.cols));
  std::vector<double> out(keys.rows);
  for (std::size_t i = 0; i < keys.rows; ++i) {
    out[i] = dot(query, &keys.data[i * keys.cols], keys.cols) / scale;
  }
  return out;
}

Matrix attention(const Matrix& queries, const Matrix& keys, double temperature) {
  Matrix out(queries.rows, keys.rows);
  for (std::size_t q = 0; q < queries.rows; ++q) {
    store_row(out, q, softmax(logits(&queries.data[q * queries.cols], keys, temperature)));
  }
  return out;
}

Matrix causal_attention(const Matrix& queries, const Positions& query_positions, const Matrix& keys,
                        const Positions& row_positions, double temperature) {
  Matrix out(queries.rows, keys.rows);
  for (std::size_t q = 0; q < queries.rows; ++q) {
    std::vector<double> z = logits(&queries.data[q * queries.cols], keys, temperature);
    for (std::size_t i = 0; i < keys.rows; ++i) {
      if (row_positions.at(i) > query_positions.at(q)) {
        z[i] = -std::numeric_limits<double>::infinity();
      }
    }
    store_row(out, q, softmax(z));
  }
  return out;
}

std::vector<double> pool(const std::vector<double>& values, std::size_t kernel, Pooling pooling,
                         bool count_padding) {
  if (kernel % 2 == 0) throw std::invalid_argument("the pooling kernel must be odd");
  const std::size_t half = kernel / 2;
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t first = i < half ? 0 : i - half;
    const std::size_t last = std::min(values.size() - 1, i + half);
    double sum = 0;
    double largest = values[first];
    for (std::size_t j = first; j <= last; ++j) {
      sum += values[j];
      largest = std::max(largest, values[j]);
    }
    const std::size_t width = count_padding ? kernel : last - first + 1;
    out[i] = pooling == Pooling::max ? largest : sum / static_cast<double>(width);
  }
  return out;
}

Matrix probe_weights(const Inputs& inputs, std::size_t query_head, double temperature) {
  const std::size_t kv_head = query_head / inputs.group();
  const Matrix& probes = inputs.probes[query_head];
  const Matrix& keys = inputs.keys[kv_head];
  if (inputs.probe_positions.empty()) return attention(probes, keys, temperature);
  return causal_attention(probes, inputs.probe_positions, keys, inputs.positions_of_rows(kv_head),
                          temperature);
}

}  // namespace kvevict_test::reference
