// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cell.hpp"

namespace evaluate {

/// A mean over contexts and the interval in which it lies in 95 of 100 samples of as many contexts,
/// drawn with replacement.
struct Estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

/// Percentile bootstrap of the mean: 10,000 resamples, the same for the same seed on every machine.
/// NaN for no values.
Estimate bootstrap_mean(std::span<const double> values, std::uint64_t seed = 0);

/// The contexts of one policy, budget, refit, protection and ratio together, texts and tasks apart:
/// what serves one need not serve the other. Paired values compare with another row of the same
/// context; contexts that lack it are left out of them.
struct SummaryRow {
  Cell name;  ///< its naming members; of the context's the kind, texts or tasks, and the use if
              ///< asked
  std::int64_t contexts = 0;
  double error = 0.0;     ///< mean over contexts
  Estimate recovered;     ///< (Random - it) / (Random - Oracle) of the error: 0 to 1
  double mean_kl = 0.0;   ///< geometric mean over contexts
  double worst_kl = 0.0;  ///< largest of a context
  Estimate kl_ratio;      ///< geometric mean of KL / that of SnapKV, uniform, not refitted
  double worst_ratio = std::numeric_limits<double>::quiet_NaN();  ///< largest of a context
  std::string worst_context;                                      ///< which has it; empty for none
  double kl_99 = 0.0;                                             ///< geometric mean over contexts
  double top1 = 0.0;                                              ///< mean
  std::int64_t answers = 0;
  Estimate answer_difference;    ///< nats for each token, against the full cache
  double answer_survival = 0.0;  ///< mean over answers
  double evict_ms = 0.0;         ///< mean
};

/// KL below this is rounding; logarithms are taken of no less.
inline constexpr double least_kl = 1e-6;

/// Rows in the order in which they first stand among the cells; `by_use` makes rows of the contexts
/// for tuning and of those for confirming.
std::vector<SummaryRow> summarise(std::span<const Cell> cells, bool by_use = false);

void print_summary(std::ostream& out, std::span<const SummaryRow> rows);
void write_summary_csv(std::ostream& out, std::span<const SummaryRow> rows);
/// The cells, as an array of objects.
void write_json(std::ostream& out, std::span<const Cell> cells);

}  // namespace evaluate
