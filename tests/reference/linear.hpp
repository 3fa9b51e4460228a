// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

double dot(const double* a, const double* b, std::size_t count);
double norm(const double* a, std::size_t count);

Matrix identity(std::size_t size);
Matrix transposed(const Matrix& a);
Matrix product(const Matrix& a, const Matrix& b);
std::vector<double> product(const Matrix& a, const std::vector<double>& x);
double trace(const Matrix& a);

// Gaussian elimination with partial pivoting of a square matrix, then one solve per right-hand
// side. Throws std::domain_error when a pivot is zero or not finite.
class LinearSystem {
 public:
  explicit LinearSystem(Matrix a);
  std::vector<double> solve(std::vector<double> b) const;
  // log |det A|.
  double log_determinant() const;

 private:
  Matrix lu_;
  std::vector<std::size_t> pivot_;
};

// Softmax with the largest argument subtracted. Entries of minus infinity get weight 0; if all are,
// all weights are 0.
std::vector<double> softmax(const std::vector<double>& logits);

// For each i, the softmax weights of all others summed: 1 - a_i without cancellation.
std::vector<double> softmax_complement(const std::vector<double>& logits);

}  // namespace kvevict_test::reference
