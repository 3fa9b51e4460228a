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

template <class Row, class Write>
void write_objects(const std::string& path, const std::vector<Row>& rows, Write&& write) {
  std::ofstream out(path);
  out << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out << (i == 0 ? "\n" : ",\n");
    write(out, rows[i]);
  }
  out << "\n]\n";
  if (!out.flush()) throw std::runtime_error(path + ": cannot write");
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

void print_decode_header(std::ostream& out) {
  out << "policy                     tokens seen  rows/head at most  MiB at most  MiB state  "
         "evictor ms/token first > last   loss: text  written\n";
}

void print_row(std::ostream& out, const DecodeRow& row) {
  out << format("%-26s %11lld  %17lld  %11.2f  %9.2f  %22.2f > %-6.2f %11.4f  ", row.policy.c_str(),
                static_cast<long long>(row.tokens_seen), static_cast<long long>(row.most_rows),
                mebibytes(row.most_bytes), mebibytes(row.state_bytes), row.evictor_ms.first,
                row.evictor_ms.last, row.loss)
      << (std::isnan(row.generated_loss) ? "      -" : format("%7.4f", row.generated_loss)) << '\n'
      << std::flush;
}

void print_steps(std::ostream& out, const DecodeRow& row) {
  if (row.timed == 0) return;
  out << format(
             "a token of each of %lld sequences took %.1f ms at first, %.1f ms at last (means of "
             "%lld)\n",
             static_cast<long long>(row.in_step), row.step_ms.first, row.step_ms.last,
             static_cast<long long>(row.timed))
      << std::flush;
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  write_objects(path, rows, [](std::ostream& out, const Row& row) {
    out << format(
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
  });
}

void write_json(const std::string& path, const std::vector<DecodeRow>& rows) {
  write_objects(path, rows, [](std::ostream& out, const DecodeRow& row) {
    out << format("  {\"policy\": \"%s\", \"tokens_seen\": %lld, ", row.policy.c_str(),
                  static_cast<long long>(row.tokens_seen))
        << format("\"most_rows\": %lld, \"most_bytes\": %lld, ",
                  static_cast<long long>(row.most_rows), static_cast<long long>(row.most_bytes))
        << format("\"state_bytes\": %lld, \"timed_tokens\": %lld, ",
                  static_cast<long long>(row.state_bytes), static_cast<long long>(row.timed))
        << format("\"sequences_in_step\": %lld, \"step_first_ms\": %.6g, \"step_last_ms\": %.6g, ",
                  static_cast<long long>(row.in_step), row.step_ms.first, row.step_ms.last)
        << format("\"evictor_first_ms\": %.6g, \"evictor_last_ms\": %.6g, \"text_loss\": %.9g, ",
                  row.evictor_ms.first, row.evictor_ms.last, row.loss)
        << "\"written_loss\": "
        << (std::isnan(row.generated_loss) ? "null" : format("%.9g", row.generated_loss)) << '}';
  });
}

std::string one_line(const std::string& text) {
  std::string line;
  for (char c : text) line += c == '\n' ? std::string("\\n") : std::string(1, c);
  return line;
}

}  // namespace demo
