// SPDX-License-Identifier: Apache-2.0
#include "ptx_settings.hpp"

#include "../emu/setting_words.hpp"

namespace kvevict_ptx {
namespace {

bool apply(const std::string& word, PtxSettings& settings) {
  if (word.starts_with("sm_")) {
    settings.capability = std::atoi(word.c_str() + 3);
  } else if (word == "noraces") {
    settings.shared_races = settings.global_races = false;
  } else if (word == "noglobalraces") {
    settings.global_races = false;
  } else if (word == "earlyreturn") {
    settings.early_return = true;
  } else if (word == "statistics") {
    settings.statistics = true;
  } else if (word == "unused") {
    settings.unused = true;
  } else {
    return false;
  }
  return true;
}

PtxSettings from_environment() {
  PtxSettings settings;
  kvevict_emulation::for_each_setting_word(
      "KVEVICT_PTX", [&](const std::string& word) { return apply(word, settings); });
  return settings;
}

}  // namespace

PtxSettings& ptx_settings() {
  static PtxSettings current = from_environment();
  return current;
}

}  // namespace kvevict_ptx
