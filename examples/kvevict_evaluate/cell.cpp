// SPDX-License-Identifier: Apache-2.0
#include "cell.hpp"

#include <charconv>
#include <concepts>
#include <stdexcept>

#include "text_list.hpp"

namespace evaluate {
namespace {

/// Visits the columns but the answers, in their order.
template <class Self, class Visit>
void for_each_column(Self& cell, Visit&& visit) {
  visit("model", cell.model);
  visit("context", cell.context);
  visit("kind", cell.kind);
  visit("use", cell.use);
  visit("checksum", cell.checksum);
  visit("queries", cell.queries);
  visit("policy", cell.policy);
  visit("budget", cell.budget);
  visit("refit", cell.refit);
  visit("sinks", cell.sinks);
  visit("recent", cell.recent);
  visit("evict_ratio", cell.evict_ratio);
  visit("rows_before", cell.rows_before);
  visit("rows_after", cell.rows_after);
  visit("incomparable", cell.incomparable);
  visit("evict_ms", cell.evict_ms);
  visit("refit_ms", cell.refit_ms);
  visit("error", cell.error);
  visit("mean_kl", cell.mean_kl);
  visit("kl_99", cell.kl_99);
  visit("top1", cell.top1);
  visit("loss", cell.loss);
  visit("kept", cell.kept);
}

constexpr std::string_view last_of_the_name = "evict_ratio";

struct AnswerColumn {
  std::string_view name;
  double AnswerResult::*member;
};
constexpr AnswerColumn answer_columns[] = {
    {"answer_depth", &AnswerResult::depth},
    {"answer_log_probability", &AnswerResult::log_probability},
    {"answer_survival", &AnswerResult::survival}};

/// Shortest text that reads back as the same number.
template <class Number>
std::string text_of(Number value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
std::string text_of(const std::string& value) { return value; }

template <class Number>
void parse(std::string_view name, const std::string& text, Number& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || text.empty()) {
    throw std::runtime_error(std::string(name) + " is '" + text + "', not a number");
  }
}
void parse(std::string_view, const std::string& text, std::string& value) { value = text; }

std::string quoted(const std::string& value) { return '"' + value + '"'; }
template <std::integral Number>
std::string json_value(Number value) {
  return text_of(value);
}
// A number of JSON is finite.
std::string json_value(double value) { return value - value == 0.0 ? text_of(value) : "null"; }
std::string json_value(const std::string& value) { return quoted(value); }

std::string joined(const Cell& cell, double AnswerResult::*member, std::string_view separator) {
  std::string list;
  for (const AnswerResult& answer : cell.answers) {
    list.append(list.empty() ? "" : separator).append(text_of(answer.*member));
  }
  return list;
}

}  // namespace

std::string key_of(const Cell& cell) {
  std::string key;
  bool done = false;
  for_each_column(cell, [&](std::string_view name, const auto& value) {
    if (!done) key.append(text_of(value)).append(1, ',');
    done = done || name == last_of_the_name;
  });
  return key;
}

std::string csv_header() {
  std::string line;
  const Cell cell;
  for_each_column(cell, [&](std::string_view name, const auto&) {
    line.append(line.empty() ? "" : ",").append(name);
  });
  for (const AnswerColumn& column : answer_columns) line.append(1, ',').append(column.name);
  return line;
}

std::string csv_line(const Cell& cell) {
  std::string line;
  for_each_column(cell, [&](std::string_view name, const auto& value) {
    line.append(name == "model" ? "" : ",").append(text_of(value));
  });
  for (const AnswerColumn& column : answer_columns) {
    line.append(1, ',').append(joined(cell, column.member, ";"));
  }
  return line;
}

Cell parse_csv_line(std::string_view line) {
  const std::vector<std::string> fields = split(line, ',');
  const std::size_t columns = split(csv_header(), ',').size();
  if (fields.size() != columns) {
    throw std::runtime_error("has " + std::to_string(fields.size()) + " columns, must have " +
                             std::to_string(columns));
  }
  Cell cell;
  auto field = fields.begin();
  for_each_column(cell, [&](std::string_view name, auto& value) { parse(name, *field++, value); });
  for (const AnswerColumn& column : answer_columns) {
    const std::string& list = *field++;
    if (list.empty()) continue;
    const std::vector<std::string> values = split(list, ';');
    cell.answers.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      parse(column.name, values[i], cell.answers[i].*column.member);
    }
  }
  return cell;
}

std::string json_object(const Cell& cell) {
  std::string text = "{";
  for_each_column(cell, [&](std::string_view name, const auto& value) {
    text.append(quoted(std::string(name))).append(": ").append(json_value(value)).append(", ");
  });
  for (const AnswerColumn& column : answer_columns) {
    text.append(quoted(std::string(column.name)))
        .append(": [")
        .append(joined(cell, column.member, ", "))
        .append("], ");
  }
  text.resize(text.size() - 2);
  return text + "}";
}

}  // namespace evaluate
