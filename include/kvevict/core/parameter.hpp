// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "kvevict/core/error.hpp"

namespace kvevict {

/// One spelling of an enumerator.
template <class Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};

namespace detail {

template <class Enum>
std::string joined_names(std::span<const EnumName<Enum>> names) {
  std::string text = "one of";
  for (const auto& entry : names)
    text.append(&entry == names.data() ? " " : ", ").append(entry.name);
  return text;
}

}  // namespace detail

/// Parameters of policies as text: numbers, booleans (`true`, `false`), enumerations by the names
/// that `enum_names(E)` lists, and types that bring `parse_parameter` and `format_parameter` of
/// their own. A value that cannot be read is an invalid_argument error that names the parameter and
/// the valid values.
template <class Number>
requires((std::integral<Number> && !std::same_as<Number, bool>) ||
         std::floating_point<Number>) void parse_parameter(std::string_view name,
                                                           std::string_view text, Number& value) {
  Number parsed{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  const bool complete = status == std::errc() && end == text.data() + text.size();
  require(complete && !text.empty(), name, detail::quoted(text),
          std::integral<Number> ? "an integer" : "a number");
  value = parsed;
}

inline void parse_parameter(std::string_view name, std::string_view text, bool& value) {
  require(text == "true" || text == "false", name, detail::quoted(text), "one of true, false");
  value = text == "true";
}

template <class Enum>
requires std::is_enum_v<Enum>
void parse_parameter(std::string_view name, std::string_view text, Enum& value) {
  const std::span<const EnumName<Enum>> names = enum_names(Enum{});
  for (const auto& entry : names) {
    if (entry.name == text) {
      value = entry.value;
      return;
    }
  }
  throw Error(ErrorKind::invalid_argument, name, detail::quoted(text), detail::joined_names(names));
}

template <class Number>
requires(std::integral<Number> || std::floating_point<Number>) std::string
    format_parameter(Number value) {
  return detail::text_of(value);
}

template <class Enum>
requires std::is_enum_v<Enum> std::string format_parameter(Enum value) {
  const std::span<const EnumName<Enum>> names = enum_names(Enum{});
  for (const auto& entry : names) {
    if (entry.value == value) return std::string(entry.name);
  }
  return "?";
}

}  // namespace kvevict
