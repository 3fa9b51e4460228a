// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cell.hpp"

namespace evaluate {

/// The cells that are done, in a file that grows with each: an interrupted run goes on where it
/// was.
class Results {
 public:
  /// Reads the file, if there is one, and goes on at its end; a last line that was not finished is
  /// dropped. Throws std::runtime_error, and leaves the file alone, for one that is no such table.
  explicit Results(std::string path);

  bool has(const Cell& cell) const { return keys_.contains(key_of(cell)); }

  /// Writes it down at once. Throws std::runtime_error when the disk refuses.
  void add(const Cell& cell);

  const std::vector<Cell>& cells() const { return cells_; }

 private:
  std::string path_;
  std::vector<Cell> cells_;
  std::set<std::string> keys_;
  std::ofstream out_;
};

}  // namespace evaluate
