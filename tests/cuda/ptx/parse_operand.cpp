// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <charconv>

#include "token_stream.hpp"

namespace kvevict_ptx {
namespace {

std::uint64_t parse_digits(std::string_view digits, int base, const TokenStream& in) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc{} || rest != end) in.fail("not a number");
  return value;
}

bool starts_number(const Token& token) {
  return token.is('-') || (token.kind == Token::Kind::word && std::isdigit(token.text[0]) != 0);
}

Operand parse_address(TokenStream& in) {
  in.expect('[');
  Operand operand;
  operand.kind = Operand::Kind::address;
  if (!starts_number(in.peek())) operand.name = in.word();
  if (in.take_if('+') || starts_number(in.peek())) operand.value = parse_number(in).value;
  in.expect(']');
  return operand;
}

Operand parse_list(TokenStream& in, char close) {
  in.take();
  Operand operand;
  operand.kind = Operand::Kind::vector;
  while (!in.take_if(close)) {
    operand.elements.push_back(parse_operand(in));
    if (!in.peek().is(close)) in.expect(',');
  }
  return operand;
}

Operand parse_simple(TokenStream& in) {
  if (in.take_if('!')) {
    Operand operand = parse_simple(in);
    operand.negated = true;
    return operand;
  }
  if (starts_number(in.peek())) return parse_number(in);
  Operand operand;
  operand.name = in.word();
  operand.kind = operand.name == "_" ? Operand::Kind::sink : Operand::Kind::name;
  if (operand.name == "WARP_SZ") {
    operand.kind = Operand::Kind::number;
    operand.value = 32;
  }
  return operand;
}

}  // namespace

Operand parse_number(TokenStream& in) {
  const bool minus = in.take_if('-');
  if (in.peek().kind != Token::Kind::word) in.fail("expected a number");
  std::string_view text = in.peek().text;
  Operand operand;
  operand.kind = Operand::Kind::number;
  const char second = text.size() > 2 && text[0] == '0' ? text[1] : '\0';
  if (second == 'f' || second == 'F' || second == 'd' || second == 'D') {
    operand.number = second == 'f' || second == 'F' ? Operand::Number::f32 : Operand::Number::f64;
    operand.value = parse_digits(text.substr(2), 16, in);
  } else {
    if (text.ends_with('U')) text.remove_suffix(1);
    const int base = second == 'x' || second == 'X'   ? 16
                     : second == 'b' || second == 'B' ? 2
                     : second != '\0'                 ? 8
                                                      : 10;
    operand.value = parse_digits(base == 16 || base == 2 ? text.substr(2) : text, base, in);
  }
  in.take();
  if (minus) operand.value = 0 - operand.value;
  return operand;
}

Operand parse_operand(TokenStream& in) {
  if (in.peek().is('[')) return parse_address(in);
  if (in.peek().is('{')) return parse_list(in, '}');
  if (in.peek().is('(')) return parse_list(in, ')');
  Operand operand = parse_simple(in);
  if (!in.take_if('|')) return operand;
  Operand pair;
  pair.kind = Operand::Kind::pair;
  pair.elements.push_back(std::move(operand));
  pair.elements.push_back(parse_simple(in));
  return pair;
}

namespace {

void parse_initial(TokenStream& in, Variable& variable) {
  const auto one = [&](const auto& self) -> void {
    if (in.take_if('{')) {
      while (!in.take_if('}')) {
        self(self);
        in.take_if(',');
      }
    } else if (starts_number(in.peek())) {
      variable.initial.push_back(parse_number(in));
    } else {
      // The address of another variable: `name`, `name+8`, `generic(name)`.
      Operand address;
      address.kind = Operand::Kind::address;
      address.name = in.word();
      if (address.name == "generic") {
        in.expect('(');
        address.name = in.word();
        in.expect(')');
      }
      if (in.take_if('+')) address.value = parse_number(in).value;
      variable.initial.push_back(address);
    }
  };
  one(one);
}

}  // namespace

Variable parse_variable(TokenStream& in, Space space) {
  Variable variable;
  variable.space = space;
  std::int64_t width = 1;
  // The qualifiers of a parameter that is a pointer (.ptr, its space and alignment) say nothing
  // new.
  bool is_pointer = false;
  while (in.peek().text.starts_with('.')) {
    const std::string_view word = in.word().substr(1);
    if (word == "align") {
      const int alignment = static_cast<int>(parse_number(in).value);
      if (!is_pointer) variable.alignment = alignment;
    } else if (word == "ptr") {
      is_pointer = true;
    } else if (word == "v2" || word == "v4") {
      width = word == "v2" ? 2 : 4;
    } else if (type_named(word) != Type::none) {
      variable.type = type_named(word);
    }
  }
  variable.name = in.word();
  variable.bytes = width * size_of(variable.type);
  while (in.take_if('[')) {
    variable.bytes *= in.peek().is(']') ? 0 : static_cast<std::int64_t>(parse_number(in).value);
    in.expect(']');
  }
  if (variable.alignment < size_of(variable.type)) variable.alignment = size_of(variable.type);
  if (in.take_if('=')) parse_initial(in, variable);
  return variable;
}

}  // namespace kvevict_ptx
