// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/row_norms.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/ops/score_arithmetic.hpp"
#include "kvevict/ops/score_combination.hpp"

namespace kvevict {

/// Which rows' leverage CurDKV ranks by.
enum class CurLeverage { key, value, average, product };

inline std::span<const EnumName<CurLeverage>> enum_names(CurLeverage) {
  static constexpr EnumName<CurLeverage> names[] = {{CurLeverage::key, "key"},
                                                    {CurLeverage::value, "value"},
                                                    {CurLeverage::average, "average"},
                                                    {CurLeverage::product, "product"}};
  return names;
}

/// Value-guided CUR selection by approximate leverage (arXiv 2509.15038, as in kvpress' CURPress).
/// The leverage of a row is its share of the squared norms in its window,
///   a_i = |k_i|^2 / sum over the window of |k|^2,  b_i the same of values,
/// windows of `window` rows by row order (0: all rows); score_i = a_i, b_i, their average or their
/// product, divided by its sum over the head. A short last window is divided by its own sum, so
/// that its rows rank higher. The first `skip_first` rows count in the sums and get the largest
/// score of their head; a head without more rows scores all equally. No queries; one read of K and
/// of V, memory O(N).
///
/// Unlike kvpress, a window of zeros has shares of 0, not NaN, and norms are never estimated by a
/// random projection: reading them is as cheap.
struct CurDKV {
  CurLeverage leverage = CurLeverage::product;
  std::int64_t window = 16;
  std::int64_t skip_first = 4;

  /// kvpress' class defaults: products within windows of 16 rows, 4 sinks.
  static CurDKV published() { return {}; }
  /// The norms of the whole head.
  static CurDKV global() { return {.window = 0}; }

  std::string_view name() const { return "CurDKV"; }
  EvidenceSet needs() const { return {}; }
  bool comparable_across_heads() const { return false; }
  Protect suggested_protection() const { return {.sinks = skip_first}; }

  void validate() const {
    require(window >= 0, "window", window, ">=", 0);
    require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>&,
             ScoreView<R::space> scores) const {
    const auto shares_of = [&](const RowsView<const T, R::space>& rows, ScoreView<R::space> out) {
      row_norms(res, rows, 1.0f, out);
      window_shares(res, out, window, ReductionDomain::square_root);
    };
    if (leverage == CurLeverage::key) {
      shares_of(cache.keys(), scores);
    } else if (leverage == CurLeverage::value) {
      shares_of(cache.values(), scores);
    } else {
      WorkspaceScope scope(res.workspace());
      const ScoreView<R::space> of_values{
          scope.carve<float>("CurDKV.value_shares", cache.layout().total()), cache.layout()};
      shares_of(cache.keys(), scores);
      shares_of(cache.values(), of_values);
      if (leverage == CurLeverage::average) {
        // The sum of the head, which follows, takes the factor of an average out again.
        combine_scores(res, of_values, 1.0f, Combination::sum, scores);
      } else {
        multiply_scores(res, of_values, 0.0, false, scores);
      }
    }
    window_shares(res, scores, 0, ReductionDomain::linear);
    raise_rows(res, cache.positions(), RaisedRows<R::space>{skip_first, {}}, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
    visit("global", global());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("leverage", self.leverage, "of keys, of values, or of both");
    visit("window", self.window, "rows that norms are compared within; 0: all");
    visit("skip_first", self.skip_first, "rows ranked first");
  }

  friend bool operator==(const CurDKV&, const CurDKV&) = default;
};

}  // namespace kvevict
