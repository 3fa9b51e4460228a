// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/cpu/refit_fit.hpp"
#include "kvevict/cpu/refit_probes.hpp"
#include "kvevict/cpu/refit_scratch.hpp"
#include "kvevict/ops/refit.hpp"

namespace kvevict::cpu {

/// Relative errors of a candidate over parts of the probes.
struct RefitErrors {
  double checked;
  double all;
};

/// The refit of one KV head: T is the type that it is written in, so that candidates are judged as
/// they will be read.
template <class T>
class HeadRefit {
 public:
  HeadRefit(const RefitScratch& scratch, const RefitShape& shape, std::int64_t rows,
            const std::int32_t* kept, float scale, const RefitOptions& options)
      : s_(scratch), shape_(shape), rows_(rows), kept_(kept), scale_(scale), options_(options) {}

  std::int64_t probes() const { return s_.probes.count; }
  bool has_checks() const { return s_.probes.fitted < s_.probes.count; }

  /// Sets weights and residual to those of the kept rows as they were: before any candidate.
  void evict() {
    share_whole_attention();
    attend_shares(false);
    residual_of_old_values();
    std::copy_n(s_.residual, probes() * shape_.value_dim, s_.plain_residual);
  }

  /// Sets rows, weights and residual to those of a candidate, fitted to the first `fitted` probes.
  /// Returns false where it cannot be computed.
  bool fit(RefitKind kind, std::int64_t fitted) {
    const bool mass = kind == RefitKind::mass || kind == RefitKind::mass_and_values;
    const bool values = kind == RefitKind::values || kind == RefitKind::mass_and_values;
    std::copy_n(s_.old_keys, rows_ * shape_.dim, s_.keys);
    std::copy_n(s_.old_values, rows_ * shape_.value_dim, s_.values);
    if (mass) {
      if (!fit_mass(fitted)) return false;
      residual_of_old_values();
    } else {
      attend_shares(false);
      std::copy_n(s_.plain_residual, probes() * shape_.value_dim, s_.residual);
    }
    return !values || refit_values(fitted);
  }

  RefitErrors errors() const {
    const auto residual = map_matrix<const float>(s_.residual, probes(), shape_.value_dim);
    const auto target = map_matrix<const float>(s_.probes.target, probes(), shape_.value_dim);
    const std::int64_t checked = probes() - s_.probes.fitted;
    const auto ratio = [](const auto& error, const auto& whole) {
      const double size = std::sqrt(whole.template cast<double>().squaredNorm());
      const double wrong = std::sqrt(error.template cast<double>().squaredNorm());
      return wrong == 0.0 ? 0.0 : wrong / size;
    };
    return {ratio(residual.bottomRows(checked), target.bottomRows(checked)),
            ratio(residual, target)};
  }

  /// Largest |new - old| / |old| of a row; a row of zeros that changed counts as 1.
  static float largest_change(const float* now, const float* old, std::int64_t rows,
                              std::int64_t dim) {
    double largest = 0.0;
    for (std::int64_t j = 0; j < rows; ++j) {
      const auto before = VectorMap<const float>(old + j * dim, dim);
      const auto after = VectorMap<const float>(now + j * dim, dim);
      const double moved = wide_norm(after - before);
      if (moved == 0.0) continue;
      const double length = wide_norm(before);
      largest = std::max(largest, length > 0.0 ? moved / length : 1.0);
    }
    return static_cast<float>(largest);
  }

 private:
  /// shares[j][i] = the part of probe i's attention over the whole cache that kept row j gets.
  void share_whole_attention() {
    kept_logits(s_.old_keys, s_.shares);
    for (std::int64_t j = 0; j < rows_; ++j) {
      float* row = s_.shares + j * probes();
      for (std::int64_t i = 0; i < probes(); ++i) {
        // A logit can come out above the maximum by its rounding.
        const float z = std::min(row[i] - shift_of(s_.probes.largest[i]), 0.0f);
        const double mass = s_.probes.mass[i];
        row[i] = mass > 0.0 ? exp_nonpositive(z) * static_cast<float>(1.0 / mass) : 0.0f;
      }
    }
  }

  /// Mass weights, where they go, and the attention that the kept rows get by them.
  bool fit_mass(std::int64_t fitted) {
    MassFit mass_fit(map_matrix<const float>(s_.shares, rows_, probes()), fitted,
                     options_.mass_ridge, s_.pinned, s_.system);
    if (!mass_fit.run(s_.mass_weights)) return false;
    const float floor = static_cast<float>(options_.weight_floor);
    for (std::int64_t j = 0; j < rows_; ++j) {
      s_.mass_weights[j] = std::max(s_.mass_weights[j], floor);
    }
    if (options_.mass == RefitMass::absorbed) {
      absorb();
      attend_keys();
    } else {
      attend_shares(true);
    }
    return true;
  }

  /// residual = target - weights^T old values.
  void residual_of_old_values() {
    auto residual = map_matrix(s_.residual, probes(), shape_.value_dim);
    residual = map_matrix<const float>(s_.probes.target, probes(), shape_.value_dim);
    subtract_outputs(s_.old_values);
  }

