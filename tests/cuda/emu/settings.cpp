// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include "setting_words.hpp"

namespace kvevict_emulation {
namespace {

bool apply(const std::string& word, Settings& settings) {
  if (word == "forward") {
    settings.thread_order = ThreadOrder::forward;
  } else if (word == "reverse") {
    settings.thread_order = ThreadOrder::reverse;
  } else if (word == "shuffled") {
    settings.thread_order = ThreadOrder::shuffled;
  } else if (word.starts_with("seed=")) {
    settings.seed = std::strtoull(word.c_str() + 5, nullptr, 10);
  } else if (word == "blocks") {
    settings.reverse_blocks = true;
  } else if (word == "atomics") {
    settings.switch_at_atomics = true;
  } else if (word == "lazy") {
    settings.lazy_streams = true;
  } else {
    return false;
  }
  return true;
}

Settings from_environment() {
  Settings settings;
  for_each_setting_word("KVEVICT_EMULATION",
                        [&](const std::string& word) { return apply(word, settings); });
  return settings;
}

}  // namespace

Settings& settings() {
  static Settings current = from_environment();
  return current;
}

}  // namespace kvevict_emulation
