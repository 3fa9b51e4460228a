// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kvevict/cpu/lanes.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cpu {

/// Queries of a block, one a lane.
inline constexpr std::int64_t block_queries = 64;

/// Softmax over the rows of a head for a block of queries whose logits, in base 2, come tile by
/// tile, and statistics of it. While a tile is still in the cache its logits are replaced by powers
/// of two relative to the largest so far and these are summed, so that every logit is written once
/// and read once and has one power made of it. What the later tiles change is a power of two for
/// each tile and query.
class LaneSoftmax {
 public:
  /// With `largest_apart` the weights at a query's largest logit are counted apart from the others,
  /// so that 1 - p of a weight near 1 loses no digits. `references` holds [tile][padded] floats.
  LaneSoftmax(std::int64_t padded, bool largest_apart, float* references)
      : padded_(padded), largest_apart_(largest_apart), references_(references) {
    std::fill_n(maximum_, padded, -std::numeric_limits<float>::infinity());
  }

  /// Takes the logits [rows][padded] of a tile, at row `first` of the head, and makes powers of
  /// them. No NaN and no +infinity gets lost: it makes the sum NaN.
  void observe(float* logits, std::int64_t first, std::int64_t rows) {
    float* references = references_ + first / tile_rows * padded_;
    for (std::int64_t lane = 0; lane < padded_; lane += lane_count) {
      FloatLanes largest = load_lanes(maximum_ + lane);
      for (std::int64_t i = 0; i < rows; ++i) {
        largest = larger_lanes(load_lanes(logits + i * padded_ + lane), largest);
      }
      raise(lane, largest, first);
      if (largest_apart_) {
        make_powers<true>(logits + lane, rows, lane);
      } else {
        make_powers<false>(logits + lane, rows, lane);
      }
      std::copy_n(reference_ + lane, lane_count, references + lane);
    }
  }

  /// Sum of the powers of lane q.
  double sum(std::int64_t q) const {
    return rest_[q] + largest_count_[q] * static_cast<double>(largest_[q]);
  }
  /// Sum of the weights of lane q beside its first largest one, in units of that one, when the
  /// largest are apart.
  double others(std::int64_t q) const {
    return rest_[q] / static_cast<double>(largest_[q]) + (largest_count_[q] - 1.0);
  }
  /// First row with the largest logit of lane q, when the largest are apart.
  std::int64_t find_largest(std::int64_t q, const float* powers) const {
    std::int64_t row = largest_tile_[q];
    while (powers[row * padded_ + q] != largest_[q]) ++row;
    return row;
  }

  /// Weights of lane q are powers / sum * weight from now on; until then they are 0.
  void set_weight(std::int64_t q, double weight) {
    factor_[q] = static_cast<float>(weight / sum(q));
  }

  /// The largest weight of lane q, in the bits that its row has been given, when the largest are
  /// apart.
  float largest_weight(std::int64_t q) const { return largest_[q] * factor_[q]; }

  /// What the powers of the tile at row `first` are multiplied by, [padded], and bits that are set
  /// for queries with weights.
  void tile_factors(std::int64_t first, float* factors, std::int32_t* used) const {
    const float* references = references_ + first / tile_rows * padded_;
    for (std::int64_t lane = 0; lane < padded_; lane += lane_count) {
      const FloatLanes last = load_lanes(reference_ + lane);
      const FloatLanes then = load_lanes(references + lane);
      // A tile without a logit above -infinity has a reference of 0, and no power but 0.
      const FloatLanes power = PowerLanes(last)(select_lanes(then < last, then, last));
      const FloatLanes factor = load_lanes(factor_ + lane);
      const BitLanes weighted = factor != broadcast(0.0f);
      store_lanes(factor * power, factors + lane);
      std::memcpy(used + lane, &weighted, sizeof weighted);
    }
  }

 private:
  /// New largest logits: what was summed so far is stated relative to the new references.
  void raise(std::int64_t lane, FloatLanes largest, std::int64_t first) {
    float raised[lane_count];
    store_lanes(largest, raised);
    for (std::int64_t i = 0; i < lane_count; ++i) {
      const std::int64_t q = lane + i;
      if (raised[i] == maximum_[q]) continue;
      const float reference = std::nearbyint(raised[i]);
      // Before the first logit above -infinity the sum is 0 or NaN, and the reference none.
      const bool first_one = maximum_[q] == -std::numeric_limits<float>::infinity();
      const double raised_by = static_cast<double>(reference) - static_cast<double>(reference_[q]);
      rest_[q] = first_one ? sum(q) : sum(q) * std::exp2(-raised_by);
      largest_count_[q] = 0.0;
      largest_tile_[q] = first;
      maximum_[q] = raised[i];
      reference_[q] = reference;
    }
    if (!largest_apart_) return;
    const PowerLanes power(load_lanes(reference_ + lane));
    store_lanes(power(load_lanes(maximum_ + lane)), largest_ + lane);
  }

