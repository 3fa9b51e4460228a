// SPDX-License-Identifier: Apache-2.0
#include "reference/h2o.hpp"

#include <algorithm>

#include "reference/attention.hpp"

namespace kvevict_test::reference {
namespace {

Heads group_of(const Heads& heads, std::size_t kv_head, std::size_t group) {
  const auto first = heads.begin() + static_cast<std::ptrdiff_t>(kv_head * group);
  return {first, first + static_cast<std::ptrdiff_t>(group)};
}

Matrix chosen_rows(const Matrix& a, const Rows& rows) {
  Matrix out(rows.size(), a.cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t c = 0; c < a.cols; ++c) out(i, c) = a(rows[i], c);
  }
  return out;
}

}  // namespace

void H2OHead::observe(const Heads& queries, const Positions& query_positions, const Matrix& keys,
                      const Positions& row_positions) {
  mass_.resize(keys.rows, 0.0);
  seen_.resize(keys.rows, 0.0);
  std::vector<Matrix> weights;
  for (const Matrix& head : queries) {
    weights.push_back(causal_attention(head, query_positions, keys, row_positions));
  }
  for (std::size_t q = 0; q < query_positions.size(); ++q) {
    for (std::size_t i = 0; i < keys.rows; ++i) {
      if (policy_.accumulation == Accumulation::decay) mass_[i] *= policy_.decay;
      if (row_positions[i] <= query_positions[q]) seen_[i] += 1;
      for (const Matrix& head : weights) {
        if (policy_.accumulation == Accumulation::max) {
          mass_[i] = std::max(mass_[i], head(q, i));
        } else {
          mass_[i] += head(q, i) / static_cast<double>(weights.size());
        }
      }
    }
  }
}

void H2OHead::compact(const Rows& kept) {
  std::vector<double> mass;
  std::vector<double> seen;
  for (const std::size_t row : kept) {
    mass.push_back(mass_.at(row));
    seen.push_back(seen_.at(row));
  }
  mass_ = mass;
  seen_ = seen;
}

std::vector<double> H2OHead::scores() const {
  std::vector<double> out = mass_;
  if (policy_.accumulation == Accumulation::mean) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = seen_[i] > 0 ? out[i] / seen_[i] : 0;
  }
  return out;
}

Scores score(const H2O& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    H2OHead head(policy);
    head.observe(group_of(inputs.queries, g, inputs.group()), inputs.positions_of_queries(),
                 inputs.keys[g], inputs.positions_of_rows(g));
    out.push_back(head.scores());
  }
  return out;
}

Scores score(const KVzip&, const Inputs& inputs) {
  return score(H2O{.accumulation = Accumulation::max}, inputs);
}

H2ODecode h2o_decode(const H2O& policy, const Inputs& inputs, std::size_t steps, std::size_t heavy,
                     std::size_t recent) {
  H2ODecode out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    H2OHead head(policy);
    Rows rows;
    std::vector<Positions> history;
    for (std::size_t t = 0; t < steps; ++t) {
      rows.push_back(t);
      Heads query;
      for (const Matrix& all : group_of(inputs.queries, g, inputs.group())) {
        query.push_back(chosen_rows(all, {t}));
      }
      head.observe(query, {static_cast<std::int64_t>(t)}, chosen_rows(inputs.keys[g], rows),
                   Positions(rows.begin(), rows.end()));
      if (rows.size() > heavy + recent) {
        const std::vector<double> scores = head.scores();
        std::size_t lowest = 0;
        for (std::size_t i = 0; i + recent < rows.size(); ++i) {
          if (scores[i] <= scores[lowest]) lowest = i;
        }
        Rows stay;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          if (i != lowest) stay.push_back(i);
        }
        head.compact(stay);
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(lowest));
      }
      history.emplace_back(rows.begin(), rows.end());
    }
    out.kept.push_back(history);
    out.final_scores.push_back(head.scores());
  }
  return out;
}

}  // namespace kvevict_test::reference
