// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/cpu/lanes.hpp"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cpu {

/// Queries of a block, one a lane.
inline constexpr std::int64_t block_queries = 64;

/// Softmax over the rows of a head for a block of queries whose logits come tile by tile, and
/// statistics of it. What a softmax needs of all rows, the largest logit and the sum of
/// exponentials, is gathered while a tile is still in the cache; the weights are made when they are
/// added up, so that a logit is written once and read once.
class LaneSoftmax {
 public:
  explicit LaneSoftmax(std::int64_t padded) : padded_(padded) {
    std::fill_n(maximum_, padded, -std::numeric_limits<float>::infinity());
  }

  /// Takes logits [rows][padded], which start at row `first` of the head. No NaN and no +infinity
  /// gets lost: it makes the sum NaN.
  void observe(const float* logits, std::int64_t first, std::int64_t rows) {
    for (std::int64_t lane = 0; lane < padded_; lane += lane_count) {
      FloatLanes largest = load_lanes(maximum_ + lane);
      for (std::int64_t i = 0; i < rows; ++i) {
        largest = larger_lanes(load_lanes(logits + i * padded_ + lane), largest);
      }
      raise(lane, largest, first);
      add_exponentials(logits + lane, rows, lane);
    }
  }

  /// Sum of exponentials of lane q, in units of its largest.
  double sum(std::int64_t q) const { return rest_[q] + largest_count_[q]; }
  /// The same without the largest, so that 1 - p of a weight near 1 loses no digits.
  double others(std::int64_t q) const { return rest_[q] + (largest_count_[q] - 1.0); }
  /// First row with the largest logit of lane q.
  std::int64_t find_largest(std::int64_t q, const float* logits) const {
    std::int64_t row = largest_tile_[q];
    while (logits[row * padded_ + q] != maximum_[q]) ++row;
    return row;
  }

  /// Weights of lane q are exponentials / sum * weight from now on; until then they are 0.
  void set_weight(std::int64_t q, double weight) {
    factor_[q] = static_cast<float>(weight / sum(q));
  }

  /// Weights of a row of logits in `lane` and those behind it. 0 for a query without weight,
  /// whatever its logits are.
  FloatLanes weights(const float* row, std::int64_t lane) const {
    const FloatLanes factor = load_lanes(factor_ + lane);
    const FloatLanes zero = broadcast(0.0f);
    const FloatLanes e = exp_lanes(load_lanes(row + lane) - reference(lane));
    return select_lanes(factor == zero, zero, e * factor);
  }

 private:
  /// What is subtracted from the logits: 0 instead of a largest logit of -infinity.
  FloatLanes reference(std::int64_t lane) const {
    const FloatLanes largest = load_lanes(maximum_ + lane);
    const FloatLanes none = broadcast(-std::numeric_limits<float>::infinity());
    return select_lanes(largest == none, broadcast(0.0f), largest);
  }

  /// New largest logits: what was summed so far is stated in units of their exponentials.
  void raise(std::int64_t lane, FloatLanes largest, std::int64_t first) {
    float raised[lane_count];
    store_lanes(largest, raised);
    for (std::int64_t i = 0; i < lane_count; ++i) {
      const std::int64_t q = lane + i;
      if (raised[i] == maximum_[q]) continue;
      rest_[q] =
          sum(q) * std::exp(static_cast<double>(maximum_[q]) - static_cast<double>(raised[i]));
      largest_count_[q] = 0.0;
      largest_tile_[q] = first;
      maximum_[q] = raised[i];
    }
  }

  /// In floats over some rows, whose exponentials are at most 1, then in double.
  void add_exponentials(const float* logits, std::int64_t rows, std::int64_t lane) {
    constexpr std::int64_t run = 32;
    const FloatLanes largest = reference(lane);
    const FloatLanes one = broadcast(1.0f);
    const FloatLanes zero = broadcast(0.0f);
    for (std::int64_t begin = 0; begin < rows; begin += run) {
      FloatLanes rest = zero;
      FloatLanes count = zero;
      for (std::int64_t i = begin; i < std::min(rows, begin + run); ++i) {
        const FloatLanes e = exp_lanes(load_lanes(logits + i * padded_) - largest);
        rest += select_lanes(e == one, zero, e);
        count += select_lanes(e == one, one, zero);
      }
      float rests[lane_count];
      float counts[lane_count];
      store_lanes(rest, rests);
      store_lanes(count, counts);
      for (std::int64_t i = 0; i < lane_count; ++i) {
        rest_[lane + i] += static_cast<double>(rests[i]);
        largest_count_[lane + i] += static_cast<double>(counts[i]);
      }
    }
  }

  std::int64_t padded_;
  float maximum_[block_queries];
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

/// Adds what the block's queries give to each row of their heads, or raises it to the largest.
/// `outs` are the statistics of the block's query heads, each of which has the next `count` lanes.
template <AttentionStatistic statistic>
void add_attention_terms(const LaneSoftmax& block, const float* logits, std::int64_t rows,
                         std::int64_t padded, std::int64_t count, std::int64_t heads,
                         float* const* outs) {
  constexpr bool largest = statistic == AttentionStatistic::maximum;
  const auto combine = [](float a, float b) {
    if constexpr (largest) return a > b ? a : b;
    return a + b;
  };
  const bool whole_registers = heads == 1 || count % lane_count == 0;
  const std::int64_t width = heads == 1 ? padded : count;
  for (std::int64_t i = 0; i < rows; ++i, logits += padded) {
    if (whole_registers) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t begin = h * width;
        FloatLanes terms = attention_term<statistic>(block.weights(logits, begin));
        for (std::int64_t lane = begin + lane_count; lane < begin + width; lane += lane_count) {
          const FloatLanes more = attention_term<statistic>(block.weights(logits, lane));
          terms = largest ? larger_lanes(terms, more) : terms + more;
        }
        outs[h][i] = combine(outs[h][i], largest ? largest_lane(terms) : sum_of_lanes(terms));
      }
      continue;
    }
    float terms[block_queries];
    for (std::int64_t lane = 0; lane < padded; lane += lane_count) {
      store_lanes(attention_term<statistic>(block.weights(logits, lane)), terms + lane);
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      float value = outs[h][i];
      for (std::int64_t q = h * width; q < (h + 1) * width; ++q) value = combine(value, terms[q]);
      outs[h][i] = value;
    }
  }
}

}  // namespace kvevict::cpu
