// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvevict {

/// What went wrong, for callers that react to it.
enum class ErrorKind {
  invalid_argument,  ///< a value, shape or pointer outside its stated bound
  budget,            ///< a budget that the protected rows, floors or caps do not fit
  unsupported,       ///< a valid request that this version or backend cannot serve
  numerical,         ///< a computation without a usable result
  backend            ///< a failure of memory, threads, or a device library
};

/// Name of a kind as it appears in messages.
constexpr std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid argument";
    case ErrorKind::budget:
      return "budget";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::numerical:
      return "numerical";
    case ErrorKind::backend:
      return "backend";
  }
  return "unknown";
}

/// The one exception family of the library. `what()` reads
/// "kvevict: <kind>: <argument> is <value>, must be <bound>". A call that throws leaves cache,
/// positions and state as they were.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view argument, std::string_view value, std::string_view bound)
      : std::runtime_error(message(kind, argument, value, bound)),
        kind_(kind),
        argument_(argument) {}

  ErrorKind kind() const noexcept { return kind_; }
  /// Name of the argument or parameter that was refused.
  const std::string& argument() const noexcept { return argument_; }

 private:
  static std::string message(ErrorKind kind, std::string_view argument, std::string_view value,
                             std::string_view bound) {
    std::string text = "kvevict: ";
    text.append(to_string(kind)).append(": ").append(argument).append(" is ").append(value);
    return text.append(", must be ").append(bound);
  }

  ErrorKind kind_;
  std::string argument_;
};

namespace detail {

inline std::string text_of(std::string_view value) { return std::string(value); }
inline std::string text_of(const char* value) { return value; }
inline std::string text_of(std::same_as<bool> auto value) { return value ? "true" : "false"; }

/// 'value', for texts that came from outside.
inline std::string quoted(std::string_view value) {
  std::string text;
  text.reserve(value.size() + 2);
  text.append(1, '\'').append(value).append(1, '\'');
  return text;
}

/// Both texts one after the other; by append, since g++ 12 warns falsely about operator+ of a
/// literal and a string.
inline std::string joined(std::string_view first, std::string_view second) {
  std::string text;
  text.reserve(first.size() + second.size());
  return text.append(first).append(second);
}

template <class Number>
requires((std::integral<Number> && !std::same_as<Number, bool>) ||
         std::floating_point<Number>) std::string text_of(Number value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

}  // namespace detail

/// Throws the typed error for `argument` unless `ok`. The message is built on failure only.
template <class Value>
void require(bool ok, std::string_view argument, const Value& value, std::string_view bound,
             ErrorKind kind = ErrorKind::invalid_argument) {
  if (!ok) throw Error(kind, argument, detail::text_of(value), bound);
}

/// The same with a bound that is itself a number: "must be <relation> <bound>".
template <class Value, class Bound>
void require(bool ok, std::string_view argument, const Value& value, std::string_view relation,
             const Bound& bound, ErrorKind kind = ErrorKind::invalid_argument) {
  if (!ok) {
    throw Error(kind, argument, detail::text_of(value),
                std::string(relation) + " " + detail::text_of(bound));
  }
}

/// The same for an argument that every head has its own of: "<argument> of head <head> is ...".
template <class Value, class Bound>
void require_for_head(bool ok, std::string_view argument, std::int64_t head, const Value& value,
                      std::string_view relation, const Bound& bound,
                      ErrorKind kind = ErrorKind::invalid_argument) {
  if (!ok) {
    std::string name(argument);
    name.append(" of head ").append(detail::text_of(head));
    require(false, name, value, relation, bound, kind);
  }
}

}  // namespace kvevict
