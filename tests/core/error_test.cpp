// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/error.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "catch.hpp"
#include "core/errors.hpp"

using kvevict::Error;
using kvevict::ErrorKind;
using kvevict::require;
using kvevict_test::refused;

TEST_CASE("an error says kind, argument, value and bound", "[core][error]") {
  const Error error(ErrorKind::budget, "protected rows", "40", "at most 32");
  REQUIRE(std::string(error.what()) == "kvevict: budget: protected rows is 40, must be at most 32");
  REQUIRE(error.kind() == ErrorKind::budget);
  REQUIRE(error.argument() == "protected rows");
  STATIC_REQUIRE(std::is_base_of_v<std::runtime_error, Error>);
}

TEST_CASE("every kind has its name", "[core][error]") {
  REQUIRE(to_string(ErrorKind::invalid_argument) == "invalid argument");
  REQUIRE(to_string(ErrorKind::budget) == "budget");
  REQUIRE(to_string(ErrorKind::unsupported) == "unsupported");
  REQUIRE(to_string(ErrorKind::numerical) == "numerical");
  REQUIRE(to_string(ErrorKind::backend) == "backend");
}

TEST_CASE("require throws only when the condition fails", "[core][error]") {
  REQUIRE_NOTHROW(require(true, "x", 1, "positive"));
  REQUIRE_NOTHROW(require(true, "x", 1, ">=", 0));
  REQUIRE(refused([] { require(false, "x", 1, "positive"); }) == "x is 1, must be positive");
  REQUIRE(refused([] { require(false, "x", -1, ">=", 0); }) == "x is -1, must be >= 0");
  REQUIRE(refused([] { require(false, "x", -1, ">=", 0, ErrorKind::numerical); },
                  ErrorKind::numerical) == "x is -1, must be >= 0");
  REQUIRE(refused([] { require(false, "x", "null", "given", ErrorKind::unsupported); },
                  ErrorKind::unsupported) == "x is null, must be given");
}

TEST_CASE("values of every type are written in full", "[core][error]") {
  const auto text = [](auto value) { return refused([&] { require(false, "x", value, "y"); }); };
  REQUIRE(text(std::numeric_limits<std::int64_t>::min()) == "x is -9223372036854775808, must be y");
  REQUIRE(text(std::numeric_limits<std::uint64_t>::max()) ==
          "x is 18446744073709551615, must be y");
  REQUIRE(text(0.1) == "x is 0.1, must be y");
  REQUIRE(text(0.1f) == "x is 0.1, must be y");
  REQUIRE(text(1e-300) == "x is 1e-300, must be y");
  REQUIRE(text(std::numeric_limits<double>::infinity()) == "x is inf, must be y");
  REQUIRE(text(true) == "x is true, must be y");
  REQUIRE(text(false) == "x is false, must be y");
  REQUIRE(text(std::string("text")) == "x is text, must be y");
  REQUIRE(text("literal") == "x is literal, must be y");
}
