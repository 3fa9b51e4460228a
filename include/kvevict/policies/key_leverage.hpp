// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/ops/centred_leverage.hpp"

namespace kvevict {

/// Which keys have a leverage.
enum class LeverageKeys {
  before_rope,  ///< those of `KeysBeforeRope` (published)
  cached        ///< those of the cache, after RoPE: nothing more is needed
};

inline std::span<const EnumName<LeverageKeys>> enum_names(LeverageKeys) {
  static constexpr EnumName<LeverageKeys> names[] = {{LeverageKeys::before_rope, "before_rope"},
                                                     {LeverageKeys::cached, "cached"}};
  return names;
}

namespace detail {

/// How leverages of keys are taken.
struct KeyLeverage {
  LeverageKeys keys;
  std::int64_t sketch;  ///< width, 0 for none
  std::uint64_t seed;
  Noise noise;
  RowRange range;
};

template <class R, class T>
void key_leverage(R& res, const KvView<const T, R::space>& cache,
                  const Evidence<R::space>& evidence, const KeyLeverage& how,
                  ScoreView<R::space> scores) {
  const std::int64_t dim = cache.keys().dim();
  if (how.keys == LeverageKeys::before_rope) {
    std::visit(
        [&](const auto& rows) {
          require(rows.heads() == cache.heads(), "keys_before_rope.heads", rows.heads(),
                  "equal to the KV heads,", cache.heads());
          require(same_rows(rows.layout(), cache.layout()), "keys_before_rope.rows", "different",
                  "equal to those of the cache");
          require_dim(rows.dim(), dim, "keys_before_rope.dim");
        },
        evidence.keys_before_rope->rows);
  }
  WorkspaceScope scope(res.workspace());
  MatrixBatchView<const float, R::space> transforms;
  if (how.sketch > 0 && how.sketch < dim) {
    // One sketch for all heads, so that none depends on its number.
    const auto sketch = MatrixView<float, R::space>::packed(
        scope.carve<float>("key_leverage.sketch", dim * dim), dim, dim);
    gaussian_sketch(res, how.seed, how.sketch, sketch);
    transforms =
        MatrixBatchView<const float, R::space>::packed(sketch.data, cache.heads(), dim, dim);
    transforms.stride[0] = 0;
  }
  if (how.keys == LeverageKeys::cached) {
    centred_leverage(res, cache.keys(), transforms, how.range, how.noise, scores);
  } else {
    std::visit(
        [&](const auto& rows) {
          centred_leverage(res, rows, transforms, how.range, how.noise, scores);
        },
        evidence.keys_before_rope->rows);
  }
}

}  // namespace detail

}  // namespace kvevict
