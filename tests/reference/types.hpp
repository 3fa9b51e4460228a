// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Slow, plain double-precision implementations of what the library computes, written from the
// formulas with nothing but loops: the independent side of every numerical test. No header of the
// library is included here.
namespace kvevict_test::reference {

// Row-major.
struct Matrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<double> data;

  Matrix() = default;
  Matrix(std::size_t row_count, std::size_t col_count)
      : rows(row_count), cols(col_count), data(row_count * col_count, 0.0) {}

  double& operator()(std::size_t row, std::size_t col) { return data[row * cols + col]; }
  double operator()(std::size_t row, std::size_t col) const { return data[row * cols + col]; }
  bool empty() const { return data.empty(); }
};

// One matrix [row, dim] per head: heads may differ in their number of rows.
using Heads = std::vector<Matrix>;

// Token positions of rows or queries, ascending.
using Positions = std::vector<std::int64_t>;

// One number per row of each KV head; higher is kept.
using Scores = std::vector<std::vector<double>>;

// Row numbers, ascending.
using Rows = std::vector<std::size_t>;

// Mean and covariance (1/n) of the queries of each query head.
struct QueryStats {
  std::vector<std::vector<double>> mean;  // [query_head][dim]
  std::vector<Matrix> covariance;         // [query_head][dim, dim]
};

// How the query heads of one KV head are brought together.
enum class Reduction { mean, max, sum };

// Everything that a policy may read. Query head h belongs to KV head h / group().
struct Inputs {
  Heads keys;    // [kv_head][row, dim], after RoPE
  Heads values;  // [kv_head][row, value_dim]

  // Positions of the rows of each KV head; empty means 0, 1, 2, ...
  std::vector<Positions> row_positions;

  // Queries of the context after RoPE, [query_head][query, dim], and their positions, shared by all
  // heads; empty positions mean that the last query stands at the last position of KV head 0.
  Heads queries;
  Positions query_positions;

  QueryStats stats;

  // Queries that stand for the future, [query_head][probe, dim]. With positions they see the rows
  // at their position and below, without they see all rows.
  Heads probes;
  Positions probe_positions;

  Matrix output_projection;  // [hidden, query_head * value_dim]

  Matrix query_filter;     // [kv_head, dim]
  Heads keys_before_rope;  // as keys, or empty
  Heads sketches;          // [kv_head][dim, width], or empty

  std::size_t kv_heads() const { return keys.size(); }
  std::size_t query_heads() const;
  std::size_t group() const { return query_heads() / kv_heads(); }
  Positions positions_of_rows(std::size_t kv_head) const;
  Positions positions_of_queries() const;
};

// Contiguous values [head, row, dim] as one matrix per head.
template <class Values>
Heads split_heads(const Values& values, std::size_t heads, std::size_t rows, std::size_t dim) {
  Heads out(heads, Matrix(rows, dim));
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t i = 0; i < rows * dim; ++i) {
      out[head].data[i] = static_cast<double>(values[head * rows * dim + i]);
    }
  }
  return out;
}

// All heads one after another, as float: what the library is given.
std::vector<float> packed_float(const Heads& heads);

// Where each head starts in packed_float, counted in rows; one more entry than heads.
std::vector<std::int64_t> row_offsets(const Heads& heads);

// Brings the scores of the query heads of one KV head together: per_head[r][row].
std::vector<double> reduce(const std::vector<std::vector<double>>& per_head, Reduction reduction);

}  // namespace kvevict_test::reference
