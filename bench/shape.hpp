// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "kvevict/core/element.hpp"

namespace bench {

/// Size of a benchmark's cache.
struct Shape {
  std::int64_t heads;  ///< KV heads, of all layers together
  std::int64_t rows;   ///< in each head
  std::int64_t dim;    ///< 0 where only scores matter
  std::int64_t group;  ///< query heads for each KV head

  std::int64_t query_heads() const { return heads * group; }
  std::int64_t total_rows() const { return heads * rows; }
  std::int64_t elements() const { return total_rows() * dim; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// What runs when no filter is given: small enough to show within a second that everything works.
inline constexpr Shape smoke_shape = {2, 512, 64, 4};

inline constexpr Shape shapes[] = {
    smoke_shape,
    {90, 2048, 64, 3},   // a whole SmolLM2-135M, 30 layers of 3 KV heads, after a prompt of 2k
    {8, 2048, 128, 4},   // one layer of a model of 8B parameters
    {8, 8192, 128, 4},   // the same with a longer prompt
    {8, 32768, 128, 4},  // and with a long one
};

/// Queries that a window of recent queries holds; the default of SnapKV.
inline constexpr std::int64_t window_queries = 64;

/// Everything random in the benchmarks follows from it; printed with the results.
inline constexpr std::uint64_t seed = 20261129;

template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, float>) {
    return "float";
  } else if constexpr (std::is_same_v<T, kvevict::half>) {
    return "half";
  } else {
    return "bfloat16";
  }
}

/// "N:2048/d:64/heads:90/group:3/threads:2"
inline std::string shape_name(const Shape& shape, int threads) {
  std::string name = "N:" + std::to_string(shape.rows);
  if (shape.dim > 0) name += "/d:" + std::to_string(shape.dim);
  return name + "/heads:" + std::to_string(shape.heads) + "/group:" + std::to_string(shape.group) +
         "/threads:" + std::to_string(threads);
}

}  // namespace bench