  /// Summed in floats over some rows, whose powers are at most 2^(1/2), then in double.
  template <bool largest_apart>
  void make_powers(float* logits, std::int64_t rows, std::int64_t lane) {
    constexpr std::int64_t run = 32;
    const PowerLanes power(load_lanes(reference_ + lane));
    const FloatLanes largest = load_lanes(largest_ + lane);
    const FloatLanes one = broadcast(1.0f);
    const FloatLanes zero = broadcast(0.0f);
    for (std::int64_t begin = 0; begin < rows; begin += run) {
      FloatLanes rest = zero;
      FloatLanes count = zero;
      for (std::int64_t i = begin; i < std::min(rows, begin + run); ++i) {
        const FloatLanes p = power(load_lanes(logits + i * padded_));
        store_lanes(p, logits + i * padded_);
        if constexpr (largest_apart) {
          rest += select_lanes(p == largest, zero, p);
          count += select_lanes(p == largest, one, zero);
        } else {
          rest += p;
        }
      }
      float rests[lane_count];
      store_lanes(rest, rests);
      for (std::int64_t i = 0; i < lane_count; ++i) {
        rest_[lane + i] += static_cast<double>(rests[i]);
      }
      if constexpr (largest_apart) {
        float counts[lane_count];
        store_lanes(count, counts);
        for (std::int64_t i = 0; i < lane_count; ++i) {
          largest_count_[lane + i] += static_cast<double>(counts[i]);
        }
      }
    }
  }

  std::int64_t padded_;
  bool largest_apart_;
  float* references_;
  float maximum_[block_queries];
  float reference_[block_queries] = {};  // of the powers: the largest logit, rounded
  float largest_[block_queries] = {};    // power at the largest logit, where those are apart
  float factor_[block_queries] = {};
  double rest_[block_queries] = {};
  double largest_count_[block_queries] = {};
  std::int64_t largest_tile_[block_queries] = {};
};

/// What a statistic adds up of weights p.
template <AttentionStatistic statistic>
FloatLanes attention_term(FloatLanes p) {
  if constexpr (statistic == AttentionStatistic::root_mean_square) return p * p;
  if constexpr (statistic == AttentionStatistic::mean_jacobian_diagonal) return p * (1.0f - p);
  return p;
}

/// Weights of a row's powers from `lane` on. 0 for a query without weight, whatever its logits are.
inline FloatLanes weights_of(const float* powers, const float* factors, const std::int32_t* used,
                             std::int64_t lane) {
  BitLanes mask;
  std::memcpy(&mask, used + lane, sizeof mask);
  const FloatLanes weights = load_lanes(powers + lane) * load_lanes(factors + lane);
  return floats_of(bits_of(weights) & mask);
}

/// Adds what the block's queries give to each row of their heads, or raises it to the largest.
/// `outs` are the statistics of the block's query heads, each of which has the next `count` lanes.
template <AttentionStatistic statistic>
void add_attention_terms(const LaneSoftmax& block, const float* powers, std::int64_t rows,
                         std::int64_t padded, std::int64_t count, std::int64_t heads,
                         float* const* outs) {
  constexpr bool largest = statistic == AttentionStatistic::maximum;
  const auto combine = [](float a, float b) {
    if constexpr (largest) return a > b ? a : b;
    return a + b;
  };
  const bool whole_registers = heads == 1 || count % lane_count == 0;
  const std::int64_t width = heads == 1 ? padded : count;
  float factors[block_queries];
  std::int32_t used[block_queries];
  for (std::int64_t i = 0; i < rows; ++i, powers += padded) {
    if (i % tile_rows == 0) block.tile_factors(i, factors, used);
    const auto terms_at = [&](std::int64_t lane) {
      return attention_term<statistic>(weights_of(powers, factors, used, lane));
    };
    if (whole_registers) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t begin = h * width;
        FloatLanes terms = terms_at(begin);
        for (std::int64_t lane = begin + lane_count; lane < begin + width; lane += lane_count) {
          const FloatLanes more = terms_at(lane);
          terms = largest ? larger_lanes(terms, more) : terms + more;
        }
        outs[h][i] = combine(outs[h][i], largest ? largest_lane(terms) : sum_of_lanes(terms));
      }
      continue;
    }
    float terms[block_queries];
    for (std::int64_t lane = 0; lane < padded; lane += lane_count) {
      store_lanes(terms_at(lane), terms + lane);
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      float value = outs[h][i];
      for (std::int64_t q = h * width; q < (h + 1) * width; ++q) value = combine(value, terms[q]);
      outs[h][i] = value;
    }
  }
}

}  // namespace kvevict::cpu
