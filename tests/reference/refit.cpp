// SPDX-License-Identifier: Apache-2.0
#include "reference/refit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/linear.hpp"

namespace kvevict_test::reference {
namespace {

Matrix rows_of(const Matrix& from, const Rows& rows) {
  Matrix out(rows.size(), from.cols);
  for (std::size_t j = 0; j < rows.size(); ++j) {
    for (std::size_t c = 0; c < from.cols; ++c) out(j, c) = from(rows[j], c);
  }
  return out;
}

bool sees(const RefitCase& given, std::size_t probe, std::size_t row) {
  return given.seen.empty() || row < given.seen[probe];
}

// Logits [probe, row] of some rows of the cache, minus infinity where a probe does not see.
Matrix masked_logits(const RefitCase& given, const Matrix& keys, const Rows& rows) {
  Matrix out = product(given.probes, transposed(keys));
  for (double& value : out.data) value /= std::sqrt(static_cast<double>(keys.cols));
  for (std::size_t i = 0; i < out.rows; ++i) {
    for (std::size_t j = 0; j < out.cols; ++j) {
      if (!sees(given, i, rows[j])) out(i, j) = -std::numeric_limits<double>::infinity();
    }
  }
  return out;
}

Matrix softmax_rows(const Matrix& z) {
  Matrix out(z.rows, z.cols);
  for (std::size_t i = 0; i < z.rows; ++i) {
    const std::vector<double> row(z.data.begin() + static_cast<std::ptrdiff_t>(i * z.cols),
                                  z.data.begin() + static_cast<std::ptrdiff_t>((i + 1) * z.cols));
    const std::vector<double> weights = softmax(row);
    std::copy(weights.begin(), weights.end(),
              out.data.begin() + static_cast<std::ptrdiff_t>(i * z.cols));
  }
  return out;
}

Rows all_rows(const Matrix& keys) {
  Rows rows(keys.rows);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  return rows;
}

bool is_pinned(const RefitCase& given, std::size_t j) {
  return !given.pinned.empty() && given.pinned[j];
}

// share(i, j): the part of probe i's attention over the whole cache that kept row j gets.
std::vector<double> mass_weights(const RefitCase& given, const Matrix& share) {
  const std::size_t kept = share.cols;
  std::vector<double> w(kept, 1.0);
  std::vector<double> residual(share.rows, -1.0);
  std::vector<double> squares(kept, 0.0);
  for (std::size_t j = 0; j < kept; ++j) {
    for (std::size_t i = 0; i < share.rows; ++i) {
      residual[i] += share(i, j);
      squares[j] += share(i, j) * share(i, j);
    }
  }
  for (int sweep = 0; sweep < 100000; ++sweep) {
    double moved = 0;
    for (std::size_t j = 0; j < kept; ++j) {
      if (is_pinned(given, j)) continue;
      double slope = given.mass_ridge * (w[j] - 1);
      for (std::size_t i = 0; i < share.rows; ++i) slope += share(i, j) * residual[i];
      const double next = std::max(0.0, w[j] - slope / (squares[j] + given.mass_ridge));
      const double step = next - w[j];
      for (std::size_t i = 0; i < share.rows; ++i) residual[i] += step * share(i, j);
      w[j] = next;
      moved = std::max(moved, std::abs(step));
    }
    if (moved < 1e-12) break;
  }
  for (double& weight : w) weight = std::max(weight, given.weight_floor);
  return w;
}

void find_direction(const RefitCase& given, RefitResult& result) {
  const std::size_t dim = given.probes.cols;
  const auto count = static_cast<double>(given.probes.rows);
  Matrix second = product(transposed(given.probes), given.probes);
  std::vector<double> mean(dim, 0.0);
  for (double& value : second.data) value /= count;
  for (std::size_t i = 0; i < given.probes.rows; ++i) {
    for (std::size_t c = 0; c < dim; ++c) mean[c] += given.probes(i, c) / count;
  }
  Matrix ridged = second;
  for (std::size_t c = 0; c < dim; ++c) {
    ridged(c, c) += given.direction_ridge * trace(second) / static_cast<double>(dim);
  }
  result.direction = LinearSystem(ridged).solve(mean);
  std::vector<double> projections = product(given.probes, result.direction);
  double average = 0;
  for (const double p : projections) average += p / count;
  for (double& value : result.direction) value /= average;
  double variance = 0;
  for (const double p : projections) variance += std::pow(p / average - 1, 2) / count;
  result.spread = std::sqrt(variance);
}

// values + P_free^T (P_free P_free^T + lambda I)^-1 (target - P values), by the normal equations
// over the free rows: (P^T P + lambda I) change = P^T residual.
Matrix ridge_values(const RefitCase& given, const Matrix& weights, const Matrix& values,
                    const Matrix& target) {
  Matrix residual = product(weights, values);
  for (std::size_t i = 0; i < residual.data.size(); ++i) {
    residual.data[i] = target.data[i] - residual.data[i];
  }
  Matrix free = weights;
  double squares = 0;
  for (std::size_t i = 0; i < free.rows; ++i) {
    for (std::size_t j = 0; j < free.cols; ++j) {
      if (is_pinned(given, j)) free(i, j) = 0;
      squares += free(i, j) * free(i, j);
    }
  }
  Matrix system = product(transposed(free), free);
  for (std::size_t j = 0; j < system.rows; ++j) {
    system(j, j) += given.ridge * squares / static_cast<double>(free.rows);
  }
  const LinearSystem solver(system);
  const Matrix right = product(transposed(free), residual);
  Matrix out = values;
  for (std::size_t c = 0; c < values.cols; ++c) {
    std::vector<double> column(values.rows);
    for (std::size_t j = 0; j < values.rows; ++j) column[j] = right(j, c);
    const std::vector<double> change = solver.solve(column);
    for (std::size_t j = 0; j < values.rows; ++j) {
      if (!is_pinned(given, j)) out(j, c) += change[j];
    }
  }
  return out;
}

Matrix biased_weights(const RefitCase& given, const Matrix& keys, const std::vector<double>& bias) {
  Matrix z = masked_logits(given, keys, given.kept);
  for (std::size_t i = 0; i < z.rows; ++i) {
    for (std::size_t j = 0; j < bias.size(); ++j) z(i, j) += bias[j];
  }
  return softmax_rows(z);
}

}  // namespace

RefitResult refit(const RefitCase& given) {
  RefitResult result;
  result.keys = rows_of(given.keys, given.kept);
  result.values = rows_of(given.values, given.kept);
  result.weights.assign(given.kept.size(), 1.0);
  const Matrix whole = softmax_rows(masked_logits(given, given.keys, all_rows(given.keys)));
  const Matrix target = product(whole, given.values);
  find_direction(given, result);
  std::vector<double> bias;
  if (given.mass) {
    Matrix share(whole.rows, given.kept.size());
    for (std::size_t i = 0; i < share.rows; ++i) {
      for (std::size_t j = 0; j < share.cols; ++j) share(i, j) = whole(i, given.kept[j]);
    }
    result.weights = mass_weights(given, share);
    for (std::size_t j = 0; j < given.kept.size(); ++j) {
      const double log_weight = std::log(result.weights[j]);
      if (!given.absorb) {
        bias.push_back(log_weight);
        continue;
      }
      if (is_pinned(given, j)) continue;
      for (std::size_t c = 0; c < given.keys.cols; ++c) {
        result.keys(j, c) +=
            std::sqrt(static_cast<double>(given.keys.cols)) * log_weight * result.direction[c];
      }
    }
  }
  if (given.fit_values) {
    result.values =
        ridge_values(given, biased_weights(given, result.keys, bias), result.values, target);
  }
  return result;
}

double refit_error(const RefitCase& given, const Matrix& kept_keys, const Matrix& kept_values,
                   const std::vector<double>& bias) {
  const Matrix whole = softmax_rows(masked_logits(given, given.keys, all_rows(given.keys)));
  const Matrix target = product(whole, given.values);
  const Matrix got = product(biased_weights(given, kept_keys, bias), kept_values);
  double wrong = 0;
  double size = 0;
  for (std::size_t i = 0; i < target.data.size(); ++i) {
    wrong += std::pow(got.data[i] - target.data[i], 2);
    size += std::pow(target.data[i], 2);
  }
  return std::sqrt(wrong / size);
}

}  // namespace kvevict_test::reference
