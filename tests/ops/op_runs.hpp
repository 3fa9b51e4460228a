// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "kvevict/core/scores.hpp"
#include "support/backend.hpp"
#include "support/tolerance.hpp"

namespace kvevict_test {

// Equal bit by bit: NaN equals itself, -0 does not equal +0.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// What `op(res, scores)` writes into scores of this layout, which start as `initial` (NaN when it
// is empty). Runs with 1, 2 and 3 threads, whose results must be equal bit by bit, and guards the
// memory around the scores.
template <class Op>
std::vector<float> scores_of(const kvevict::RowLayout<>& layout, Op&& op,
                             const std::vector<float>& initial = {}) {
  constexpr std::size_t margin = 32;
  constexpr float guard = 12345.75f;
  const auto total = static_cast<std::size_t>(layout.total());
  std::vector<float> first;
  for (const int threads : thread_counts) {
    TestResources res({.threads = threads});
    std::vector<float> memory(total + 2 * margin, guard);
    std::fill_n(memory.begin() + margin, total, std::numeric_limits<float>::quiet_NaN());
    if (!initial.empty()) {
      REQUIRE(initial.size() == total);
      std::copy(initial.begin(), initial.end(), memory.begin() + margin);
    }
    op(res, kvevict::ScoreView<>{memory.data() + margin, layout});
    int broken = 0;
    for (std::size_t i = 0; i < margin; ++i) {
      broken += memory[i] == guard && memory[margin + total + i] == guard ? 0 : 1;
    }
    REQUIRE(broken == 0);
    std::vector<float> scores(memory.begin() + margin,
                              memory.begin() + static_cast<std::ptrdiff_t>(margin + total));
    if (threads == 1) {
      first = std::move(scores);
    } else {
      INFO(threads << " threads");
      REQUIRE(same_bits(scores, first));
    }
  }
  return first;
}

// A number and how far a right fp32 computation may be from it.
struct Expected {
  double value = 0;
  double bound = 0;
};

// The sum of products and the error bound of any order of fp32 summation:
// (terms + 2) 2^-24 sum |terms|.
class ExpectedSum {
 public:
  void add(double term) {
    sum_ += term;
    size_ += std::abs(term);
    ++terms_;
  }
  // With `more` roundings of what went into the terms.
  Expected result(int more = 0) const {
    return {sum_, (terms_ + more + 2) * 0x1p-24 * size_ + 1e-44};
  }

 private:
  double sum_ = 0;
  double size_ = 0;
  int terms_ = 0;
};

inline void require_close(const std::vector<float>& got, const std::vector<Expected>& want) {
  REQUIRE(got.size() == want.size());
  std::size_t worst = 0;
  std::size_t outside = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i].value);
    if (error <= want[i].bound) continue;
    if (outside++ == 0) worst = i;
  }
  if (outside == 0) return;
  INFO(outside << " outside, first at " << worst << ": got " << got[worst] << ", want "
               << want[worst].value << " within " << want[worst].bound);
  REQUIRE(outside == 0);
}

inline void require_close(const std::vector<float>& got, const std::vector<double>& want,
                          Tolerance tolerance) {
  const Comparison comparison = compare(got, want, tolerance);
  INFO(comparison.describe());
  REQUIRE(comparison.within());
}

}  // namespace kvevict_test
