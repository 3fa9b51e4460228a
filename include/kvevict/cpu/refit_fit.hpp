// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/lane_products.hpp"
#include "kvevict/cpu/tile.hpp"

namespace kvevict::cpu {

/// Memory of the linear systems of a refit, of min(rows, fitted) unknowns.
struct RefitSystem {
  float* gram = nullptr;        ///< [unknowns][unknowns]
  double* matrix = nullptr;     ///< [unknowns][unknowns]
  double* right = nullptr;      ///< [unknowns][max(value dim, 1)]
  float* solution = nullptr;    ///< [unknowns][value dim]
  double* dual = nullptr;       ///< [4][probes]
  double* slopes = nullptr;     ///< [rows]
  bool* solved_free = nullptr;  ///< [rows]
  float* tile = nullptr;        ///< [tile_rows][rows], where there are fewer of them than probes
};

/// Row-major lower storage is the upper half of the column-major matrix. Factorises in place.
inline bool factorise(double* lower, std::int64_t size) {
  Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>> upper(
      Eigen::Map<Eigen::MatrixXd>(lower, size, size));
  return Eigen::LLT<decltype(upper), Eigen::Upper>(upper).info() == Eigen::Success;
}

/// right [size][columns] = solution for the factor that `factorise` left, in steps of a block of
/// unknowns: what the others contribute is a product, and little is left to substitute.
inline void solve_factorised(const double* lower, std::int64_t size, std::int64_t columns,
                             double* right) {
  constexpr std::int64_t block = 2 * product_rows;
  const auto entry = [&](std::int64_t i, std::int64_t j) { return lower[i * size + j]; };
  const auto subtract = [&](std::int64_t i, double factor, std::int64_t from) {
    for (std::int64_t c = 0; c < columns; ++c) {
      right[i * columns + c] -= factor * right[from * columns + c];
    }
  };
  const auto divide = [&](std::int64_t i) {
    for (std::int64_t c = 0; c < columns; ++c) right[i * columns + c] /= entry(i, i);
  };
  for (std::int64_t first = 0; first < size; first += block) {
    const std::int64_t end = std::min(first + block, size);
    add_product(LeftOperand<double>{lower + first * size, size, 1}, right, columns, end - first,
                columns, first, -1.0, ProductPart::whole, right + first * columns, columns);
    for (std::int64_t i = first; i < end; ++i) {
      for (std::int64_t j = first; j < i; ++j) subtract(i, entry(i, j), j);
      divide(i);
    }
  }
  for (std::int64_t end = size; end > 0;) {
    const std::int64_t first = (end - 1) / block * block;
    add_product(LeftOperand<double>{lower + end * size + first, 1, size}, right + end * columns,
                columns, end - first, columns, size - end, -1.0, ProductPart::whole,
                right + first * columns, columns);
    for (std::int64_t i = end - 1; i >= first; --i) {
      for (std::int64_t j = i + 1; j < end; ++j) subtract(i, entry(j, i), j);
      divide(i);
    }
    end = first;
  }
}

/// gram = the products of the first `fitted` columns of `rows` (lower half): over rows, [fitted]
/// squared, where those are fewer than rows, else over columns, [rows] squared, for which `tile`
/// [tile_rows][rows] takes columns after columns.
inline void lower_gram(const MatrixMap<const float>& rows, std::int64_t fitted, float* tile,
                       MatrixMap<float> gram) {
  const std::int64_t count = rows.rows();
  const std::int64_t stride = rows.cols();
  gram.setZero();
  if (gram.rows() == fitted) {
    // Some rows at a time, which stay in the cache for all pairs of columns.
    for (std::int64_t first = 0; first < count; first += tile_rows) {
      add_gram_of_tile(rows.data() + first * stride, stride, std::min(tile_rows, count - first),
                       fitted, gram.data(), fitted);
    }
    return;
  }
  for (std::int64_t first = 0; first < fitted; first += tile_rows) {
    const std::int64_t taken = std::min(tile_rows, fitted - first);
    for (std::int64_t begin = 0; begin < taken; begin += lane_count) {
      const std::int64_t end = std::min(begin + lane_count, taken);
      for (std::int64_t j = 0; j < count; ++j) {
        const float* row = rows.data() + j * stride + first;
        for (std::int64_t i = begin; i < end; ++i) tile[i * count + j] = row[i];
      }
    }
    add_gram_of_tile(tile, count, taken, count, gram.data(), count);
  }
}

/// Sums in lanes that the compiler vectorises, in one order wherever the arrays lie.
inline double dot_in_lanes(const float* a, const double* b, std::int64_t n) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(a[i]) * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// weights >= 0 that minimise, over the first `fitted` probes i,
///   sum_i (sum_j share[j][i] weights[j] - 1)^2 + ridge sum_j (weights[j] - 1)^2,
/// share[j][i] being the part of probe i's attention over the whole cache that kept row j gets.
/// Rows that are pinned keep 1.
///
/// Solved in the dual, where the bounds are part of a smooth convex function: with y over the
/// probes, weights_j = max(0, 1 + a_j . y) and y minimises
///   ridge/2 |y|^2 + sum_j h(a_j . y) - e . y,   h'(t) = max(-1, t),   e = 1 - sum_j a_j.
/// Newton's method with halved steps ends after finitely many: a handful on real heads, each of a
/// pass over the shares. Only steps with other rows at their bound take a factorisation of
/// min(rows, fitted) unknowns: most heads one in all, the rest refines what the fp32 Gram left.
class MassFit {
 public:
  MassFit(const MatrixMap<const float>& share, std::int64_t fitted, double ridge,
          const bool* pinned, const RefitSystem& system)
      : share_(share),
        rows_(share.rows()),
        fitted_(fitted),
        ridge_(ridge),
        pinned_(pinned),
        system_(system),
        y_(system.dual),
        gradient_(system.dual + share.cols()),
        step_(system.dual + 2 * share.cols()),
        missing_(system.dual + 3 * share.cols()) {}

