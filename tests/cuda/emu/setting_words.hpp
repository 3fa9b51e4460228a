// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace kvevict_emulation {

/// Calls `apply(word)` for the words, separated by commas, of an environment variable. A word that
/// `apply` returns false for ends the process with a message.
template <class Apply>
void for_each_setting_word(const char* variable, Apply&& apply) {
  const char* text = std::getenv(variable);
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string word(rest.substr(0, comma));
    if (!word.empty() && !apply(word)) {
      std::fprintf(stderr, "%s: unknown word '%s'\n", variable, word.c_str());
      std::exit(2);
    }
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
}

}  // namespace kvevict_emulation
