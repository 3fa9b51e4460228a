// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "kvevict_score/npy.hpp"

namespace kvevict_test {
namespace {

// One word for the shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Outcome run_score(const Arguments& arguments) {
  const TemporaryFolder folder;
  std::string command = quoted(KVEVICT_SCORE_PROGRAM);
  for (const std::string& argument : arguments + Arguments{"--threads", "1"}) {
    command.append(" ").append(quoted(argument));
  }
  command.append(" >").append(quoted(folder / "output"));
  command.append(" 2>").append(quoted(folder / "errors")).append(" </dev/null");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(folder / "output"),
          read_text(folder / "errors")};
}

std::string write_file(const std::string& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  if (!out.flush()) throw std::runtime_error(path + ": cannot be written");
  return path;
}

std::string write_random(const std::string& path, std::uint64_t seed,
                         std::initializer_list<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  std::mt19937_64 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(generator() >> 40) * 0x1p-23F - 1.0F;
  kvevict_score::write_npy(path, values, std::vector<std::int64_t>(shape));
  return path;
}

}  // namespace kvevict_test
