// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/lane_products.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/math/exponential.hpp"

namespace kvevict::cpu {

/// The probes of one KV head, all query heads of its group under each other, in the order in which
/// a refit uses them: those that it fits to first, those that it checks itself against behind.
/// Matrices of weights are [row][probe], so that loops over probes run through adjacent memory.
struct RefitProbes {
  std::int64_t count = 0;        ///< of all
  std::int64_t fitted = 0;       ///< of those fitted to while candidates are compared
  float* queries = nullptr;      ///< [dim][count], times the logit scale
  std::int64_t* rows = nullptr;  ///< [count] rows of the cache that the probe sees
  float* largest = nullptr;      ///< [count] largest logit over the whole cache
  double* mass = nullptr;        ///< [count] sum of exp(logit - largest)
  float* target = nullptr;       ///< [count][value dim] attention output over the whole cache
};

/// Loads the queries of head h and what each of them sees. `row` holds one query.
inline void load_refit_probes(const ProbeQueries<>& given, std::int64_t h, std::int64_t group,
                              std::int64_t check_every, float scale, const PositionRow<>& positions,
                              std::int64_t cache_rows, float* row, RefitProbes& probes) {
  const QueriesView<>& queries = given.queries;
  const std::int64_t dim = queries.dim();
  probes.count = group * queries.count();
  std::int64_t at = 0;
  const auto take = [&](bool checked) {
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
      for (std::int64_t i = 0; i < queries.count(); ++i) {
        if ((check_every > 0 && i % check_every == check_every - 1) != checked) continue;
        load_queries(queries, q, i, 1, row);
        for (std::int64_t c = 0; c < dim; ++c)
          probes.queries[c * probes.count + at] = row[c] * scale;
        probes.rows[at] =
            given.mask == ProbeMask::none
                ? cache_rows
                : positions.count_below(std::int64_t{given.positions.at(h, i)} + 1, cache_rows);
        ++at;
      }
    }
  };
  take(false);
  probes.fitted = at;
  take(true);
}

/// logits[j][i] = keys[j] . queries[i], minus infinity where the probe does not see the row, whose
/// number in the cache is `row_of(j)`, ascending.
template <class Keys, class RowOf>
void refit_logits(const Keys& keys, const RefitProbes& probes, std::int64_t dim, RowOf&& row_of,
                  float* logits) {
  const std::int64_t rows = keys.rows();
  std::fill_n(logits, rows * probes.count, 0.0f);
  add_product(LeftOperand<float>{keys.data(), keys.outerStride(), 1}, probes.queries, probes.count,
              rows, probes.count, dim, 1.0f, ProductPart::whole, logits, probes.count);
  for (std::int64_t i = 0; i < probes.count; ++i) {
    for (std::int64_t j = rows; j > 0 && row_of(j - 1) >= probes.rows[i]; --j) {
      logits[(j - 1) * probes.count + i] = -std::numeric_limits<float>::infinity();
    }
  }
}

/// largest[i] = max(largest[i], max_j logits[j][i]).
inline void raise_to_columns(const float* logits, std::int64_t rows, std::int64_t columns,
                             float* largest) {
  for (std::int64_t j = 0; j < rows; ++j) {
    const float* row = logits + j * columns;
    for (std::int64_t i = 0; i < columns; ++i) largest[i] = std::max(largest[i], row[i]);
  }
}

/// A shift for exponentials that is finite also where nothing is seen.
inline float shift_of(float largest) {
  return largest == -std::numeric_limits<float>::infinity() ? 0.0f : largest;
}

/// Attention of the probes over the whole cache, in one pass over keys and values with running
/// maxima: fills largest, mass and target. `logits` holds [tile_rows][count], `shifts` [2][count].
template <class Keys, class Values>
void attend_whole_cache(const Keys& keys, const Values& values, std::int64_t rows, std::int64_t dim,
                        std::int64_t value_dim, float* key_tile, float* value_tile, float* logits,
                        float* shifts, RefitProbes& probes) {
  const std::int64_t n = probes.count;
  auto target = map_matrix(probes.target, n, value_dim);
  target.setZero();
  std::fill_n(probes.mass, n, 0.0);
  std::fill_n(probes.largest, n, -std::numeric_limits<float>::infinity());
  float* before = shifts;
  float* sums = shifts + n;
  for (std::int64_t first = 0; first < rows; first += tile_rows) {
    const std::int64_t count = std::min(tile_rows, rows - first);
    const auto key_block = load_tile(keys, first, count, key_tile);
    const auto value_block = load_tile(values, first, count, value_tile);
    refit_logits(
        key_block, probes, dim, [&](std::int64_t j) { return first + j; }, logits);
    std::copy_n(probes.largest, n, before);
    raise_to_columns(logits, count, n, probes.largest);
    std::fill_n(sums, n, 0.0f);
    for (std::int64_t j = 0; j < count; ++j) {
      float* row = logits + j * n;
      for (std::int64_t i = 0; i < n; ++i) {
        row[i] = exp_nonpositive(row[i] - shift_of(probes.largest[i]));
        sums[i] += row[i];
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const float factor = exp_nonpositive(before[i] - shift_of(probes.largest[i]));
      probes.mass[i] = probes.mass[i] * static_cast<double>(factor) + static_cast<double>(sums[i]);
      if (factor != 1.0f) target.row(i) *= factor;
    }
    add_product(LeftOperand<float>{logits, 1, n}, value_block.data(), value_block.outerStride(), n,
                value_dim, count, 1.0f, ProductPart::whole, target.data(), value_dim);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (probes.mass[i] > 0.0) target.row(i) *= static_cast<float>(1.0 / probes.mass[i]);
  }
}

}  // namespace kvevict::cpu
