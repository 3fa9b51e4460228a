// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/query_stats.hpp"

namespace kvevict::cpu {

/// Applies the mean rotation to the vector at `x` whose channels lie `stride` apart.
inline void apply_rotation(const Rope& rope, const MeanRotation& rotation, std::int64_t dim,
                           double* x, std::int64_t stride) {
  for (std::size_t pair = 0; pair < rotation.cosine.size(); ++pair) {
    double& a = x[rope.first_channel(static_cast<std::int64_t>(pair)) * stride];
    double& b = x[rope.second_channel(static_cast<std::int64_t>(pair), dim) * stride];
    const double turned = rotation.cosine[pair] * a - rotation.sine[pair] * b;
    b = rotation.sine[pair] * a + rotation.cosine[pair] * b;
    a = turned;
  }
}

/// out [dim][dim] = Rbar (weight * second) Rbar^T; `work` holds dim^2 doubles.
inline void rotate_covariance(const Rope& rope, const MeanRotation& rotation, std::int64_t dim,
                              const double* second, double weight, double* work, float* out) {
  for (std::int64_t r = 0; r < dim; ++r) {
    for (std::int64_t c = 0; c <= r; ++c) {
      work[r * dim + c] = work[c * dim + r] = weight * second[r * dim + c];
    }
  }
  for (std::int64_t c = 0; c < dim; ++c) apply_rotation(rope, rotation, dim, work + c, dim);
  for (std::int64_t r = 0; r < dim; ++r) apply_rotation(rope, rotation, dim, work + r * dim, 1);
  for (std::int64_t i = 0; i < dim * dim; ++i) out[i] = static_cast<float>(work[i]);
}

/// out [dim] = the diagonal of the same from variances and cross moments within pairs.
inline void rotate_variances(const Rope& rope, const MeanRotation& rotation, std::int64_t dim,
                             const double* second, double weight, float* out) {
  for (std::int64_t c = 0; c < dim; ++c) out[c] = static_cast<float>(weight * second[c]);
  for (std::size_t pair = 0; pair < rotation.cosine.size(); ++pair) {
    const std::int64_t a = rope.first_channel(static_cast<std::int64_t>(pair));
    const std::int64_t b = rope.second_channel(static_cast<std::int64_t>(pair), dim);
    const double c = rotation.cosine[pair];
    const double s = rotation.sine[pair];
    const double cross = 2.0 * c * s * second[dim + static_cast<std::int64_t>(pair)];
    out[a] = static_cast<float>(weight * (c * c * second[a] + s * s * second[b] - cross));
    out[b] = static_cast<float>(weight * (s * s * second[a] + c * c * second[b] + cross));
  }
}

inline void finish_query_stats_impl(Resources& res,
                                    const QueryMoments<MemorySpace::host, const double>& moments,
                                    double total_weight, const Rope& rope,
                                    const MeanRotation& rotation, Covariance covariance,
                                    MatrixView<float> mean, MatrixView<float> second) {
  const std::int64_t dim = moments.mean.shape[1];
  const std::int64_t work_size = covariance == Covariance::full ? dim * dim : dim;
  WorkspaceScope scope(res.workspace());
  double* works = scope.carve<double>("query_stats.work", res.threads() * work_size);
  if (res.workspace().counting()) return;
  const double weight = 1.0 / total_weight;
  res.parallel_for(moments.mean.shape[0], [&](std::int64_t q, int worker) {
    double* work = works + worker * work_size;
    for (std::int64_t c = 0; c < dim; ++c) work[c] = moments.mean(q, c);
    apply_rotation(rope, rotation, dim, work, 1);
    for (std::int64_t c = 0; c < dim; ++c) mean(q, c) = static_cast<float>(work[c]);
    if (covariance == Covariance::full) {
      rotate_covariance(rope, rotation, dim, &moments.second(q, 0), weight, work, &second(q, 0));
    } else if (covariance == Covariance::diagonal) {
      rotate_variances(rope, rotation, dim, &moments.second(q, 0), weight, &second(q, 0));
    }
  });
}

}  // namespace kvevict::cpu
