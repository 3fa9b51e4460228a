// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/cuda/compat.cuh"
#include "kvevict/math/exponential.hpp"

namespace kvevict::cuda {

// Constants, since kernels cannot call the functions of numeric_limits.
inline constexpr float float_infinity = std::numeric_limits<float>::infinity();
inline constexpr float float_nan = std::numeric_limits<float>::quiet_NaN();

/// exp(z - base) in fp32, as the CPU forms it.
struct FastExponential {
  __device__ float operator()(float z, float base) const { return exp_nonpositive(z - base); }
};

/// exp(z - base) in double, for logarithms that are stored to the last bit.
struct ExactExponential {
  __device__ double operator()(float z, float base) const {
    return std::exp(static_cast<double>(z) - static_cast<double>(base));
  }
};

/// What a softmax needs to know of a set of logits: the largest, and the sum of exp(z - maximum)
/// over all but one largest, so that 1 - a of a dominant logit loses no digits. States of disjoint
/// sets merge into that of their union. A NaN among the logits is in `others`; a +infinity is the
/// maximum.
struct SoftmaxState {
  float maximum;
  double others;

  /// Of no logits. Not a default, which shared memory does not allow.
  KVEVICT_HOST_DEVICE static SoftmaxState none() { return {-float_infinity, 0.0}; }

  /// Whether the softmax has no value.
  KVEVICT_HOST_DEVICE bool broken() const { return others != others || maximum == float_infinity; }
  /// The sum of all exponentials: 0 without logits above -infinity.
  KVEVICT_HOST_DEVICE double sum() const {
    return maximum == -float_infinity ? others : others + 1.0;
  }

  /// Adds the logits value(0) .. value(Count - 1); -infinity stands for none. Exponentials are
  /// summed in four chains of Count / 4 and then in double.
  template <int Count, class Exponential, class Value>
  __device__ void add(Exponential exponential, Value value) {
    static_assert(Count % 4 == 0);
    float largest = -float_infinity;
    int at = -1;
    for (int first = 0; first < Count; first += 4) {
      KVEVICT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float z = value(first + i);
        at = z > largest ? first + i : at;
        largest = z > largest ? z : largest;
      }
    }
    if (largest > maximum) {
      others = (others + 1.0) * static_cast<double>(exponential(maximum, largest));
      maximum = largest;
    } else {
      at = -1;  // the one that is left out stays where it was
    }
    // -infinity minus itself would be NaN.
    const float base = maximum == -float_infinity ? 0.0f : maximum;
    using Number = decltype(exponential(base, base));
    Number sums[4] = {};
    for (int first = 0; first < Count; first += 4) {
      KVEVICT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Number e = exponential(value(first + i), base);
        sums[i] += first + i == at ? Number{0} : e;
      }
    }
    others += static_cast<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  /// Adds the logits of another state.
  template <class Exponential>
  __device__ void merge(Exponential exponential, const SoftmaxState& more) {
    if (more.maximum == -float_infinity) {
      others += more.others;  // nothing, or NaN
    } else if (more.maximum > maximum) {
      const auto factor = static_cast<double>(exponential(maximum, more.maximum));
      others = (others + 1.0) * factor + more.others;
      maximum = more.maximum;
    } else {
      const auto factor = static_cast<double>(exponential(more.maximum, maximum));
      others += (more.others + 1.0) * factor;
    }
  }
};

/// The state of a whole warp, in its first lane. One fixed tree.
template <class Exponential>
__device__ SoftmaxState merge_lanes(Exponential exponential, SoftmaxState state) {
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    const auto distance = static_cast<unsigned>(offset);
    const SoftmaxState upper{__shfl_down_sync(full_warp, state.maximum, distance),
                             __shfl_down_sync(full_warp, state.others, distance)};
    state.merge(exponential, upper);
  }
  return state;
}

}  // namespace kvevict::cuda
