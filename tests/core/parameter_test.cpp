// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/parameter.hpp"

#include <cstdint>
#include <limits>
#include <string>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/ops/capacity.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/row_weighting.hpp"

namespace parameter_test {

using kvevict::Epsilon;
using kvevict::format_parameter;
using kvevict::GroupReduction;
using kvevict::Noise;
using kvevict::parse_parameter;
using kvevict_test::refused;

namespace {

template <class T>
T parsed(std::string_view text) {
  T value{};
  parse_parameter("p", text, value);
  return value;
}

std::string message(std::string_view text, std::string_view bound) {
  std::string out = "p is '";
  return out.append(text).append("', must be ").append(bound);
}

template <class T>
std::string problem(std::string_view text) {
  return refused([&] { parsed<T>(text); });
}

}  // namespace

TEST_CASE("numbers are read whole or not at all", "[core][parameter]") {
  REQUIRE(parsed<double>("0.25") == 0.25);
  REQUIRE(parsed<double>("-1e-3") == -1e-3);
  REQUIRE(parsed<double>("10") == 10.0);
  REQUIRE(parsed<std::int64_t>("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  REQUIRE(parsed<std::uint64_t>("18446744073709551615") ==
          std::numeric_limits<std::uint64_t>::max());

  for (const std::string_view text : {"", " 1", "1 ", "1x", "one", "+1", "0x10", "1,5", "1.5.2"}) {
    INFO("'" << text << "'");
    REQUIRE(problem<double>(text) == message(text, "a number"));
  }
  for (const std::string_view text : {"", "1.5", "1e3", "9223372036854775808", " 4", "4 "}) {
    INFO("'" << text << "'");
    REQUIRE(problem<std::int64_t>(text) == message(text, "an integer"));
  }
  REQUIRE(problem<std::uint64_t>("-1") == "p is '-1', must be an integer");
  REQUIRE(problem<double>("1e999") == "p is '1e999', must be a number");
}

TEST_CASE("a value that cannot be read changes nothing", "[core][parameter]") {
  double number = 7;
  std::int64_t integer = 7;
  bool flag = true;
  auto reduction = GroupReduction::max;
  Noise noise = Noise::absolute(2);
  REQUIRE_THROWS(parse_parameter("p", "7.5x", number));
  REQUIRE_THROWS(parse_parameter("p", "8.5", integer));
  REQUIRE_THROWS(parse_parameter("p", "no", flag));
  REQUIRE_THROWS(parse_parameter("p", "median", reduction));
  REQUIRE_THROWS(parse_parameter("p", "relative:", noise));
  REQUIRE(number == 7);
  REQUIRE(integer == 7);
  REQUIRE(flag);
  REQUIRE(reduction == GroupReduction::max);
  REQUIRE(noise == Noise::absolute(2));
}

TEST_CASE("booleans are true or false", "[core][parameter]") {
  REQUIRE(parsed<bool>("true"));
  REQUIRE_FALSE(parsed<bool>("false"));
  for (const std::string_view text : {"", "1", "True", "yes", "true "}) {
    REQUIRE(problem<bool>(text) == message(text, "one of true, false"));
  }
}

TEST_CASE("enumerations are read by name and list their names", "[core][parameter]") {
  REQUIRE(parsed<GroupReduction>("mean") == GroupReduction::mean);
  REQUIRE(parsed<GroupReduction>("max") == GroupReduction::max);
  REQUIRE(parsed<GroupReduction>("sum") == GroupReduction::sum);
  REQUIRE(problem<GroupReduction>("median") == "p is 'median', must be one of mean, max, sum");
  REQUIRE(problem<GroupReduction>("") == "p is '', must be one of mean, max, sum");
}

TEST_CASE("tagged numbers name their kind", "[core][parameter]") {
  REQUIRE(parsed<Noise>("absolute:2.5") == Noise::absolute(2.5));
  REQUIRE(parsed<Noise>("relative:0.1") == Noise::relative(0.1));
  REQUIRE(parsed<Epsilon>("absolute:0.01") == Epsilon::absolute(0.01));
  REQUIRE(parsed<Epsilon>("per_row:2") == Epsilon::per_row(2));
  for (const std::string_view text : {"", "1", "Absolute:1", "absolute", "fixed:1", ":1"}) {
    REQUIRE(problem<Noise>(text) == message(text, "absolute:NUMBER or relative:NUMBER"));
    REQUIRE(problem<Epsilon>(text) == message(text, "absolute:NUMBER or per_row:NUMBER"));
  }
  REQUIRE(problem<Noise>("relative:x") == "p is 'x', must be a number");
  REQUIRE(problem<Noise>("relative:") == "p is '', must be a number");
}

TEST_CASE("what is written can be read back", "[core][parameter]") {
  for (const double value : {0.1, 1e-300, 123456.789, 0.30000000000000004, -2.0}) {
    REQUIRE(parsed<double>(format_parameter(value)) == value);
    REQUIRE(parsed<Noise>(format_parameter(Noise::relative(value))) == Noise::relative(value));
    REQUIRE(parsed<Epsilon>(format_parameter(Epsilon::per_row(value))) == Epsilon::per_row(value));
  }
  REQUIRE(format_parameter(true) == "true");
  REQUIRE(format_parameter(std::int64_t{-4}) == "-4");
  REQUIRE(format_parameter(0.25) == "0.25");
  REQUIRE(format_parameter(GroupReduction::sum) == "sum");
  REQUIRE(format_parameter(Noise::absolute(1)) == "absolute:1");
  REQUIRE(format_parameter(Epsilon::absolute(0)) == "absolute:0");
}

}  // namespace parameter_test
