// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "reference/linear.hpp"
#include "reference/policies.hpp"

namespace kvevict_test::reference {
namespace {

double cosine(const double* a, const double* b, std::size_t dim) {
  const double norms = norm(a, dim) * norm(b, dim);
  return norms == 0 ? 0 : dot(a, b, dim) / norms;
}

}  // namespace

Scores score(const KNorm&, const Inputs& inputs) {
  Scores out;
  for (const Matrix& keys : inputs.keys) {
    std::vector<double> head(keys.rows);
    for (std::size_t i = 0; i < keys.rows; ++i)
      head[i] = -norm(&keys.data[i * keys.cols], keys.cols);
    out.push_back(head);
  }
  return out;
}

Scores score(const KeyDiff&, const Inputs& inputs) {
  Scores out;
  for (const Matrix& keys : inputs.keys) {
    std::vector<double> anchor(keys.cols, 0.0);
    for (std::size_t i = 0; i < keys.rows; ++i) {
      const double length = norm(&keys.data[i * keys.cols], keys.cols);
      if (length == 0) continue;
      for (std::size_t c = 0; c < keys.cols; ++c) {
        anchor[c] += keys(i, c) / length / static_cast<double>(keys.rows);
      }
    }
    std::vector<double> head(keys.rows);
    for (std::size_t i = 0; i < keys.rows; ++i) {
      head[i] = -cosine(&keys.data[i * keys.cols], anchor.data(), keys.cols);
    }
    out.push_back(head);
  }
  return out;
}

Scores score(const StreamingLLM& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const Positions positions = inputs.positions_of_rows(g);
    std::vector<double> head;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      head.push_back(static_cast<double>(positions[i] < policy.sinks ? positions.size() : i));
    }
    out.push_back(head);
  }
  return out;
}

std::vector<double> mean_similarity(const Matrix& rows, double threshold) {
  std::vector<double> out(rows.rows, 0.0);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    std::vector<double> similarity(rows.rows, 0.0);
    std::size_t latest = rows.rows;
    for (std::size_t j = 0; j < rows.rows; ++j) {
      if (j == i) continue;
      similarity[j] = cosine(&rows.data[i * rows.cols], &rows.data[j * rows.cols], rows.cols);
      if (similarity[j] > threshold) latest = j;
    }
    if (latest < rows.rows) similarity[latest] = 0;
    for (std::size_t j = 0; j < rows.rows; ++j) {
      out[j] += similarity[j] / static_cast<double>(rows.rows);
    }
  }
  return out;
}

std::vector<double> quadratic_form(const Matrix& keys, const Matrix& lambda, Covariance part) {
  std::vector<double> out(keys.rows, 0.0);
  if (part == Covariance::none) return out;
  for (std::size_t i = 0; i < keys.rows; ++i) {
    const double* key = &keys.data[i * keys.cols];
    for (std::size_t a = 0; a < keys.cols; ++a) {
      out[i] += key[a] * (part == Covariance::diagonal
                              ? lambda(a, a) * key[a]
                              : dot(&lambda.data[a * keys.cols], key, keys.cols));
    }
  }
  return out;
}

void raise_first(std::vector<double>& scores, std::size_t count) {
  const std::size_t skipped = std::min(count, scores.size());
  double largest = 0;
  for (std::size_t i = skipped; i < scores.size(); ++i) {
    if (i == skipped || scores[i] > largest) largest = scores[i];
  }
  for (std::size_t i = 0; i < skipped; ++i) scores[i] = largest;
}

}  // namespace kvevict_test::reference
