// SPDX-License-Identifier: Apache-2.0
#include "reference/linear.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace kvevict_test::reference {
namespace {

// exp(x - max x); zeros when everything is minus infinity.
std::vector<double> shifted_exponentials(const std::vector<double>& logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double logit : logits) largest = std::max(largest, logit);
  std::vector<double> out(logits.size(), 0.0);
  if (std::isinf(largest) && largest < 0) return out;
  for (std::size_t i = 0; i < logits.size(); ++i) out[i] = std::exp(logits[i] - largest);
  return out;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

double norm(const double* a, std::size_t count) { return std::sqrt(dot(a, a, count)); }

Matrix identity(std::size_t size) {
  Matrix out(size, size);
  for (std::size_t i = 0; i < size; ++i) out(i, i) = 1;
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a.cols, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.cols; ++j) out(j, i) = a(i, j);
  }
  return out;
}

Matrix product(const Matrix& a, const Matrix& b) {
  if (a.cols != b.rows) throw std::invalid_argument("matrix shapes do not match");
  Matrix out(a.rows, b.cols);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.cols; ++k) {
      const double factor = a(i, k);
      for (std::size_t j = 0; j < b.cols; ++j) out(i, j) += factor * b(k, j);
    }
  }
  return out;
}

std::vector<double> product(const Matrix& a, const std::vector<double>& x) {
  if (a.cols != x.size()) throw std::invalid_argument("matrix and vector do not match");
  std::vector<double> out(a.rows);
  for (std::size_t i = 0; i < a.rows; ++i) out[i] = dot(&a.data[i * a.cols], x.data(), a.cols);
  return out;
}

double trace(const Matrix& a) {
  double sum = 0;
  for (std::size_t i = 0; i < a.rows; ++i) sum += a(i, i);
  return sum;
}

LinearSystem::LinearSystem(Matrix a) : lu_(std::move(a)), pivot_(lu_.rows) {
  if (lu_.rows != lu_.cols) throw std::invalid_argument("the matrix is not square");
  const std::size_t n = lu_.rows;
  for (std::size_t step = 0; step < n; ++step) {
    std::size_t best = step;
    for (std::size_t i = step + 1; i < n; ++i) {
      if (std::abs(lu_(i, step)) > std::abs(lu_(best, step))) best = i;
    }
    pivot_[step] = best;
    if (lu_(best, step) == 0 || !std::isfinite(lu_(best, step))) {
      throw std::domain_error("the matrix is singular");
    }
    for (std::size_t j = 0; j < n; ++j) std::swap(lu_(step, j), lu_(best, j));
    for (std::size_t i = step + 1; i < n; ++i) {
      const double factor = lu_(i, step) / lu_(step, step);
      lu_(i, step) = factor;
      for (std::size_t j = step + 1; j < n; ++j) lu_(i, j) -= factor * lu_(step, j);
    }
  }
}

std::vector<double> LinearSystem::solve(std::vector<double> b) const {
  const std::size_t n = lu_.rows;
  for (std::size_t i = 0; i < n; ++i) std::swap(b[i], b[pivot_[i]]);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) b[i] -= lu_(i, j) * b[j];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) b[i] -= lu_(i, j) * b[j];
    b[i] /= lu_(i, i);
  }
  return b;
}

double LinearSystem::log_determinant() const {
  double sum = 0;
  for (std::size_t i = 0; i < lu_.rows; ++i) sum += std::log(std::abs(lu_(i, i)));
  return sum;
}

std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> out = shifted_exponentials(logits);
  const double sum = sum_of(out);
  if (sum == 0) return out;
  for (double& value : out) value /= sum;
  return out;
}

std::vector<double> softmax_complement(const std::vector<double>& logits) {
  const std::vector<double> exponentials = shifted_exponentials(logits);
  const double sum = sum_of(exponentials);
  std::vector<double> out(logits.size(), 0.0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t j = 0; j < out.size(); ++j) {
      if (j != i) out[i] += exponentials[j] / sum;
    }
  }
  return out;
}

}  // namespace kvevict_test::reference
