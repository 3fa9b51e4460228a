// SPDX-License-Identifier: Apache-2.0
#include "ptx_settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace kvevict_ptx {
namespace {

void apply(std::string_view word, PtxSettings& settings) {
  if (word.starts_with("sm_")) {
    settings.capability = std::atoi(std::string(word.substr(3)).c_str());
  } else if (word == "noraces") {
    settings.shared_races = settings.global_races = false;
  } else if (word == "noglobalraces") {
    settings.global_races = false;
  } else if (word == "earlyreturn") {
    settings.early_return = true;
  } else if (word == "statistics") {
    settings.statistics = true;
  } else if (!word.empty()) {
    std::fprintf(stderr, "KVEVICT_PTX: unknown word '%.*s'\n", static_cast<int>(word.size()),
                 word.data());
    std::exit(2);
  }
}

PtxSettings from_environment() {
  PtxSettings settings;
  const char* text = std::getenv("KVEVICT_PTX");
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    apply(rest.substr(0, comma), settings);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return settings;
}

}  // namespace

PtxSettings& ptx_settings() {
  static PtxSettings current = from_environment();
  return current;
}

}  // namespace kvevict_ptx
