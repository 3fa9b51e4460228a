// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kvevict/core/parameter.hpp"

/// Command lines of the example programs, described by a table of options.
namespace command_line {

/// A command line that cannot be carried out as written. Values that cannot be read or are out of
/// their bounds are a kvevict::Error of kind invalid_argument instead.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One option: how it is written, what it means, and what it sets. Without a name it is a heading,
/// whose text is `help`.
template <class Options>
struct Option {
  std::string_view name;
  std::string_view value;  ///< placeholder of its value; empty for a flag
  std::string_view help;
  void (*set)(Options& options, std::string_view name, std::string_view text);
};

template <class Options>
using OptionTable = std::span<const Option<Options>>;

/// Sets a member, or what an optional member holds, to the value that a text names.
template <auto Member, class Options>
void store(Options& options, std::string_view name, std::string_view text) {
  auto& field = options.*Member;
  using Field = std::remove_reference_t<decltype(field)>;
  if constexpr (requires { field.has_value(); }) {
    typename Field::value_type value{};
    kvevict::parse_parameter(name, text, value);
    field = value;
  } else {
    kvevict::parse_parameter(name, text, field);
  }
}

/// Sets a member to a text, which must not be empty.
template <auto Member, class Options>
void store_text(Options& options, std::string_view name, std::string_view text) {
  if (text.empty()) throw UsageError(std::string(name) + " is empty, must be a name");
  options.*Member = text;
}

/// Sets a member that says whether an option is there.
template <auto Member, class Options>
void store_flag(Options& options, std::string_view, std::string_view) {
  options.*Member = true;
}

/// Throws UsageError, which lists the options, when there is none of this name.
template <class Options>
const Option<Options>& find_option(OptionTable<Options> table, std::string_view name) {
  std::string names;
  for (const Option<Options>& option : table) {
    if (option.name.empty()) continue;
    if (option.name == name) return option;
    names.append(names.empty() ? "" : ", ").append(option.name);
  }
  throw UsageError("option is '" + std::string(name) + "', must be one of " + names);
}

/// Sets what the arguments say, `--name value` or `--name=value`, in their order. Throws UsageError
/// for an unknown option, a missing value, or a value that a flag does not take.
template <class Options>
void parse(const std::vector<std::string>& arguments, OptionTable<Options> table,
           Options& options) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    const std::size_t equals = argument.starts_with("--") ? argument.find('=') : argument.npos;
    const Option<Options>& option = find_option(table, argument.substr(0, equals));
    const bool joined = equals != argument.npos;
    if (option.value.empty() && joined) {
      throw UsageError(std::string(option.name) + " takes no value");
    }
    std::string_view value;
    if (joined) {
      value = argument.substr(equals + 1);
    } else if (!option.value.empty()) {
      if (++i == arguments.size()) {
        throw UsageError(std::string(option.name) + " needs a value: " + std::string(option.value));
      }
      value = arguments[i];
    }
    option.set(options, option.name, value);
  }
}

/// A line for each option, under their headings; explanations begin in column `column`.
template <class Options>
std::string help_of(OptionTable<Options> table, std::size_t column) {
  std::string text;
  for (const Option<Options>& option : table) {
    if (option.name.empty()) {
      text.append("\n").append(option.help).append("\n");
      continue;
    }
    std::string left = "  " + std::string(option.name);
    if (!option.value.empty()) left.append(" ").append(option.value);
    left.resize(std::max(left.size() + 1, column), ' ');
    text.append(left).append(option.help).append("\n");
  }
  return text;
}

}  // namespace command_line