  /// Returns false when the system is not definite: NaN among the shares.
  bool run(float* weights) {
    const std::int64_t unknowns = std::min(rows_, fitted_);
    lower_gram(share_, fitted_, system_.tile, map_matrix(system_.gram, unknowns, unknowns));
    std::fill_n(y_, fitted_, 0.0);
    std::fill_n(missing_, fitted_, 1.0);
    for (std::int64_t j = 0; j < rows_; ++j) {
      const float* row = share_.data() + j * share_.cols();
      for (std::int64_t i = 0; i < fitted_; ++i) missing_[i] -= static_cast<double>(row[i]);
    }
    factorised_ = false;
    double value = evaluate();
    for (int iteration = 0; iteration < most_iterations; ++iteration) {
      // The weights are off by at most |gradient| / ridge times the length of a row, itself below
      // the square root of the probes.
      const double length = steepness();
      if (!std::isfinite(length)) return false;
      if (length <= precision * ridge_ / std::sqrt(static_cast<double>(fitted_))) break;
      if (!newton_step()) return false;
      if (!descend(value)) break;
    }
    for (std::int64_t j = 0; j < rows_; ++j) {
      weights[j] = pinned_[j] ? 1.0f : static_cast<float>(std::max(0.0, 1.0 + system_.slopes[j]));
    }
    return true;
  }

 private:
  static constexpr int most_iterations = 50;
  static constexpr int most_halvings = 30;
  static constexpr double precision = 1e-6;

  const float* row(std::int64_t j) const { return share_.data() + j * share_.cols(); }
  bool is_free(std::int64_t j) const { return !pinned_[j] && system_.slopes[j] > -1.0; }

