// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

// What a row's score is made of: the sum of the attention it received (arXiv 2306.14048), that sum
// over the number of queries that could see the row, a sum in which every new query first
// multiplies what is there by `decay`, or the largest weight of any query and query head.
enum class Accumulation { sum, mean, decay, max };

struct H2O {
  Accumulation accumulation = Accumulation::sum;
  double decay = 0.99;
};

// Accumulated attention of the rows of one KV head.
class H2OHead {
 public:
  explicit H2OHead(H2O policy) : policy_(policy) {}

  // Adds the causal attention of a group's queries, [query_head of the group][query, dim], over the
  // rows now held; rows that are new since the last call begin at 0. Weights are averaged over the
  // group. Queries count in order.
  void observe(const Heads& queries, const Positions& query_positions, const Matrix& keys,
               const Positions& row_positions);

  // Keeps only these rows.
  void compact(const Rows& kept);

  std::vector<double> scores() const;

 private:
  H2O policy_;
  std::vector<double> mass_;
  std::vector<double> seen_;
};

// All queries of the context at once.
Scores score(const H2O& policy, const Inputs& inputs);

// The largest weight of any query of the group (KVzip, arXiv 2505.23416).
struct KVzip {};
Scores score(const KVzip& policy, const Inputs& inputs);

struct H2ODecode {
  std::vector<std::vector<Positions>> kept;  // [kv_head][step]: positions held after the step
  Scores final_scores;                       // of the rows held at the end
};

// Token by token: row t arrives, query t attends to the rows held and itself, and above heavy +
// recent rows the lowest score outside the last `recent` rows goes (of equal ones the later row).
H2ODecode h2o_decode(const H2O& policy, const Inputs& inputs, std::size_t steps, std::size_t heavy,
                     std::size_t recent);

}  // namespace kvevict_test::reference
