// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <cstdio>
#include <fstream>
#include <ostream>
#include <stdexcept>

namespace demo {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

}  // namespace

void print_header(std::ostream& out) {
  out << "policy             budget   refit     evicted      rows before > after       MiB before "
         "> after   "
         "evict ms"
         "  attn err   mean KL   top-1\n";
}

void print_row(std::ostream& out, const Row& row) {
  out << format(
             "%-18s %-8s %-8s %6.1f %%  %9lld > %-9lld  %8.2f > %-8.2f  %9.1f  %8.4f  %8.4f  %5.1f "
             "%%%s\n",
             row.policy.c_str(), row.budget.c_str(), row.refit.c_str(), 100.0 * row.evict_ratio,
             static_cast<long long>(row.rows_before), static_cast<long long>(row.rows_after),
             mebibytes(row.bytes_before), mebibytes(row.bytes_after), row.evict_ms,
             row.attention_output_error, row.mean_kl, 100.0 * row.top1_agreement,
             row.incomparable ? " *" : "")
      << std::flush;
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream out(path);
  out << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out << (i == 0 ? "\n" : ",\n")
        << format(
               "  {\"policy\": \"%s\", \"budget\": \"%s\", \"refit\": \"%s\", \"evict_ratio\": "
               "%.17g, ",
               row.policy.c_str(), row.budget.c_str(), row.refit.c_str(), row.evict_ratio)
        << format("\"rows_before\": %lld, \"rows_after\": %lld, ",
                  static_cast<long long>(row.rows_before), static_cast<long long>(row.rows_after))
        << format("\"bytes_before\": %lld, \"bytes_after\": %lld, ",
                  static_cast<long long>(row.bytes_before), static_cast<long long>(row.bytes_after))
        << format("\"evict_ms\": %.6g, \"refit_ms\": %.6g, \"attention_output_error\": %.9g, ",
                  row.evict_ms, row.refit_ms, row.attention_output_error)
        << format("\"mean_kl\": %.9g, \"top1_agreement\": %.9g}", row.mean_kl, row.top1_agreement);
  }
  out << "\n]\n";
  if (!out.flush()) throw std::runtime_error(path + ": cannot write");
}

}  // namespace demo
