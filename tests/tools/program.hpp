// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace kvevict_test {

// What a program did.
struct Outcome {
  int exit_code = -1;  // -1 when it was ended by a signal
  std::string output;
  std::string errors;
};

using Arguments = std::vector<std::string>;

Arguments operator+(Arguments left, const Arguments& right);

// Runs kvevict_score with one thread and waits for it.
Outcome run_score(const Arguments& arguments);

// Writes `content` as it is.
std::string write_file(const std::string& path, const std::string& content);

// Writes a float32 array of values drawn from a seeded generator in [-1, 1); returns the path.
std::string write_random(const std::string& path, std::uint64_t seed,
                         std::initializer_list<std::int64_t> shape);

}  // namespace kvevict_test
