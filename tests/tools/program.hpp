// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace kvevict_test {

// A folder of its own, removed with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Path of a file in the folder.
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

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
