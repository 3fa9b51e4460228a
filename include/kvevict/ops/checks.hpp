// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/queries.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/core/view.hpp"

namespace kvevict::detail {

/// Throws unless `scores` holds `group` rows of scores for every head of `rows`.
template <MemorySpace S>
void require_scores(const ScoreView<S>& scores, const RowLayout<S>& rows, std::int64_t group,
                    std::string_view name = "scores") {
  require(scores.data != nullptr || scores.layout.total() == 0, name, "null",
          "a pointer to scores");
  require(same_rows(scores.layout, rows.repeated(group)), name, "of another shape",
          "one score for each row of each head");
}

/// Query heads per KV head; throws unless the former are a positive multiple of the latter.
inline std::int64_t require_group(std::int64_t query_heads, std::int64_t kv_heads,
                                  std::string_view name) {
  if (kv_heads == 0) return 1;
  require(query_heads >= kv_heads && query_heads % kv_heads == 0, name, query_heads,
          "a positive multiple of the KV heads,", kv_heads);
  return query_heads / kv_heads;
}

inline void require_dim(std::int64_t dim, std::int64_t expected, std::string_view name) {
  require(dim == expected, name, dim, "equal to the dimension of the rows,", expected);
}

/// Throws unless rows of T can be computed and written.
template <class T>
void require_elements(std::string_view name) {
  require(Element<T>, name, "quantised", "float, half or bfloat16 to be changed",
          ErrorKind::unsupported);
}

/// Throws unless bytes of `from` are the same numbers in `to`. Scales may lie on a device: tables
/// are compared, not what they hold. Scales of rows are copied with the rows.
template <class T, MemorySpace S>
void require_same_scales(const RowsView<const T, S>& from, const RowsView<T, S>& to,
                         std::string_view name) {
  require(to.scales() == from.scales(), name, "another table",
          "that of the rows that are copied, whose bytes stay as they are", ErrorKind::unsupported);
  require(to.scaled_by_row() == from.scaled_by_row(), name,
          to.scaled_by_row() ? "by row" : "not by row",
          "as those of the rows that are copied, whose bytes stay as they are",
          ErrorKind::unsupported);
}

}  // namespace kvevict::detail
