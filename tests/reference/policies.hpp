// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/attention.hpp"
#include "reference/capacity.hpp"
#include "reference/types.hpp"

namespace kvevict_test::reference {

// Which part of the query covariance enters a quadratic form in the keys.
enum class Covariance { none, diagonal, full };

// score = -|k| (arXiv 2406.11430).
struct KNorm {};

// score = -cos(k, mean of k/|k|), 0 for zero keys (arXiv 2504.15364).
struct KeyDiff {};

// Rows at positions below `sinks` first, then the last ones. The scores only carry that order.
struct StreamingLLM {
  std::int64_t sinks = 4;
};

// Attention of the last `window` queries on the rows before them, pooled along rows (arXiv
// 2404.14469). Rows at the position of the first window query and above are window rows: they get
// the largest score of their head.
struct SnapKV {
  std::size_t window = 64;
  std::size_t kernel = 5;
  Pooling pooling = Pooling::average;
  bool count_padding = true;
  Reduction reduction = Reduction::mean;
};

// What multiplies an attention weight: nothing, |v| or |W_O^(h) v|.
enum class ValueNorm { none, norm, output_projection };

// Attention by a Gaussian of queries, times the norm of the value (arXiv 2510.00636).
// z = mu.k / sqrt d + k^T Lambda k / (2 d), a = softmax over the rows from skip_first on; the score
// is reduce_h(a_h), (reduce_h(a_h) + eps) |v| or reduce_h((a_h + eps) |W_O^(h) v|). The first
// skip_first rows get the largest score of their head. With log_domain the score is the logarithm
// of that.
struct ExpectedAttention {
  Covariance covariance = Covariance::full;
  ValueNorm value_norm = ValueNorm::norm;
  double epsilon = 0;
  bool epsilon_per_row = false;  // epsilon is in units of 1 / number of rows
  std::size_t skip_first = 4;
  Reduction reduction = Reduction::mean;
  bool log_domain = false;
};

// Mean, root mean square or maximum over the probes and the group of the attention weight on each
// row, each query head's times its value norm.
struct ProbeAttention {
  ProbeStatistic statistic = ProbeStatistic::max;
  ValueNorm value_norm = ValueNorm::none;
};

// Leverage in the capacity matrix of softmax-Jacobian weights (arXiv 2609.08131).
// Mean: a = softmax(k.mu / (tau sqrt d)), w = (a (1 - a))^2 k^T Lambda k / d; without covariance
// w = (a (1 - a))^2. Probes: w = (mean over probes of p (1 - p))^2. Pooled: one solve per KV head,
// after `reduction` of w (of probes: of the mean of p (1 - p)) over the group.
struct Jacap {
  double temperature = 1;
  Covariance covariance = Covariance::diagonal;
  Noise noise = {true, 0.1};
  bool output_projection = false;
  Reduction reduction = Reduction::mean;
  bool pooled = true;
  bool probes = false;
};

// Leverage with weights from the alignment of keys with the mean query (arXiv 2604.25975).
// reference: w = exp(sharpness (c - max c)), c = cosine(mu, k). paper: w = exp((l - max l) /
// temperature), l = k.mu / sqrt d. The score takes w, the capacity matrix w + epsilon in the
// reference form and w in the paper's. The first skip_first rows are left out everywhere and get
// the largest score of their head. Pooled: one solve per KV head after `reduction` of both weights.
struct CapKV {
  enum class Form { reference, paper };
  Form form = Form::paper;
  double sharpness = 5;
  double temperature = 1;
  double epsilon = 1e-6;
  std::size_t skip_first = 4;
  Noise noise = {true, 0.1};
  bool output_projection = false;
  Reduction reduction = Reduction::mean;
  bool pooled = false;
};

Scores score(const KNorm& policy, const Inputs& inputs);
Scores score(const KeyDiff& policy, const Inputs& inputs);
Scores score(const StreamingLLM& policy, const Inputs& inputs);
Scores score(const SnapKV& policy, const Inputs& inputs);
Scores score(const ProbeAttention& policy, const Inputs& inputs);
Scores score(const ExpectedAttention& policy, const Inputs& inputs);
Scores score(const Jacap& policy, const Inputs& inputs);
Scores score(const CapKV& policy, const Inputs& inputs);

// k_i^T Lambda k_i for every row: 0 for `none`.
std::vector<double> quadratic_form(const Matrix& keys, const Matrix& lambda, Covariance part);

// Gives the first `count` entries the largest of the others; all 0 where there are no others.
void raise_first(std::vector<double>& scores, std::size_t count);

}  // namespace kvevict_test::reference