  bool refit_values(std::int64_t fitted) {
    auto weights = map_matrix(s_.weights, rows_, probes());
    for (std::int64_t j = 0; j < rows_; ++j) {
      if (s_.pinned[j]) weights.row(j).setZero();
    }
    auto change = map_matrix(s_.change, rows_, shape_.value_dim);
    if (!fit_values(map_matrix<const float>(s_.weights, rows_, probes()), fitted,
                    map_matrix<const float>(s_.residual, probes(), shape_.value_dim),
                    options_.ridge, s_.system, change)) {
      return false;
    }
    for (std::int64_t i = 0; i < rows_ * shape_.value_dim; ++i) {
      s_.values[i] = static_cast<float>(static_cast<T>(s_.old_values[i] + s_.change[i]));
      s_.change[i] = s_.values[i] - s_.old_values[i];
    }
    subtract_outputs(s_.change);
    return true;
  }

  /// residual -= weights^T values [kept][value dim].
  void subtract_outputs(const float* values) {
    add_product(LeftOperand<float>{s_.weights, 1, probes()}, values, shape_.value_dim, probes(),
                shape_.value_dim, rows_, -1.0f, ProductPart::whole, s_.residual, shape_.value_dim);
  }

  /// keys[j] = old key + log(weight) u / scale, rounded to what is written.
  void absorb() {
    const std::int64_t dim = shape_.dim;
    for (std::int64_t j = 0; j < rows_; ++j) {
      if (s_.pinned[j]) continue;
      const double bias = std::log(static_cast<double>(s_.mass_weights[j])) / scale_;
      for (std::int64_t c = 0; c < dim; ++c) {
        const double moved = s_.old_keys[j * dim + c] + bias * s_.direction[c];
        s_.keys[j * dim + c] = static_cast<float>(static_cast<T>(static_cast<float>(moved)));
      }
    }
  }

  /// weights[j][i] = softmax over the kept rows with the keys as they were, and with the weights as
  /// a bias where `biased`: the shares, normalised, with no exponential anew.
  void attend_shares(bool biased) {
    const std::int64_t n = probes();
    float* sums = s_.shifts;
    std::fill_n(sums, n, 0.0f);
    for (std::int64_t j = 0; j < rows_; ++j) {
      const float* share = s_.shares + j * n;
      const float factor = biased ? s_.mass_weights[j] : 1.0f;
      float* row = s_.weights + j * n;
      for (std::int64_t i = 0; i < n; ++i) {
        row[i] = share[i] * factor;
        sums[i] += row[i];
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const bool certain = sums[i] >= least_share;
      if (!certain) attend_alone(i, biased);
      sums[i] = certain ? 1.0f / sums[i] : 1.0f;
    }
    normalise(sums);
  }

  /// The column of one probe to whose attention the kept rows contribute next to nothing, so that
  /// its shares have lost digits.
  void attend_alone(std::int64_t i, bool biased) {
    const std::int64_t n = probes();
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t j = 0; j < rows_; ++j) {
      float logit = -std::numeric_limits<float>::infinity();
      if (kept_[j] < s_.probes.rows[i]) {
        logit = 0.0f;
        for (std::int64_t c = 0; c < shape_.dim; ++c) {
          logit += s_.probes.queries[c * n + i] * s_.old_keys[j * shape_.dim + c];
        }
        if (biased) logit += std::log(s_.mass_weights[j]);
      }
      s_.weights[j * n + i] = logit;
      largest = std::max(largest, logit);
    }
    float sum = 0.0f;
    for (std::int64_t j = 0; j < rows_; ++j) {
      float& weight = s_.weights[j * n + i];
      weight = exp_nonpositive(weight - shift_of(largest));
      sum += weight;
    }
    if (!(sum > 0.0f)) return;
    for (std::int64_t j = 0; j < rows_; ++j) s_.weights[j * n + i] /= sum;
  }

  /// weights[j][i] = softmax over the kept rows with the keys as they will be written.
  void attend_keys() {
    const std::int64_t n = probes();
    kept_logits(s_.keys, s_.weights);
    float* largest = s_.shifts;
    float* sums = s_.shifts + n;
    std::fill_n(largest, n, -std::numeric_limits<float>::infinity());
    raise_to_columns(s_.weights, rows_, n, largest);
    std::fill_n(sums, n, 0.0f);
    for (std::int64_t j = 0; j < rows_; ++j) {
      float* row = s_.weights + j * n;
      for (std::int64_t i = 0; i < n; ++i) {
        row[i] = exp_nonpositive(row[i] - shift_of(largest[i]));
        sums[i] += row[i];
      }
    }
    for (std::int64_t i = 0; i < n; ++i) sums[i] = sums[i] > 0.0f ? 1.0f / sums[i] : sums[i];
    normalise(sums);
  }

  void normalise(const float* factors) {
    for (std::int64_t j = 0; j < rows_; ++j) {
      float* row = s_.weights + j * probes();
      for (std::int64_t i = 0; i < probes(); ++i) row[i] *= factors[i];
    }
  }

  void kept_logits(const float* keys, float* logits) {
    refit_logits(
        map_matrix<const float>(keys, rows_, shape_.dim), s_.probes, shape_.dim,
        [&](std::int64_t j) { return std::int64_t{kept_[j]}; }, logits);
  }

  /// Below it the shares of the kept rows may be denormal: those that matter to a sum of this size
  /// are above 1e-7 of it, far from the smallest normal number, 1e-38.
  static constexpr float least_share = 1e-25f;

  RefitScratch s_;
  RefitShape shape_;
  std::int64_t rows_;
  const std::int32_t* kept_;
  float scale_;
  const RefitOptions& options_;
};

}  // namespace kvevict::cpu
