// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "npy.hpp"
#include "tolerance.hpp"

namespace kvevict_test {

// `name=value` pairs, as they stand in the index and as policies are configured.
using Pairs = std::map<std::string, std::string>;

// Pairs separated by single spaces; "-" is the empty list. Throws std::runtime_error on a field
// without '=' or a repeated name.
Pairs parse_pairs(const std::string& text);

// Values of a pair list; the required_* forms throw std::runtime_error naming the missing pair or
// the value that is not a number.
const std::string& required(const Pairs& pairs, const std::string& name);
double required_number(const Pairs& pairs, const std::string& name);
std::int64_t required_integer(const Pairs& pairs, const std::string& name);
std::vector<std::int64_t> required_list(const Pairs& pairs, const std::string& name);
double parse_number(const std::string& text);

// One line of tests/data/index.tsv; tests/data/README.md explains the columns.
struct GoldenEntry {
  std::string id;
  std::string kind;
  std::string policy;
  Pairs parameters;
  Pairs evidence;
  Pairs selection;
  std::string source;
  Tolerance tolerance;
  std::int64_t forced_first = 0;
  std::int64_t forced_last = 0;
  std::string what;

  // The part of the id before the first slash: the case, or "tables".
  std::string case_name() const;
};

// The reference data of this repository: the index and the arrays it names.
class GoldenData {
 public:
  // Reads the index of the folder. Throws std::runtime_error naming the line that is malformed.
  explicit GoldenData(std::string folder);

  const std::vector<GoldenEntry>& entries() const { return entries_; }
  // Entries of a kind, in index order; an empty policy means all policies.
  std::vector<GoldenEntry> entries(const std::string& kind, const std::string& policy = {}) const;
  const GoldenEntry& entry(const std::string& id) const;

  // The file of an id, and the array in it; ids that the index does not list are refused.
  std::string file(const std::string& id) const;
  NpyArray array(const std::string& id) const;

 private:
  std::string folder_;
  std::vector<GoldenEntry> entries_;
};

// tests/data of the source tree that this program was built from; read once.
const GoldenData& golden_data();

// Kept rows per KV head of a `kept` entry, equal counts or not.
std::vector<std::vector<std::int32_t>> kept_rows(const GoldenData& data, const GoldenEntry& entry);

}  // namespace kvevict_test
