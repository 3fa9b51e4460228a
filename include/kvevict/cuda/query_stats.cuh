// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/channel_slots.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/upload.cuh"
#include "kvevict/ops/query_stats.hpp"

namespace kvevict::cuda {

namespace detail {

/// A slot's block of the mean rotation, [[cosine, -sine], [sine, cosine]]; the identity for a
/// channel that stays.
struct SlotRotation {
  double cosine;
  double sine;

  __device__ SlotRotation(const ChannelSlots& slots, std::int64_t slot, const double* cosines,
                          const double* sines)
      : cosine(slots.paired(slot) ? cosines[slot] : 1.0),
        sine(slots.paired(slot) ? sines[slot] : 0.0) {}

  __device__ void turn(double& a, double& b) const {
    const double turned = cosine * a - sine * b;
    b = sine * a + cosine * b;
    a = turned;
  }
};

using DeviceMatrix = MatrixView<float, MemorySpace::device>;
using FinishedMoments = QueryMoments<MemorySpace::device, const double>;

/// Means and, if wanted, variances: a thread for each head and slot.
static __global__ void __launch_bounds__(128)
    finish_slots(FinishedMoments moments, double weight, ChannelSlots slots, const double* cosines,
                 const double* sines, bool variances, DeviceMatrix mean, DeviceMatrix second) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 128 + threadIdx.x;
  const std::int64_t q = i / slots.count();
  if (q >= mean.shape[0]) return;
  const std::int64_t slot = i % slots.count();
  const SlotRotation rotation(slots, slot, cosines, sines);
  const bool paired = slots.paired(slot);
  const std::int64_t a = slots.first(slot);
  const std::int64_t b = paired ? slots.second(slot) : a;
  double x = moments.mean(q, a);
  double y = paired ? moments.mean(q, b) : 0.0;
  if (paired) rotation.turn(x, y);
  mean(q, a) = static_cast<float>(x);
  if (paired) mean(q, b) = static_cast<float>(y);
  if (!variances) return;
  if (!paired) {
    second(q, a) = static_cast<float>(weight * moments.second(q, a));
    return;
  }
  const double c = rotation.cosine;
  const double s = rotation.sine;
  const double of_a = moments.second(q, a);
  const double of_b = moments.second(q, b);
  const double cross = 2.0 * c * s * moments.second(q, slots.dim + slot);
  second(q, a) = static_cast<float>(weight * (c * c * of_a + s * s * of_b - cross));
  second(q, b) = static_cast<float>(weight * (s * s * of_a + c * c * of_b + cross));
}

/// Covariances: a thread for each head and two slots, which turns the block of up to 2 x 2 entries
/// between them.
static __global__ void __launch_bounds__(128)
    finish_covariances(FinishedMoments moments, double weight, ChannelSlots slots,
                       const double* cosines, const double* sines, DeviceMatrix second) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 128 + threadIdx.x;
  const std::int64_t of_head = slots.count() * slots.count();
  const std::int64_t q = i / of_head;
  if (q >= second.shape[0]) return;
  const std::int64_t slot[2] = {i % of_head / slots.count(), i % slots.count()};
  std::int64_t channel[2][2];
  int sides[2];
  for (int k = 0; k < 2; ++k) {
    sides[k] = slots.paired(slot[k]) ? 2 : 1;
    channel[k][0] = slots.first(slot[k]);
    channel[k][1] = sides[k] == 2 ? slots.second(slot[k]) : channel[k][0];
  }
  double block[2][2] = {};
  for (int r = 0; r < sides[0]; ++r) {
    for (int c = 0; c < sides[1]; ++c) {
      const std::int64_t row = channel[0][r];
      const std::int64_t column = channel[1][c];
      // Only the lower triangle is kept up to date.
      block[r][c] = weight * (row >= column ? moments.second(q, row * slots.dim + column)
                                            : moments.second(q, column * slots.dim + row));
    }
  }
  const SlotRotation left(slots, slot[0], cosines, sines);
  const SlotRotation right(slots, slot[1], cosines, sines);
  if (sides[0] == 2) {
    for (int c = 0; c < sides[1]; ++c) left.turn(block[0][c], block[1][c]);
  }
  if (sides[1] == 2) {
    for (int r = 0; r < sides[0]; ++r) right.turn(block[r][0], block[r][1]);
  }
  for (int r = 0; r < sides[0]; ++r) {
    for (int c = 0; c < sides[1]; ++c) {
      second(q, channel[0][r] * slots.dim + channel[1][c]) = static_cast<float>(block[r][c]);
    }
  }
}

}  // namespace detail

/// Does not wait.
inline void finish_query_stats_impl(Resources& res,
                                    const QueryMoments<MemorySpace::device, const double>& moments,
                                    double total_weight, const Rope& rope,
                                    const MeanRotation& rotation, Covariance covariance,
                                    MatrixView<float, MemorySpace::device> mean,
                                    MatrixView<float, MemorySpace::device> second) {
  const std::int64_t heads = moments.mean.shape[0];
  const ChannelSlots slots(rope, moments.mean.shape[1]);
  WorkspaceScope scope(res.workspace());
  auto* cosines = scope.carve<double>("query_stats.cosines", slots.pairs);
  auto* sines = scope.carve<double>("query_stats.sines", slots.pairs);
  if (res.workspace().counting()) return;
  upload(res.stream(), rotation.cosine.data(), slots.pairs, cosines);
  upload(res.stream(), rotation.sine.data(), slots.pairs, sines);
  const double weight = 1.0 / total_weight;
  launch(res, "finish_slots", detail::finish_slots, tiles_of(heads * slots.count(), 128), 128, 0,
         moments, weight, slots, cosines, sines, covariance == Covariance::diagonal, mean, second);
  if (covariance == Covariance::full) {
    launch(res, "finish_covariances", detail::finish_covariances,
           tiles_of(heads * slots.count() * slots.count(), 128), 128, 0, moments, weight, slots,
           cosines, sines, second);
  }
}

}  // namespace kvevict::cuda
