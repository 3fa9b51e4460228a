// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/policies/key_leverage.hpp"

namespace kvevict {

/// Keeps keys that no combination of others replaces (arXiv 2507.08143): score_i = x_i^T (s2 I +
/// sum_j x_j x_j^T)^-1 x_i, the statistical leverage of the key before RoPE, centred over the rows
/// of its head, x_i = k_i - mean k. With a sketch of width w < d, x_i = S^T (k_i - mean k), S
/// Gaussian [d x w] with variance 1 / w and the same for all heads; of the dimension or more it
/// changes nothing. 0 <= score < 1. Three reads of the keys, 3 N d^2 flops; memory d^2 for each
/// thread or head of a batch. No queries.
///
/// Unlike kvpress, scores are the leverages themselves: its z-scores over all heads and sequences
/// keep the order within a head. By default there is no sketch, which would save nothing here.
struct LeverageScore {
  LeverageKeys keys = LeverageKeys::before_rope;
  std::int64_t sketch = 0;  ///< width of the random sketch, 0: exact
  std::uint64_t seed = 0;   ///< of the sketch
  Noise noise = Noise::absolute(0.01);

  /// kvpress' class default: a sketch of 48 numbers, jitter 0.01.
  static LeverageScore published() { return {.sketch = 48}; }

  std::string_view name() const { return "LeverageScore"; }
  EvidenceSet needs() const {
    if (keys == LeverageKeys::cached) return {};
    return {EvidenceKind::keys_before_rope};
  }
  /// Leverages are relative to their own head's keys.
  bool comparable_across_heads() const { return false; }

  void validate() const {
    require(sketch >= 0, "sketch", sketch, ">=", 0);
    require_valid(noise);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    detail::key_leverage(res, cache, evidence, {keys, sketch, seed, noise, {}}, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("keys", self.keys, "whose leverage it is");
    visit("sketch", self.sketch, "width of the random sketch, 0: exact");
    visit("seed", self.seed, "of the sketch");
    visit("noise", self.noise, "regulariser of the matrix");
  }

  friend bool operator==(const LeverageScore&, const LeverageScore&) = default;
};

}  // namespace kvevict
