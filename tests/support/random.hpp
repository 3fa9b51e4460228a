// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace kvevict_test {

// Counter-based random numbers: the value at an index depends on (seed, index) alone, so any part
// of a tensor can be made in any order, on any thread, and stays the same from run to run.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;                            // in [0, 1)
  double uniform(std::uint64_t index, double low, double high) const;   // in [low, high)
  std::int64_t integer(std::uint64_t index, std::int64_t count) const;  // in [0, count)
  double normal(std::uint64_t index) const;                             // mean 0, variance 1
  double heavy_tailed(std::uint64_t index) const;                       // Student t, 2 degrees
  double with_ties(std::uint64_t index, std::int64_t levels) const;     // k / levels

 private:
  std::uint64_t seed_;
};

enum class Shape { uniform, normal, heavy_tailed, ties };

// `count` numbers of a shape: uniform in [-1, 1), normal, heavy tailed, or ties among 5 levels in
// [-1, 1). Rounded to float32, so that the library (in float) and a double loop read equal values.
std::vector<float> random_values(Shape shape, std::int64_t count, std::uint64_t seed);

// 0 .. count-1 in random order.
std::vector<std::int64_t> random_permutation(std::int64_t count, std::uint64_t seed);

}  // namespace kvevict_test
