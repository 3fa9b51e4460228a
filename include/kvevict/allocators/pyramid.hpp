// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/allocators/weighted_division.hpp"
#include "kvevict/core/concepts.hpp"

namespace kvevict {

/// How layers and sequences of a flattened head axis follow each other.
enum class HeadOrder {
  layers_outermost,    ///< [layer][sequence][head]
  sequences_outermost  ///< [sequence][layer][head]
};

/// Rows of layer `layer` under PyramidKV (arXiv 2406.02069), before rounding: with m = kept,
///   lo = m / beta, hi = 2 m - lo;  if hi >= rows - window: hi = rows - window, lo = 2 m - hi;
///   n_l = hi - l (hi - lo) / (layers - 1),
/// and m for every layer unless rows >= hi >= lo >= window. The window counts inside n_l.
inline double pyramid_rows(std::int64_t rows, double kept, std::int64_t window, double beta,
                           std::int64_t layer, std::int64_t layers) {
  const auto length = static_cast<double>(rows);
  const auto least = static_cast<double>(window);
  double lo = kept / beta;
  double hi = 2.0 * kept - lo;
  if (hi >= length - least) {
    hi = length - least;
    lo = 2.0 * kept - hi;
  }
  const bool possible = length >= hi && hi >= lo && lo >= least;
  if (!possible || layers <= 1) return kept;
  return hi - static_cast<double>(layer) * (hi - lo) / static_cast<double>(layers - 1);
}

/// Low layers keep many rows, high layers few (PyramidKV, `pyramid_rows`). The layers' heads of one
/// number in one sequence divide what their shares sum to: counts are the pyramid's, rounded by
/// largest remainders, so that heads of a layer which hold equally many rows keep equally many, and
/// heads spread over processes need no exchange. Layers must be given all together. Reads no
/// scores.
///
/// Throws a budget error when protected rows and floors exceed what a column of layers has, or caps
/// stay below it.
struct PyramidBudget {
  std::int64_t heads_per_layer = 1;  ///< heads of a layer of a sequence
  std::int64_t sequences = 1;
  HeadOrder order = HeadOrder::layers_outermost;
  std::int64_t window = 64;  ///< fewest rows of the highest layer, otherwise all layers are equal
  double beta = 20.0;        ///< how steep: the highest layer keeps 1 / beta of the mean
  std::int64_t floor = 1;    ///< rows that every head keeps at least, protected ones included
  std::int64_t cap = max_rows_per_head;  ///< rows that a head keeps at most

  template <class R>
  void allocate(R& res, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    const RowLayout<> layout = input.scores.layout.host();
    const std::int64_t heads = layout.heads();
    detail::require_limits(floor, cap);
    require(heads_per_layer >= 1, "heads_per_layer", heads_per_layer, ">=", 1);
    require(sequences >= 1, "sequences", sequences, ">=", 1);
    require(window >= 0, "window", window, ">=", 0);
    require(beta >= 1.0 && beta < 1e30, "beta", beta, "finite and >=", 1);
    require(heads % (heads_per_layer * sequences) == 0, "heads", heads,
            "a multiple of heads_per_layer * sequences,", heads_per_layer * sequences);
    const std::int64_t layers = heads / (heads_per_layer * sequences);
    detail::HeadColumns columns{heads_per_layer * sequences, layers, heads_per_layer * sequences,
                                heads_per_layer * sequences};
    if (order == HeadOrder::sequences_outermost) columns.step = columns.columns = heads_per_layer;
    if (layers == 0) columns.count = 0;
    WorkspaceScope scope(res.host_workspace());
    auto* weights = scope.template carve<std::int64_t>("PyramidBudget.weights", heads);
    if (!res.workspace().counting()) {
      for (std::int64_t g = 0; g < columns.count; ++g) {
        std::int64_t rows = 0;
        std::int64_t total = 0;
        for (std::int64_t l = 0; l < layers; ++l) {
          rows = std::max(rows, layout.rows(columns.head(g, l)));
          total += input.shares[columns.head(g, l)];
        }
        const double kept = static_cast<double>(total) / static_cast<double>(layers);
        for (std::int64_t l = 0; l < layers; ++l) {
          const std::int64_t h = columns.head(g, l);
          const double wanted = pyramid_rows(rows, kept, window, beta, l, layers);
          // Where layers are equal they keep their own shares.
          weights[h] = detail::row_weight(
              is_level(rows, kept, layers) ? static_cast<double>(input.shares[h]) : wanted);
        }
      }
    }
    detail::divide_by_weights(res, input, weights, floor, cap, columns, {}, counts);
  }

  friend bool operator==(const PyramidBudget&, const PyramidBudget&) = default;

 private:
  bool is_level(std::int64_t rows, double kept, std::int64_t layers) const {
    return pyramid_rows(rows, kept, window, beta, 0, layers) == kept;
  }
};

}  // namespace kvevict
