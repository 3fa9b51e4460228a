// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/jacobian_capacity.hpp"

namespace kvevict::cpu {

/// One query head in double: its keys, what is seen of its values, and the softmax weights of the
/// mean query. Memory is the caller's, `size` doubles.
class JacobianHead {
 public:
  static std::int64_t size(std::int64_t rows, std::int64_t dim, std::int64_t channels) {
    return rows * (dim + channels + 2) + dim * dim + 3 * channels * dim + channels * channels +
           dim + channels;
  }

  JacobianHead(std::int64_t rows, std::int64_t dim, std::int64_t channels, double* memory)
      : rows_(rows), dim_(dim), channels_(channels) {
    const auto take = [&](std::int64_t count) {
      double* const from = memory;
      memory += count;
      return from;
    };
    keys_ = take(rows * dim);
    seen_ = take(rows * channels);
    weights_ = take(rows);
    others_ = take(rows);
    covariance_ = take(dim * dim);
    jacobian_ = take(channels * dim);
    rest_ = take(channels * dim);
    product_ = take(channels * dim);
    capacity_ = take(channels * channels);
    mean_key_ = take(dim);
    mean_seen_ = take(channels);
  }

  template <class T>
  void load(const HeadView<T>& keys, const HeadView<T>& values,
            const MatrixMap<const float>& transform, float* row) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      load_row(keys, i, row);
      map_matrix(keys_, rows_, dim_).row(i) =
          VectorMap<const float>(row, dim_).transpose().template cast<double>();
      load_row(values, i, row);
      const auto value = VectorMap<const float>(row, values.dim).transpose();
      auto seen = map_matrix(seen_, rows_, channels_);
      if (transform.data() == nullptr) {
        seen.row(i) = value.template cast<double>();
      } else {
        for (std::int64_t c = 0; c < channels_; ++c) {
          seen(i, c) = transform.row(c).template cast<double>().dot(value.template cast<double>());
        }
      }
    }
  }

  void set_queries(const QueryStatsView<>& stats, std::int64_t q, Covariance which, double scale) {
    scale_ = scale;
    auto covariance = map_matrix(covariance_, dim_, dim_);
    covariance.setZero();
    for (std::int64_t c = 0; c < dim_; ++c) {
      if (which == Covariance::full) {
        for (std::int64_t r = 0; r < dim_; ++r) {
          covariance(r, c) = static_cast<double>(stats.covariance(q, r, c));
        }
      } else {
        covariance(c, c) = static_cast<double>(stats.diagonal.empty() ? stats.covariance(q, c, c)
                                                                      : stats.diagonal(q, c));
      }
    }
    VectorMap<double> a(weights_, rows_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      a[i] = 0.0;
      for (std::int64_t c = 0; c < dim_; ++c) {
        a[i] += keys_[i * dim_ + c] * static_cast<double>(stats.mean(q, c));
      }
    }
    if (rows_ == 0) return;
    a = ((a.array() - a.maxCoeff()) * scale).exp();
    // 1 - a of each row, from the others: prefix sums, then what is behind.
    double before = 0.0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      others_[i] = before;
      before += a[i];
    }
    double behind = 0.0;
    for (std::int64_t i = rows_; i-- > 0;) {
      others_[i] = (others_[i] + behind) / before;
      behind += a[i];
    }
    a /= before;
  }

  /// J over all rows but `without` (-1: over all), whose weight the others take over.
  void form_jacobian(std::int64_t without) {
    const double left = without < 0 ? 1.0 : others_[without];
    VectorMap<double> key(mean_key_, dim_);
    VectorMap<double> seen(mean_seen_, channels_);
    auto jacobian = map_matrix(jacobian_, channels_, dim_);
    key.setZero();
    seen.setZero();
    jacobian.setZero();
    if (left == 0.0) return;
    for_rows(without, [&](std::int64_t i) {
      key += weights_[i] / left * key_of(i);
      seen += weights_[i] / left * seen_of(i);
    });
    for_rows(without, [&](std::int64_t i) {
      jacobian.noalias() +=
          (weights_[i] / left * scale_ * (seen_of(i) - seen)) * (key_of(i) - key).transpose();
    });
  }

  /// trace(J Lambda J^T); NaN if something is not finite.
  double trace() {
    form_capacity(map_matrix(jacobian_, channels_, dim_));
    return map_matrix(capacity_, channels_, channels_).trace();
  }

  /// 1/2 log det(I + J Lambda J^T / s2) of the Jacobian that was formed.
  double capacity(double s2) {
    form_capacity(map_matrix(jacobian_, channels_, dim_));
    return half_log_det(s2);
  }

  /// The same without row j, of a Jacobian that was formed over all rows.
  double capacity_without(std::int64_t j, double s2) {
    const double left = others_[j];
    auto jacobian = map_matrix(jacobian_, channels_, dim_);
    if (weights_[j] > 0.5) {
      form_jacobian(j);
      const double without = capacity(s2);
      form_jacobian(-1);
      return without;
    }
    const VectorMap<const double> key(mean_key_, dim_);
    const VectorMap<const double> seen(mean_seen_, channels_);
    auto rest = map_matrix(rest_, channels_, dim_);
    rest = jacobian;
    rest.noalias() -=
        (weights_[j] / left * scale_ * (seen_of(j) - seen)) * (key_of(j) - key).transpose();
    rest /= left;
    form_capacity(rest);
    return half_log_det(s2);
  }

 private:
  VectorMap<const double> key_of(std::int64_t i) const {
    return VectorMap<const double>(keys_ + i * dim_, dim_);
  }
  VectorMap<const double> seen_of(std::int64_t i) const {
    return VectorMap<const double>(seen_ + i * channels_, channels_);
  }
  template <class Use>
  void for_rows(std::int64_t without, Use&& use) const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      if (i != without) use(i);
    }
  }

  void form_capacity(const MatrixMap<double>& jacobian) {
    auto product = map_matrix(product_, channels_, dim_);
    product.noalias() = jacobian * map_matrix(covariance_, dim_, dim_);
    map_matrix(capacity_, channels_, channels_).noalias() = product * jacobian.transpose();
  }

  double half_log_det(double s2) {
    auto capacity = map_matrix(capacity_, channels_, channels_);
    capacity.diagonal().array() += s2;
    using InPlace = Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>>;
    InPlace column_major(Eigen::Map<Eigen::MatrixXd>(capacity.data(), channels_, channels_));
    const Eigen::LLT<InPlace> cholesky(column_major);
    double sum = 0.0;
    for (std::int64_t c = 0; c < channels_; ++c) sum += std::log(capacity(c, c) / std::sqrt(s2));
    return sum;
  }

  std::int64_t rows_;
  std::int64_t dim_;
  std::int64_t channels_;
  double scale_ = 1.0;
  double* keys_;
  double* seen_;
  double* weights_;
  double* others_;  ///< 1 - weights
  double* covariance_;
  double* jacobian_;
  double* rest_;
  double* product_;
  double* capacity_;
  double* mean_key_;
  double* mean_seen_;
};