  /// The dual function at y; fills slopes and gradient.
  double evaluate() {
    double value = 0.0;
    for (std::int64_t i = 0; i < fitted_; ++i) {
      value += (0.5 * ridge_ * y_[i] - missing_[i]) * y_[i];
      gradient_[i] = ridge_ * y_[i] - missing_[i];
    }
    for (std::int64_t j = 0; j < rows_; ++j) {
      if (pinned_[j]) continue;
      const double slope = dot_in_lanes(row(j), y_, fitted_);
      const double clamped = std::max(-1.0, slope);
      system_.slopes[j] = slope;
      value += slope > -1.0 ? 0.5 * slope * slope : -slope - 0.5;
      for (std::int64_t i = 0; i < fitted_; ++i) {
        gradient_[i] += clamped * static_cast<double>(row(j)[i]);
      }
    }
    return value;
  }

  double steepness() const { return VectorMap<const double>(gradient_, fitted_).norm(); }

  bool over_probes() const { return fitted_ <= rows_; }

  /// Factorises ridge I + sum over free rows of a a^T, or the same over rows, unless that is what
  /// the last step left.
  bool factorise_free() {
    bool same = factorised_;
    for (std::int64_t j = 0; j < rows_; ++j) {
      same = same && system_.solved_free[j] == is_free(j);
      system_.solved_free[j] = is_free(j);
    }
    if (same) return true;
    const std::int64_t unknowns = std::min(rows_, fitted_);
    auto matrix = map_matrix(system_.matrix, unknowns, unknowns);
    matrix.triangularView<Eigen::Lower>() =
        map_matrix<const float>(system_.gram, unknowns, unknowns).cast<double>();
    for (std::int64_t j = 0; j < rows_; ++j) {
      if (is_free(j)) continue;
      if (!over_probes()) {
        matrix.row(j).head(j).setZero();
        matrix.col(j).tail(rows_ - j).setZero();
        continue;
      }
      for (std::int64_t i = 0; i < fitted_; ++i) {
        const double value = row(j)[i];
        for (std::int64_t k = 0; k <= i; ++k) {
          matrix(i, k) -= value * static_cast<double>(row(j)[k]);
        }
      }
    }
    matrix.diagonal().array() += ridge_;
    factorised_ = factorise(system_.matrix, unknowns);
    return factorised_;
  }

  /// step = -(ridge I + sum over free rows of a a^T)^-1 gradient.
  bool newton_step() {
    if (!factorise_free()) return false;
    const std::int64_t unknowns = std::min(rows_, fitted_);
    VectorMap<double> right(system_.right, unknowns);
    if (over_probes()) {
      right = -VectorMap<const double>(gradient_, fitted_);
    } else {
      for (std::int64_t j = 0; j < rows_; ++j) {
        right[j] = is_free(j) ? -dot_in_lanes(row(j), gradient_, fitted_) : 0.0;
      }
    }
    solve_factorised(system_.matrix, unknowns, 1, system_.right);
    if (over_probes()) {
      std::copy_n(system_.right, fitted_, step_);
      return true;
    }
    for (std::int64_t i = 0; i < fitted_; ++i) step_[i] = -gradient_[i];
    for (std::int64_t j = 0; j < rows_; ++j) {
      if (!is_free(j)) continue;
      for (std::int64_t i = 0; i < fitted_; ++i) {
        step_[i] -= right[j] * static_cast<double>(row(j)[i]);
      }
    }
    for (std::int64_t i = 0; i < fitted_; ++i) step_[i] /= ridge_;
    return true;
  }

  /// Goes along the step until the function falls, or its gradient by half, which still shows where
  /// the function's own differences drown in rounding; false when neither does.
  bool descend(double& value) {
    const double steep = steepness();
    const double slope =
        VectorMap<const double>(gradient_, fitted_).dot(VectorMap<const double>(step_, fitted_));
    double length = 1.0;
    double done = 0.0;
    for (int halving = 0; halving < most_halvings; ++halving) {
      for (std::int64_t i = 0; i < fitted_; ++i) y_[i] += (length - done) * step_[i];
      done = length;
      const double moved = evaluate();
      if (moved <= value + 1e-4 * length * slope || steepness() <= 0.5 * steep) {
        value = moved;
        return true;
      }
      length *= 0.5;
    }
    for (std::int64_t i = 0; i < fitted_; ++i) y_[i] -= done * step_[i];
    value = evaluate();
    return false;
  }

