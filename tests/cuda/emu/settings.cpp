// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace kvevict_emulation {
namespace {

void apply(std::string_view word, Settings& settings) {
  if (word == "forward") {
    settings.thread_order = ThreadOrder::forward;
  } else if (word == "reverse") {
    settings.thread_order = ThreadOrder::reverse;
  } else if (word == "shuffled") {
    settings.thread_order = ThreadOrder::shuffled;
  } else if (word.starts_with("seed=")) {
    settings.seed = std::strtoull(std::string(word.substr(5)).c_str(), nullptr, 10);
  } else if (word == "blocks") {
    settings.reverse_blocks = true;
  } else if (word == "atomics") {
    settings.switch_at_atomics = true;
  } else if (word == "lazy") {
    settings.lazy_streams = true;
  } else if (!word.empty()) {
    std::fprintf(stderr, "KVEVICT_EMULATION: unknown word '%.*s'\n", static_cast<int>(word.size()),
                 word.data());
    std::exit(2);
  }
}

Settings from_environment() {
  Settings settings;
  const char* text = std::getenv("KVEVICT_EMULATION");
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    apply(rest.substr(0, comma), settings);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return settings;
}

}  // namespace

Settings& settings() {
  static Settings current = from_environment();
  return current;
}

}  // namespace kvevict_emulation
