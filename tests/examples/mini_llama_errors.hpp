// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "catch.hpp"

namespace mini_llama_test {

// Whether the call throws an Error whose message has all the parts. Another exception passes
// through.
template <class Error, class Call>
bool throws_with(Call call, std::initializer_list<std::string_view> parts) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    UNSCOPED_INFO("message: " << message);
    for (const std::string_view part : parts) {
      if (message.find(part) == std::string::npos) return false;
    }
    return true;
  }
  UNSCOPED_INFO("nothing was thrown");
  return false;
}

}  // namespace mini_llama_test
