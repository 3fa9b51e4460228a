// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

// The noise s2 of a capacity matrix: a value, or that value times trace(sum w u u^T) / d.
struct Noise {
  bool relative = true;
  double value = 0.1;
};

// r_i = score_weight_i u_i^T A^-1 u_i with A = s2 I + sum_i capacity_weight_i u_i u_i^T. u_i = v_i
// where the metric is empty; otherwise u_i = W v_i for a W known only by metric = W^T W: no factor
// is taken, u_i^T A^-1 u_i = v_i^T (s2 I + metric S)^-1 metric v_i with S = sum w v v^T. d is the
// dimension of v in either case. All scores are 0 when the trace is 0 under relative noise.
std::vector<double> leverage(const Matrix& values, const Matrix& metric,
                             const std::vector<double>& capacity_weight,
                             const std::vector<double>& score_weight, Noise noise);

// log det(s2 I + sum_{i in rows} w_i u_i u_i^T) - log det s2 I.
double log_det(const Matrix& u, const std::vector<double>& weights, const Rows& rows, double s2);

// Rows up to `count` of them, ascending: `first`, then one after another the row with the largest
// log_det, found by evaluating all; of equal ones the first.
Rows greedy_log_det(const Matrix& u, const std::vector<double>& weights, double s2,
                    const Rows& first, std::size_t count);

// W^T W for the columns of one query head of the output projection [hidden, query_head * dim].
Matrix output_metric(const Matrix& output_projection, std::size_t query_head, std::size_t dim);

// Sum of the metrics of all query heads of a KV head: that of the stacked outputs.
Matrix group_output_metric(const Inputs& inputs, std::size_t kv_head);

// W_O^(h) v for each row: [row, hidden].
Matrix projected_values(const Inputs& inputs, std::size_t query_head);

}  // namespace kvevict_test::reference
