// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace kvevict_test {

using Counts = std::vector<std::int64_t>;

// Scores of several heads and their shares of a budget, for allocators.
struct SharesCase {
  std::vector<std::vector<float>> heads;
  Counts shares;
  kvevict::Protect protect = {};
  bool comparable = true;
  std::int32_t first_position = 0;

  // `count` heads of `rows` rows with random scores.
  static SharesCase random(std::int64_t count, std::int64_t rows, std::int64_t share,
                           std::uint64_t seed) {
    SharesCase made;
    const Random draw(seed);
    for (std::int64_t h = 0; h < count; ++h) {
      made.heads.emplace_back();
      for (std::int64_t i = 0; i < rows; ++i) {
        made.heads.back().push_back(
            static_cast<float>(draw.uniform(static_cast<std::uint64_t>(h * rows + i))));
      }
    }
    made.shares.assign(static_cast<std::size_t>(count), share);
    return made;
  }

  // The counts with 1, 2 and 3 threads, which must agree, checked for what allocators promise.
  template <class Allocator>
  Counts divide(const Allocator& allocator) const {
    Counts first;
    for (const int threads : thread_counts) {
      TestResources res({.threads = threads});
      const Counts counts = divide(res, allocator);
      if (threads == 1) first = counts;
      REQUIRE(counts == first);
    }
    REQUIRE(std::accumulate(first.begin(), first.end(), std::int64_t{0}) ==
            std::accumulate(shares.begin(), shares.end(), std::int64_t{0}));
    for (std::size_t h = 0; h < heads.size(); ++h) {
      const auto rows = static_cast<std::int64_t>(heads[h].size());
      REQUIRE(first[h] <= rows);
      REQUIRE(first[h] >= held(h));
    }
    return first;
  }

  template <class Allocator>
  Counts divide(TestResources& res, const Allocator& allocator) const {
    static_assert(kvevict::BudgetAllocator<Allocator, TestResources>);
    Counts offsets = {0};
    std::vector<float> scores;
    for (const std::vector<float>& head : heads) {
      scores.insert(scores.end(), head.begin(), head.end());
      offsets.push_back(static_cast<std::int64_t>(scores.size()));
    }
    const auto count = static_cast<std::int64_t>(heads.size());
    const kvevict::AllocationInput<> input{
        {scores.data(), kvevict::RowLayout<>::ragged(offsets.data(), count)},
        kvevict::Positions<>::consecutive(first_position),
        protect,
        shares.data(),
        comparable};
    Counts counts(heads.size(), -1);
    allocator.allocate(res, input, counts.data());
    return counts;
  }

  std::int64_t held(std::size_t head) const {
    return kvevict::count_protected(protect, kvevict::PositionRow<>{.first = first_position},
                                    static_cast<std::int64_t>(heads[head].size()));
  }
};

// Heads [begin, end) of every `layer` heads: what one of several processes holds.
inline SharesCase part_of(const SharesCase& whole, std::size_t layer, std::size_t begin,
                          std::size_t end) {
  SharesCase part = whole;
  part.heads.clear();
  part.shares.clear();
  for (std::size_t h = 0; h < whole.heads.size(); ++h) {
    if (h % layer < begin || h % layer >= end) continue;
    part.heads.push_back(whole.heads[h]);
    part.shares.push_back(whole.shares[h]);
  }
  return part;
}

}  // namespace kvevict_test
