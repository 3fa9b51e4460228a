// SPDX-License-Identifier: Apache-2.0
#include "context_list.hpp"

#include <algorithm>
#include <charconv>
#include <istream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace evaluate {
namespace {

template <class Number>
Number number(std::string_view name, std::string_view text, int base = 10) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (status != std::errc() || end != text.data() + text.size() || text.empty()) {
    throw std::runtime_error(std::string(name) + " is '" + std::string(text) + "', not a number");
  }
  return value;
}

Use use_of(std::string_view text) {
  for (const Use use : {Use::tuning, Use::confirming}) {
    if (text == name_of(use)) return use;
  }
  throw std::runtime_error("use is '" + std::string(text) + "', must be tuning or confirming");
}

ContextSpec parse_line(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> fields;
  for (std::string field; in >> field;) fields.push_back(field);
  if (fields.size() != 8) {
    throw std::runtime_error("has " + std::to_string(fields.size()) + " fields, must have 8");
  }
  ContextSpec spec;
  spec.name = fields[0];
  spec.kind = fields[1];
  spec.use = use_of(fields[2]);
  const std::string_view source = fields[3];
  if (source.starts_with("text:")) {
    spec.text = source.substr(5);
  } else if (source.starts_with("task:")) {
    spec.task = source.substr(5);
  } else {
    throw std::runtime_error("source is '" + fields[3] + "', must be text:FILE or task:NAME");
  }
  spec.start = number<std::uint64_t>("start", fields[4]);
  spec.tokens = number<std::int64_t>("tokens", fields[5]);
  spec.continuation = number<std::int64_t>("continuation", fields[6]);
  spec.checksum = number<std::uint64_t>("checksum", fields[7], 16);
  if (spec.tokens < 64) {
    throw std::runtime_error("tokens is " + fields[5] + ", must be at least 64");
  }
  if (spec.task.empty() ? spec.continuation < 2 : spec.continuation != 0) {
    throw std::runtime_error("continuation is " + fields[6] +
                             ", must be at least 2 for a text and 0 for a task");
  }
  return spec;
}

}  // namespace

std::string_view name_of(Use use) { return use == Use::tuning ? "tuning" : "confirming"; }

std::vector<ContextSpec> read_context_list(std::istream& in, const std::string& path) {
  std::vector<ContextSpec> list;
  std::set<std::string> names;
  std::string line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      list.push_back(parse_line(line));
      if (!names.insert(list.back().name).second) {
        throw std::runtime_error("'" + list.back().name + "' was there before");
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  return list;
}

}  // namespace evaluate
