// SPDX-License-Identifier: Apache-2.0
// Attention without a causal mask, leverage of keys, and both blended.
#include <algorithm>
#include <cmath>

#include "reference/attention.hpp"
#include "reference/linear.hpp"
#include "reference/policies.hpp"

namespace kvevict_test::reference {
namespace {

// Rows [first, end) of each head take part.
struct Part {
  std::size_t first;
  std::size_t end;
};

Part part_of(std::size_t rows, std::size_t skip_first, std::size_t skip_last) {
  const std::size_t first = std::min(skip_first, rows);
  return {first, std::max(first, rows - std::min(skip_last, rows))};
}

// What the queries of one query head pay to each row of their chunk.
std::vector<double> chunk_attention(const NonCausalAttention& policy, const Matrix& queries,
                                    const Positions& query_positions, const Matrix& keys,
                                    const Positions& row_positions, Part part) {
  std::vector<double> received(keys.rows, 0.0);
  // The queries that fill up the last chunk spread evenly over all of its keys.
  const std::size_t short_rows = (part.end - part.first) % policy.chunk;
  for (std::size_t j = part.end - short_rows; policy.padded && j < part.end; ++j) {
    received[j] = 1 - static_cast<double>(short_rows) / static_cast<double>(policy.chunk);
  }
  for (std::size_t i = 0; i < queries.rows; ++i) {
    std::size_t reached = 0;  // rows at the query's position and below
    while (reached < keys.rows && row_positions[reached] <= query_positions[i]) ++reached;
    const bool behind = reached > part.end && part.end < keys.rows;
    if (reached <= part.first || behind || part.first == part.end) continue;
    reached = std::min(reached, part.end);
    const std::size_t begin = part.first + (reached - 1 - part.first) / policy.chunk * policy.chunk;
    const std::size_t end = std::min(begin + policy.chunk, part.end);
    std::vector<double> z;
    for (std::size_t j = begin; j < end; ++j) {
      z.push_back(dot(&queries.data[i * queries.cols], &keys.data[j * keys.cols], keys.cols));
      if (policy.scale_logits) z.back() /= std::sqrt(static_cast<double>(keys.cols));
    }
    if (policy.padded) z.resize(policy.chunk, 0.0);
    const std::vector<double> weights = softmax(z);
    for (std::size_t j = begin; j < end; ++j) received[j] += weights[j - begin];
  }
  return received;
}

std::vector<double> importance(const NonCausalAttention& policy, const Inputs& inputs,
                               std::size_t g, Part part) {
  const Matrix& values = inputs.values[g];
  std::vector<std::vector<double>> per_head;
  for (std::size_t r = 0; r < inputs.group(); ++r) {
    per_head.push_back(chunk_attention(policy, inputs.queries[g * inputs.group() + r],
                                       inputs.positions_of_queries(), inputs.keys[g],
                                       inputs.positions_of_rows(g), part));
  }
  std::vector<double> out = reduce(per_head, policy.reduction);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] *= norm(&values.data[i * values.cols], values.cols);
  }
  if (out.empty()) return out;
  return pool(out, policy.kernel, Pooling::average, true);
}