template <class T>
void jacobian_capacity_losses_impl(Resources& res, const RowsView<T>& keys,
                                   const RowsView<T>& values, const QueryStatsView<>& stats,
                                   const MatrixBatchView<const float>& transforms,
                                   std::int64_t group, const JacobianCapacityOptions& options,
                                   std::span<double> capacities, std::span<double> losses) {
  const std::int64_t heads = keys.heads() * group;
  const std::int64_t dim = keys.dim();
  const bool projected = !transforms.empty();
  const std::int64_t channels = projected ? transforms.shape[1] : values.dim();
  const std::int64_t size = JacobianHead::size(keys.layout().longest(), dim, channels);
  const std::int64_t row_size = std::max(dim, values.dim());
  WorkspaceScope scope(res.workspace());
  double* memory = scope.carve<double>("jacobian_capacity.head", res.threads() * size);
  float* rows = scope.carve<float>("jacobian_capacity.row", res.threads() * row_size);
  bool* zeros = scope.carve<bool>("jacobian_capacity.zeros", heads);
  if (res.workspace().counting()) return;
  const double scale = 1.0 / (options.temperature * std::sqrt(static_cast<double>(dim)));
  const RowLayout<> layout = keys.layout().repeated(group);
  res.parallel_for(heads, [&](std::int64_t q, int worker) {
    const std::int64_t count = layout.rows(q);
    JacobianHead head(count, dim, channels, memory + worker * size);
    head.load(keys.head(q / group), values.head(q / group),
              projected
                  ? map_matrix(&transforms(q, 0, 0), channels, values.dim(), transforms.stride[1])
                  : map_matrix<const float>(nullptr, 0, 0),
              rows + worker * row_size);
    head.set_queries(stats, q, options.covariance, scale);
    head.form_jacobian(-1);
    const double trace = head.trace();
    const double s2 = options.noise.kind == Noise::Kind::absolute
                          ? options.noise.value
                          : options.noise.value * trace / static_cast<double>(channels);
    zeros[q] = trace == 0.0 || s2 == 0.0;
    double* const out = losses.data() + layout.offset(q);
    capacities[static_cast<std::size_t>(q)] = zeros[q] ? 0.0 : head.capacity(s2);
    for (std::int64_t j = 0; j < count; ++j) {
      out[j] =
          zeros[q] ? 0.0 : capacities[static_cast<std::size_t>(q)] - head.capacity_without(j, s2);
    }
  });
  for (std::int64_t q = 0; q < heads; ++q) res.report().zero_capacity_heads += zeros[q] ? 1 : 0;
}

}  // namespace kvevict::cpu
