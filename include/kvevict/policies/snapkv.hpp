// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/policies/window_importance.hpp"

namespace kvevict {

/// Attention that the last w queries of the context pay to the rows before them (arXiv 2404.14469).
/// Per query head: causal softmax over all rows, mask by position; mean over the window's queries;
/// pooling along the rows before the window; reduction over the group. Rows of the window (at or
/// after the position of its first query) get the largest score of their head: protect them with
/// `recent = window`. A context no longer than the window scores all rows equally. Reads K once; 2
/// w N d flops for each query head, memory O(N) for a block of queries.
struct SnapKV {
  std::int64_t window = 64;  ///< queries used: the last of those given, or all if fewer
  std::int64_t kernel = 5;   ///< pooling width, odd
  Pooling pooling = Pooling::average;
  bool count_padding = true;  ///< zeros beyond the ends count in an average
  GroupReduction reduction = GroupReduction::mean;

  /// Class defaults of the authors' code and of kvpress: window 64, kernel 5, average.
  static SnapKV published() { return {}; }

  std::string_view name() const { return "SnapKV"; }
  EvidenceSet needs() const { return {EvidenceKind::query_window}; }
  /// Pooled means of a window were measured not to be.
  bool comparable_across_heads() const { return false; }
  Protect suggested_protection() const { return {.recent = window}; }

  void validate() const {
    require(window >= 1, "window", window, ">=", 1);
    require(kernel >= 1 && kernel % 2 == 1, "kernel", kernel, "odd and >= 1");
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const auto bound =
        detail::window_importance(res, cache, *evidence.query_window,
                                  {window, kernel, pooling, count_padding, reduction}, scores);
    raise_rows(res, cache.positions(), RaisedRows<R::space>{0, bound}, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("window", self.window, "last queries used");
    visit("kernel", self.kernel, "width of the pooling, odd");
    visit("pooling", self.pooling, "how neighbouring weights are pooled");
    visit("count_padding", self.count_padding, "zeros beyond the ends count in an average");
    visit("reduction", self.reduction, "over the query heads of a group");
  }

  friend bool operator==(const SnapKV&, const SnapKV&) = default;
};

}  // namespace kvevict