std::vector<double> leverage(const LeverageScore& policy, const Inputs& inputs, std::size_t g,
                             Part part) {
  const Matrix& keys = policy.before_rope ? inputs.keys_before_rope[g] : inputs.keys[g];
  std::vector<double> out(keys.rows, 0.0);
  if (part.first == part.end) return out;
  Matrix centred(part.end - part.first, keys.cols);
  for (std::size_t c = 0; c < keys.cols; ++c) {
    double mean = 0;
    for (std::size_t i = part.first; i < part.end; ++i) {
      mean += keys(i, c) / static_cast<double>(centred.rows);
    }
    for (std::size_t i = part.first; i < part.end; ++i) {
      centred(i - part.first, c) = keys(i, c) - mean;
    }
  }
  if (policy.sketched) centred = product(centred, inputs.sketches[g]);
  Matrix gram = product(transposed(centred), centred);
  const double noise = policy.noise.relative
                           ? policy.noise.value * trace(gram) / static_cast<double>(gram.rows)
                           : policy.noise.value;
  if (trace(gram) == 0) return out;
  for (std::size_t c = 0; c < gram.rows; ++c) gram(c, c) += noise;
  const LinearSystem system(gram);
  for (std::size_t i = 0; i < centred.rows; ++i) {
    const double* row = &centred.data[i * centred.cols];
    const std::vector<double> solved = system.solve({row, row + centred.cols});
    out[part.first + i] = dot(row, solved.data(), centred.cols);
  }
  return out;
}

// z-scores over the parts of several heads together.
void standardise(std::vector<std::vector<double>*> heads, const std::vector<Part>& parts) {
  double sum = 0;
  double count = 0;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (std::size_t i = parts[h].first; i < parts[h].end; ++i) {
      sum += (*heads[h])[i];
      ++count;
    }
  }
  const double mean = sum / count;
  double squares = 0;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (std::size_t i = parts[h].first; i < parts[h].end; ++i) {
      squares += ((*heads[h])[i] - mean) * ((*heads[h])[i] - mean);
    }
  }
  const double deviation = count > 1 ? std::sqrt(squares / (count - 1)) : 0;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (std::size_t i = parts[h].first; i < parts[h].end; ++i) {
      (*heads[h])[i] = ((*heads[h])[i] - mean) / std::max({deviation, 1e-6, 1e-4 * std::abs(mean)});
    }
  }
}

void standardise(Scores& scores, const std::vector<Part>& parts, bool together) {
  std::vector<std::vector<double>*> all;
  for (std::size_t h = 0; h < scores.size(); ++h) {
    all.push_back(&scores[h]);
    if (!together) standardise({&scores[h]}, {parts[h]});
  }
  if (together) standardise(all, parts);
}

Scores blended(const Compactor& policy, const Inputs& inputs, bool together) {
  std::vector<Part> parts;
  Scores leverages;
  Scores attention;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    parts.push_back(part_of(inputs.keys[g].rows, policy.skip_first, policy.skip_last));
    leverages.push_back(leverage(policy.leverage, inputs, g, parts[g]));
    attention.push_back(importance(policy.attention, inputs, g, parts[g]));
  }
  standardise(leverages, parts, together);
  standardise(attention, parts, together);
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    const auto [first, end] = parts[g];
    std::vector<double>& head = attention[g];
    double largest = 0;
    for (std::size_t i = first; i < end; ++i) {
      head[i] += policy.blending * leverages[g][i];
      if (i == first || head[i] > largest) largest = head[i];
    }
    for (std::size_t i = 0; i < head.size(); ++i) {
      if (i < first || i >= end) head[i] = largest;
    }
  }
  return attention;
}

}  // namespace

Scores score(const NonCausalAttention& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    out.push_back(importance(policy, inputs, g, {0, inputs.keys[g].rows}));
  }
  return out;
}

Scores score(const LeverageScore& policy, const Inputs& inputs) {
  Scores out;
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    out.push_back(leverage(policy, inputs, g, {0, inputs.keys[g].rows}));
  }
  return out;
}

Scores score(const Compactor& policy, const Inputs& inputs) {
  return blended(policy, inputs, false);
}

Scores score(const LayerNonCausalAttention& policy, const Inputs& inputs) {
  Scores out = score(policy.attention, inputs);
  std::vector<Part> parts;
  for (const std::vector<double>& head : out) parts.push_back({0, head.size()});
  standardise(out, parts, true);
  return out;
}

Scores score(const LayerCompactor& policy, const Inputs& inputs) {
  return blended(policy.compactor, inputs, true);
}

}  // namespace kvevict_test::reference
