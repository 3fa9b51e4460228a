// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvevict_test {

// |got - want| <= abs + rel * |want|
struct Tolerance {
  double rel = 0;
  double abs = 0;
};

// The families that tests choose from. A test that needs another one says why beside it.
namespace tolerance {

// Copies, counts, indices and integers stored as floating point.
inline constexpr Tolerance exact{0, 0};

// The same double-precision sum in another order: up to a few thousand terms of similar size lose
// about n * 2^-53, with room for cancellation among them.
inline constexpr Tolerance float64_sum{1e-11, 1e-13};

// A double result stored once as float32: half a unit in the last place is 2^-24 = 6e-8.
inline constexpr Tolerance float32_stored{1e-7, 1e-30};

// Sums of up to a few thousand products accumulated in fp32: about sqrt(n) * 2^-24 relative to the
// largest term; 1e-5 is what independent fp32 implementations of these scores differ by at most.
inline constexpr Tolerance float32_sum{1e-5, 1e-6};

// Scores behind a d x d factorisation in fp32: the promise is 1e-4 relative for condition numbers
// up to 1e6, scores lie in [0, 1).
inline constexpr Tolerance float32_solve{1e-4, 1e-6};

// A result rounded to binary16 (half a unit in the last place is 2^-11; the smallest subnormal is
// 2^-24) or to bfloat16 (2^-9) after fp32 accumulation.
inline constexpr Tolerance float16_stored{5e-4, 6e-8};
inline constexpr Tolerance bfloat16_stored{2e-3, 1e-38};

}  // namespace tolerance

// What a comparison found. The worst index is the element with the largest error relative to what
// the tolerance allows there, also when all is well, so that a test can report how close it was.
struct Comparison {
  std::int64_t size = 0;
  std::int64_t outside = 0;  // how many elements exceed the tolerance
  std::int64_t worst_index = -1;
  double worst_got = 0;
  double worst_want = 0;
  double worst_error = 0;    // |got - want|
  double worst_allowed = 0;  // abs + rel * |want|
  bool sizes_differ = false;

  bool within() const { return outside == 0 && !sizes_differ; }
  // How much of the tolerance the worst element uses; above 1 is a failure.
  double used() const;
  // One line for the log of a failing test.
  std::string describe() const;
};

// Adds one pair to the comparison. NaN equals NaN; an infinity equals only itself.
void add(Comparison& comparison, double got, double want, Tolerance tolerance);

// Element by element. Got and Want are contiguous ranges of numbers.
template <class Got, class Want>
Comparison compare(const Got& got, const Want& want, Tolerance tolerance) {
  Comparison comparison;
  if (got.size() != want.size()) {
    comparison.sizes_differ = true;
    comparison.worst_got = static_cast<double>(got.size());
    comparison.worst_want = static_cast<double>(want.size());
    return comparison;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    add(comparison, static_cast<double>(got[i]), static_cast<double>(want[i]), tolerance);
  }
  return comparison;
}

}  // namespace kvevict_test
