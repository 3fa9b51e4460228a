// SPDX-License-Identifier: Apache-2.0
#include "kvevict/version.hpp"

#include <string>

#include "catch.hpp"

TEST_CASE("the version string is made of the version numbers", "[core][version]") {
  const std::string expected = std::to_string(kvevict::version_major) + "." +
                               std::to_string(kvevict::version_minor) + "." +
                               std::to_string(kvevict::version_patch);
  REQUIRE(std::string(kvevict::version_string) == expected);
}
