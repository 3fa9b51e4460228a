// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace mini_llama {

// A model file that is damaged, truncated, or asks for something this engine does not do. The
// message names the file, the field, the value found and the bound it breaks.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An argument outside of what the model, the cache or a function allows. Nothing was changed.
class ArgumentError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// All parts, streamed one after the other into one string.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace mini_llama
