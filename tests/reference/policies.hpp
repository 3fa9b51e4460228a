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

// Root mean square over the probes of the group of how far the attention output moves when one row
// leaves, as it is or through W_O^(h). Without any other weight the output is 0.
struct DropLoss {
  bool output_projection = false;
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

// Softmax weights of the last query on the rows at its position and below (arXiv 2401.06104).
struct TOVA {
  Reduction reduction = Reduction::mean;
};

// The same as kvpress has it: the mean over all heads of the layer, in each of them.
struct LayerTOVA {};

// Partitions of `lag` rows measured against the next one (arXiv 2504.04704): per channel u = (x -
// min) / (max - min) of the next partition, constant channels left out; softmax over the partition
// of the standard deviation of u over channels; mean of keys' and values'. Without cross_scoring
// the rank of that / lag. Other rows get the largest; heads with fewer than skip_first + 2 lag rows
// are ranked by recency.
struct LagKV {
  std::size_t lag = 128;
  std::size_t skip_first = 4;
  bool cross_scoring = false;
};

// score = -(filter . k) (arXiv 2503.02812).
struct QFilter {};

// Attention in both directions within chunks of rows, summed over the queries of the chunk; mean
// over the group, times |v|, averaged over the kernel (arXiv 2507.08143). The first and last rows
// that are skipped take no part; a query belongs to the last chunk that begins at its position or
// below, to none in front of the rows that take part, or at or behind a row that is skipped at the
// end.
struct NonCausalAttention {
  std::size_t chunk = 256;
  bool padded = false;  // zero keys and queries fill up the last chunk and take part
  std::size_t kernel = 3;
  bool scale_logits = false;
  Reduction reduction = Reduction::mean;
};

// x_i^T (noise I + sum x x^T)^-1 x_i of keys less their mean, times the sketch where `sketched`.
struct LeverageScore {
  bool before_rope = true;
  Noise noise = {false, 0.01};
  bool sketched = false;
};

// blending * z(leverage) + z(attention), z-scores over the rows of a head that are not skipped;
// those get the largest score.
struct Compactor {
  LeverageScore leverage;
  NonCausalAttention attention;
  double blending = 0.35;
  std::size_t skip_first = 8;
  std::size_t skip_last = 4;
};

// The last and the first of these as kvpress has them: z-scores over the rows of all heads.
struct LayerNonCausalAttention {
  NonCausalAttention attention;
};
struct LayerCompactor {
  Compactor compactor;
};

// lambda I - (1 - lambda) R (arXiv 2505.24133): I the attention of the last `window` queries, mean,
// maximum over `kernel` rows before the window and over the group; R the softmax of the mean cosine
// with the other rows, without the latest other row above the threshold of each. Window rows get
// the largest score.
struct RKV {
  std::size_t window = 8;
  std::size_t kernel = 7;
  double lambda = 0.1;
  double threshold = 0.5;
  Reduction reduction = Reduction::max;
};

// Shares of the squared norms of keys and values in windows of rows, the last one cut (arXiv
// 2509.15038); divided by their sum. The first skip_first rows get the largest score.
struct CurDKV {
  enum class Leverage { key, value, average, product };
  Leverage leverage = Leverage::product;
  std::size_t window = 16;  // 0: all rows
  std::size_t skip_first = 4;
};

Scores score(const KNorm& policy, const Inputs& inputs);
Scores score(const KeyDiff& policy, const Inputs& inputs);
Scores score(const StreamingLLM& policy, const Inputs& inputs);
Scores score(const SnapKV& policy, const Inputs& inputs);
Scores score(const ProbeAttention& policy, const Inputs& inputs);
Scores score(const DropLoss& policy, const Inputs& inputs);
Scores score(const ExpectedAttention& policy, const Inputs& inputs);
Scores score(const Jacap& policy, const Inputs& inputs);
Scores score(const CapKV& policy, const Inputs& inputs);
Scores score(const TOVA& policy, const Inputs& inputs);
Scores score(const LayerTOVA& policy, const Inputs& inputs);
Scores score(const LagKV& policy, const Inputs& inputs);
Scores score(const QFilter& policy, const Inputs& inputs);
Scores score(const CurDKV& policy, const Inputs& inputs);
Scores score(const RKV& policy, const Inputs& inputs);
Scores score(const NonCausalAttention& policy, const Inputs& inputs);
Scores score(const LeverageScore& policy, const Inputs& inputs);
Scores score(const Compactor& policy, const Inputs& inputs);
Scores score(const LayerNonCausalAttention& policy, const Inputs& inputs);
Scores score(const LayerCompactor& policy, const Inputs& inputs);

// Mean cosine of each row with all others of the head, without the latest other row above the
// threshold of each.
std::vector<double> mean_similarity(const Matrix& rows, double threshold);

// k_i^T Lambda k_i for every row: 0 for `none`.
std::vector<double> quadratic_form(const Matrix& keys, const Matrix& lambda, Covariance part);

// Gives the first `count` entries the largest of the others; all 0 where there are no others.
void raise_first(std::vector<double>& scores, std::size_t count);

}  // namespace kvevict_test::reference
