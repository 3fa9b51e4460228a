// SPDX-License-Identifier: Apache-2.0
#include "reference/merge.hpp"

#include <algorithm>
#include <cmath>

namespace kvevict_test::reference {
namespace {

double dot(const Matrix& rows, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t c = 0; c < rows.cols; ++c) sum += rows(i, c) * rows(j, c);
  return sum;
}

double length(const Matrix& rows, std::size_t i) { return std::sqrt(dot(rows, i, i)); }

double cosine(const Matrix& rows, std::size_t i, std::size_t j) {
  const double lengths = length(rows, i) * length(rows, j);
  return lengths == 0 ? 0 : dot(rows, i, j) / lengths;
}

std::vector<std::size_t> others(std::size_t rows, const std::vector<std::size_t>& kept) {
  std::vector<std::size_t> evicted;
  for (std::size_t i = 0; i < rows; ++i) {
    if (std::find(kept.begin(), kept.end(), i) == kept.end()) evicted.push_back(i);
  }
  return evicted;
}

}  // namespace

Matrix merged_into_similar(const Matrix& keys, const Matrix& values,
                           const std::vector<std::size_t>& kept, double threshold,
                           double fraction) {
  Matrix out = values;
  std::vector<std::size_t> evicted = others(values.rows, kept);
  if (kept.empty() || evicted.empty()) return out;
  std::vector<std::size_t> target(values.rows);
  std::vector<double> similarity(values.rows);
  for (const std::size_t e : evicted) {
    similarity[e] = -2;
    for (const std::size_t k : kept) {
      if (cosine(keys, e, k) <= similarity[e]) continue;
      similarity[e] = cosine(keys, e, k);
      target[e] = k;
    }
  }
  std::stable_sort(evicted.begin(), evicted.end(),
                   [&](std::size_t a, std::size_t b) { return similarity[a] > similarity[b]; });
  const double cut = (1 - fraction) * static_cast<double>(evicted.size() - 1);
  evicted.resize(evicted.size() - static_cast<std::size_t>(std::ceil(cut)));
  for (const std::size_t k : kept) {
    double total = 1;
    for (const std::size_t e : evicted) {
      if (target[e] != k || similarity[e] < threshold || similarity[e] <= 0) continue;
      const double weight =
          similarity[e] * length(values, e) / (length(values, e) + length(values, k) + 1e-6);
      total += weight;
      for (std::size_t c = 0; c < values.cols; ++c) out(k, c) += weight * values(e, c);
    }
    for (std::size_t c = 0; c < values.cols; ++c) out(k, c) /= total;
  }
  return out;
}

Matrix merged_into_following(const Matrix& values, const std::vector<std::size_t>& kept,
                             const std::vector<double>& attention, std::size_t span,
                             const std::function<double(std::size_t)>& draw) {
  Matrix out = values;
  for (const std::size_t e : others(values.rows, kept)) {
    std::vector<std::size_t> behind;
    for (const std::size_t k : kept) {
      if (k > e && behind.size() < span) behind.push_back(k);
    }
    double mean = 0;
    for (const std::size_t k : behind) mean += attention[k] / static_cast<double>(behind.size());
    if (behind.empty() || draw(e) * mean >= attention[e]) continue;
    for (const std::size_t k : behind) {
      for (std::size_t c = 0; c < values.cols; ++c) {
        out(k, c) += values(e, c) / static_cast<double>(behind.size());
      }
    }
  }
  return out;
}

}  // namespace kvevict_test::reference
