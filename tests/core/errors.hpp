// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "kvevict/core/error.hpp"

namespace kvevict_test {

// The text of the error that `call` throws without its "kvevict: <kind>: " prefix, which is
// checked; "nothing was thrown" when it throws nothing.
template <class Call>
std::string refused(Call&& call, kvevict::ErrorKind kind = kvevict::ErrorKind::invalid_argument) {
  try {
    call();
  } catch (const kvevict::Error& error) {
    const std::string prefix = "kvevict: " + std::string(to_string(kind)) + ": ";
    const std::string_view text = error.what();
    if (error.kind() != kind || text.substr(0, prefix.size()) != prefix) {
      return "another kind: " + std::string(text);
    }
    return std::string(text.substr(prefix.size()));
  }
  return "nothing was thrown";
}

template <class Call>
std::string refused_budget(Call&& call) {
  return refused(call, kvevict::ErrorKind::budget);
}

}  // namespace kvevict_test