  MatrixMap<const float> share_;
  std::int64_t rows_;
  std::int64_t fitted_;
  double ridge_;
  const bool* pinned_;
  RefitSystem system_;
  double* y_;
  double* gradient_;
  double* step_;
  double* missing_;
  bool factorised_ = false;  // the matrix is that of the rows in solved_free
};

/// The direction that takes a bias into the keys: u = argmin over u of the mean over the probes of
/// (q . u - 1)^2 + ridge (mean squared channel of q) |u|^2, scaled so that the mean of q . u is 1.
/// `second` [dim][dim] holds the mean of q q^T and is overwritten, `mean` that of q. Returns the
/// standard deviation of q . u over the probes, or NaN where no direction exists.
inline double absorbing_direction(MatrixMap<double> second, const VectorMap<const double>& mean,
                                  double ridge, MatrixMap<double> scratch, VectorMap<double> u) {
  const std::int64_t dim = mean.size();
  scratch = second;
  scratch.diagonal().array() += ridge * second.trace() / static_cast<double>(dim);
  const double none = std::numeric_limits<double>::quiet_NaN();
  if (!factorise(scratch.data(), dim)) return none;
  u = mean;
  solve_factorised(scratch.data(), dim, 1, u.data());
  const double projected = mean.dot(u);
  if (!(projected > 0.0) || !std::isfinite(projected)) return none;
  u /= projected;
  double square = 0.0;
  for (std::int64_t c = 0; c < dim; ++c) square += u[c] * second.row(c).dot(u);
  return std::sqrt(std::max(0.0, square - 1.0));
}

/// change[j] = what ridge regression adds to the values of the kept rows:
///   P^T (P P^T + lambda I)^-1 E,  or (P^T P + lambda I)^-1 P^T E where there are fewer rows than
/// probes; P = weights^T over the first `fitted` probes, E = `residual` [probe][value dim], lambda
/// = ridge |P|_F^2 / fitted. Returns false, with no change of use, when the system is not definite.
/// Products in fp32, factorisation in double. rows fitted min(rows, fitted) flops for the Gram.
inline bool fit_values(const MatrixMap<const float>& weights, std::int64_t fitted,
                       const MatrixMap<const float>& residual, double ridge,
                       const RefitSystem& system, MatrixMap<float> change) {
  const std::int64_t value_dim = residual.cols();
  const bool over_probes = fitted <= weights.rows();
  const std::int64_t unknowns = std::min(weights.rows(), fitted);
  auto gram = map_matrix(system.gram, unknowns, unknowns);
  lower_gram(weights, fitted, system.tile, gram);
  auto matrix = map_matrix(system.matrix, unknowns, unknowns);
  matrix.triangularView<Eigen::Lower>() = gram.cast<double>();
  const double trace = matrix.trace();
  if (!(trace > 0.0) || !std::isfinite(trace)) return false;
  matrix.diagonal().array() += ridge * trace / static_cast<double>(fitted);
  if (!factorise(system.matrix, unknowns)) return false;
  auto solution = map_matrix(system.solution, unknowns, value_dim);
  const LeftOperand<float> p{weights.data(), weights.cols(), 1};
  const auto product_with_p = [&](const float* from, MatrixMap<float> to) {
    to.setZero();
    add_product(p, from, value_dim, weights.rows(), value_dim, fitted, 1.0f, ProductPart::whole,
                to.data(), value_dim);
  };
  if (over_probes) {
    solution = residual.topRows(fitted);
  } else {
    product_with_p(residual.data(), solution);
  }
  auto right = map_matrix(system.right, unknowns, value_dim);
  right = solution.cast<double>();
  solve_factorised(system.matrix, unknowns, value_dim, system.right);
  solution = right.cast<float>();
  if (over_probes) {
    product_with_p(solution.data(), change);
  } else {
    change = solution;
  }
  return change.allFinite();
}

}  // namespace kvevict::cpu
