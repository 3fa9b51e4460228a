// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "command_line/option_table.hpp"
#include "kvevict/core/parameter.hpp"

namespace cuda_evict {

using command_line::UsageError;

/// Type of the cached keys and values.
enum class StorageType { float32, half, bfloat16 };

inline std::span<const kvevict::EnumName<StorageType>> enum_names(StorageType) {
  static constexpr kvevict::EnumName<StorageType> names[] = {{StorageType::float32, "float"},
                                                             {StorageType::half, "half"},
                                                             {StorageType::bfloat16, "bfloat16"}};
  return names;
}

/// The command line. The defaults are a model of 8B parameters after a prompt of 32k tokens: 2 GiB
/// of keys and 2 GiB of values.
struct Options {
  std::int64_t layers = 32;
  std::int64_t kv_heads = 8;
  std::int64_t group = 4;
  std::int64_t rows = 32768;
  std::int64_t dim = 128;
  StorageType type = StorageType::bfloat16;
  std::int64_t queries = 256;
  std::uint64_t seed = 1;

  std::string policy = "Jacap";
  std::vector<std::string> settings;  ///< "name=value" of the policy's parameters
  double evict_ratio = 0.75;
  std::int64_t sinks = 4;
  std::int64_t recent = 32;

  std::int64_t check_heads = 3;
  std::int64_t rounds = 5;
  bool help = false;

  /// Heads of all layers together: one axis for the library.
  std::int64_t heads() const { return layers * kv_heads; }
  std::int64_t query_heads() const { return heads() * group; }
  /// Numbers of keys, as many as of values.
  std::int64_t elements() const { return heads() * rows * dim; }
};

/// Parses the arguments behind the program's name, `--name value` or `--name=value`. Throws
/// UsageError for an unknown option (listing the known ones) or a missing value, kvevict::Error for
/// a value that is not what its option takes.
Options parse_options(const std::vector<std::string>& arguments);

/// The text of --help.
std::string help_text();

}  // namespace cuda_evict
