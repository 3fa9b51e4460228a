// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace evaluate {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double log_of(double kl) { return std::log(std::max(kl, least_kl)); }

/// What a cell is called without its context, of which is left whether it asks something.
Cell without_context(const Cell& cell, bool by_use) {
  Cell name;
  name.model = cell.model;
  name.kind = cell.answers.empty() ? "texts" : "tasks";
  if (by_use) name.use = cell.use;
  name.queries = cell.queries;
  name.policy = cell.policy;
  name.budget = cell.budget;
  name.refit = cell.refit;
  name.sinks = cell.sinks;
  name.recent = cell.recent;
  name.evict_ratio = cell.evict_ratio;
  name.incomparable = cell.incomparable;
  return name;
}

class Cells {
 public:
  explicit Cells(std::span<const Cell> cells) {
    for (const Cell& cell : cells) by_key_[key_of(cell)] = &cell;
  }

  /// The uniform, unrefitted cell of another policy that `cell` is compared with; null if there is
  /// none.
  const Cell* beside(const Cell& cell, std::string_view policy) const {
    Cell other = cell;
    other.policy = policy;
    other.budget = "uniform";
    other.refit = "none";
    if (other.is_full()) {
      other.sinks = other.recent = 0;
      other.evict_ratio = 0.0;
    }
    const auto found = by_key_.find(key_of(other));
    return found == by_key_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::string, const Cell*> by_key_;
};

double answer_mean(const Cell& cell, double AnswerResult::*member) {
  double sum = 0.0;
  for (const AnswerResult& answer : cell.answers) sum += answer.*member;
  return sum / static_cast<double>(cell.answers.size());
}

SummaryRow summarise_row(const Cell& name, std::span<const Cell* const> row, const Cells& cells) {
  std::vector<double> error, recovered, kl, ratio, kl_99, top1, difference, survival, evict_ms;
  SummaryRow summary;
  summary.name = name;
  summary.contexts = static_cast<std::int64_t>(row.size());
  for (const Cell* cell : row) {
    error.push_back(cell->error);
    kl.push_back(log_of(cell->mean_kl));
    summary.worst_kl = std::max(summary.worst_kl, cell->mean_kl);
    kl_99.push_back(log_of(cell->kl_99));
    top1.push_back(cell->top1);
    evict_ms.push_back(cell->evict_ms);
    const Cell* random = cells.beside(*cell, "Random");
    const Cell* oracle = cells.beside(*cell, "Oracle");
    if (random != nullptr && oracle != nullptr && random->error != oracle->error) {
      recovered.push_back((random->error - cell->error) / (random->error - oracle->error));
    }
    if (const Cell* snapkv = cells.beside(*cell, "SnapKV")) {
      ratio.push_back(log_of(cell->mean_kl) - log_of(snapkv->mean_kl));
      if (ratio.back() >= *std::max_element(ratio.begin(), ratio.end())) {
        summary.worst_ratio = std::exp(ratio.back());
        summary.worst_context = cell->context;
      }
    }
    const Cell* full = cells.beside(*cell, "full");
    if (full != nullptr && !cell->answers.empty()) {
      difference.push_back(answer_mean(*cell, &AnswerResult::log_probability) -
                           answer_mean(*full, &AnswerResult::log_probability));
      survival.push_back(answer_mean(*cell, &AnswerResult::survival));
      summary.answers += static_cast<std::int64_t>(cell->answers.size());
    }
  }
  summary.error = mean_of(error);
  summary.recovered = bootstrap_mean(recovered);
  summary.mean_kl = std::exp(mean_of(kl));
  const Estimate logarithm = bootstrap_mean(ratio);
  summary.kl_ratio = {std::exp(logarithm.value), std::exp(logarithm.low), std::exp(logarithm.high)};
  summary.kl_99 = std::exp(mean_of(kl_99));
  summary.top1 = mean_of(top1);
  summary.answer_difference = bootstrap_mean(difference);
  summary.answer_survival = survival.empty() ? 0.0 : mean_of(survival);
  summary.evict_ms = mean_of(evict_ms);
  return summary;
}

}  // namespace

Estimate bootstrap_mean(std::span<const double> values, std::uint64_t seed) {
  if (values.empty()) return {};
  constexpr std::size_t resamples = 10'000;
  std::mt19937_64 generator(seed);
  std::vector<double> means;
  for (std::size_t i = 0; i < resamples; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < values.size(); ++j) sum += values[generator() % values.size()];
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::sort(means.begin(), means.end());
  return {mean_of(values), means[resamples / 40], means[resamples - 1 - resamples / 40]};
}

std::vector<SummaryRow> summarise(std::span<const Cell> cells, bool by_use) {
  const Cells all(cells);
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Cell*>> rows;
  for (const Cell& cell : cells) {
    const std::string key = key_of(without_context(cell, by_use));
    if (!rows.contains(key)) order.push_back(key);
    rows[key].push_back(&cell);
  }
  std::vector<SummaryRow> summary;
  for (const std::string& key : order) {
    const std::vector<const Cell*>& row = rows[key];
    summary.push_back(summarise_row(without_context(*row.front(), by_use), row, all));
  }
  return summary;
}

}  // namespace evaluate
