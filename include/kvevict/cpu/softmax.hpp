// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/exponential.hpp"
#include "kvevict/ops/softmax.hpp"

namespace kvevict::cpu {

/// Sum of exp(z - max) over a row of logits, which it replaces by the exponentials, and what the
/// softmax Jacobian needs of the largest entry.
struct Exponentials {
  double sum = 0.0;     ///< of all
  double others = 0.0;  ///< of all but the largest, so that 1 - a of the largest loses no digits
  std::int64_t largest = 0;  ///< index of the (first) largest
  float maximum = 0.0f;
};

/// Sums of floats in double, in blocks that the compiler vectorises.
inline double sum_in_double(const float* values, std::int64_t n) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(values[i + lane]);
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Replaces z by exp(z - max z). A NaN or a +infinity among the logits leaves NaN in every entry: a
/// softmax over such a row has no value, and selection ranks and reports NaN.
inline Exponentials exponentials(float* z, std::int64_t n) {
  Exponentials result;
  if (n == 0) return result;
  ArrayMap<float> row(z, n);
  if (!std::isfinite(row.sum()) &&
      (row.isNaN().any() || row.maxCoeff() > std::numeric_limits<float>::max())) {
    row.setConstant(std::numeric_limits<float>::quiet_NaN());
    result.sum = result.others = result.maximum = std::numeric_limits<float>::quiet_NaN();
    return result;
  }
  // Eigen's maxCoeff with an index is not vectorised; a search for the value found is.
  result.maximum = row.maxCoeff();
  const std::int64_t largest = std::find(z, z + n, result.maximum) - z;
  result.largest = largest;
  if (result.maximum == -std::numeric_limits<float>::infinity()) {
    row.setZero();
    result.sum = result.others = 0.0;
    return result;
  }
  for (std::int64_t i = 0; i < n; ++i) z[i] = exp_nonpositive(z[i] - result.maximum);
  const double before = sum_in_double(z, largest);
  const double after = sum_in_double(z + largest + 1, n - largest - 1);
  result.others = before + after;
  result.sum = result.others + static_cast<double>(z[largest]);
  return result;
}

/// a (1 - a) of entry i, given its exponential e. Only an entry with more than half of the sum can
/// be so near 1 that 1 - a needs the sum of the others; it is then the largest, and the only one,
/// so that equal entries get equal results.
inline float jacobian_diagonal(const Exponentials& all, float e) {
  const double value = static_cast<double>(e);
  const double others = 2.0 * value > all.sum ? all.others : all.sum - value;
  return static_cast<float>(value * others / (all.sum * all.sum));
}

/// z - logsumexp(z), in double between.
inline void log_softmax(float* z, std::int64_t n) {
  const float maximum = ArrayMap<float>(z, n).maxCoeff<Eigen::PropagateNaN>();
  if (maximum == -std::numeric_limits<float>::infinity()) return;
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(z[i]) - maximum);
  const double log_sum = std::log(sum);
  for (std::int64_t i = 0; i < n; ++i) {
    // In this order, for logits so large that adding the logarithm to them would lose it.
    z[i] = static_cast<float>((static_cast<double>(z[i]) - static_cast<double>(maximum)) - log_sum);
  }
}

inline void softmax_impl(Resources& res, ScoreView<> scores, std::int64_t skip_first,
                         SoftmaxOutput output) {
  if (res.workspace().counting()) return;
  const float outside =
      output == SoftmaxOutput::log_probability ? -std::numeric_limits<float>::infinity() : 0.0f;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t skipped = std::min(skip_first, rows);
    float* z = scores.head(h);
    std::fill_n(z, skipped, outside);
    z += skipped;
    const std::int64_t n = rows - skipped;
    if (n == 0) return;
    if (output == SoftmaxOutput::log_probability) {
      log_softmax(z, n);
      return;
    }
    const Exponentials all = exponentials(z, n);
    if (all.sum == 0.0) return;
    if (output == SoftmaxOutput::probability) {
      const float scale = static_cast<float>(1.0 / all.sum);
      for (std::int64_t i = 0; i < n; ++i) z[i] *= scale;
    } else if (output == SoftmaxOutput::jacobian_diagonal) {
      for (std::int64_t i = 0; i < n; ++i) z[i] = jacobian_diagonal(all, z[i]);
    }
  });
}

}  // namespace kvevict::cpu
