// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <ostream>

#include "summary.hpp"

namespace evaluate {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string interval(const Estimate& estimate) {
  if (std::isnan(estimate.value)) return "-";
  return format("%.2f [%.2f, %.2f]", estimate.value, estimate.low, estimate.high);
}

}  // namespace

void print_summary(std::ostream& out, std::span<const SummaryRow> rows) {
  out << format(
      "%-8s %-16s %-28s %-8s %-8s %-6s %6s %3s  %7s %-20s %8s %8s %-20s %-18s %8s %6s %-22s %5s "
      "%9s\n",
      "queries", "of", "policy", "budget", "refit", "kept", "evict", "n", "error",
      "recovered (95 %)", "mean KL", "worst", "KL / SnapKV (95 %)", "worst", "KL 99 %", "top-1",
      "answers, nats (95 %)", "facts", "ms");
  for (const SummaryRow& row : rows) {
    const Cell& name = row.name;
    const std::string kept = std::to_string(name.sinks) + "+" + std::to_string(name.recent);
    const std::string survival = row.answers == 0 ? "-" : format("%.2f", row.answer_survival);
    const std::string worst = row.worst_context.empty()
                                  ? "-"
                                  : format("%.2f %s", row.worst_ratio, row.worst_context.c_str());
    out << format(
        "%-8s %-16s %-28s %-8s %-8s %-6s %5.1f%% %3lld  %7.4f %-20s %8.4f %8.4f %-20s %-18s %8.4f "
        "%5.1f%% %-22s %5s %9.1f%s\n",
        name.queries.c_str(), (name.kind + (name.use.empty() ? "" : ", " + name.use)).c_str(),
        name.policy.c_str(), name.budget.c_str(), name.refit.c_str(), kept.c_str(),
        100.0 * name.evict_ratio, static_cast<long long>(row.contexts), row.error,
        interval(row.recovered).c_str(), row.mean_kl, row.worst_kl, interval(row.kl_ratio).c_str(),
        worst.c_str(), row.kl_99, 100.0 * row.top1, interval(row.answer_difference).c_str(),
        survival.c_str(), row.evict_ms, name.incomparable != 0 ? " *" : "");
  }
  out << "worst: largest of a context; recovered: share of the way from Random's error to the "
         "Oracle's; answers: "
         "log-probability of "
         "answer tokens against the full cache;\nfacts: share of heads that kept the answer's "
         "rows; *: scores that are not comparable across heads, ranked together all the same\n";
}

void write_summary_csv(std::ostream& out, std::span<const SummaryRow> rows) {
  out << "model,queries,kind,use,policy,budget,refit,sinks,recent,evict_ratio,incomparable,"
         "contexts,"
         "error,"
         "recovered,recovered_low,recovered_high,mean_kl,worst_kl,kl_ratio,kl_ratio_low,kl_ratio_"
         "high,"
         "worst_ratio,worst_context,kl_99,"
         "top1,answers,answer_difference,answer_difference_low,answer_difference_high,"
         "answer_survival,evict_ms\n";
  for (const SummaryRow& row : rows) {
    const Cell& name = row.name;
    out << name.model << ',' << name.queries << ',' << name.kind << ',' << name.use << ','
        << name.policy << ',' << name.budget << ',' << name.refit << ',' << name.sinks << ','
        << name.recent << ',' << name.evict_ratio << ',' << name.incomparable << ','
        << row.contexts;
    const auto put = [&](double value) { out << ',' << value; };
    const auto put_estimate = [&](const Estimate& estimate) {
      for (const double value : {estimate.value, estimate.low, estimate.high}) put(value);
    };
    put(row.error);
    put_estimate(row.recovered);
    put(row.mean_kl);
    put(row.worst_kl);
    put_estimate(row.kl_ratio);
    put(row.worst_ratio);
    out << ',' << row.worst_context;
    put(row.kl_99);
    put(row.top1);
    out << ',' << row.answers;
    put_estimate(row.answer_difference);
    put(row.answer_survival);
    put(row.evict_ms);
    out << '\n';
  }
}

void write_json(std::ostream& out, std::span<const Cell> cells) {
  out << "[";
  for (const Cell& cell : cells) {
    out << (&cell == cells.data() ? "\n  " : ",\n  ") << json_object(cell);
  }
  out << "\n]\n";
}

}  // namespace evaluate
