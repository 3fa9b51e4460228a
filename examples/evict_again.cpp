// SPDX-License-Identifier: Apache-2.0
//
// A cache that lives on: ragged, in half precision, one pointer for each head, evicted, appended to
// and evicted again. Self-checking: every row carries its position in its key, so that rows and
// positions can be compared at the end.
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "kvevict/kvevict.hpp"

namespace {

/// What an engine owns for each head: room for rows, and where they stand in the sequence.
struct Head {
  std::vector<kvevict::half> keys;
  std::vector<kvevict::half> values;
  std::vector<std::int32_t> positions;
};

constexpr std::int64_t dim = 16;

void append(Head& head, std::int32_t position, std::mt19937& generator) {
  std::normal_distribution<float> normal;
  for (std::int64_t c = 0; c < dim; ++c) {
    head.keys.push_back(kvevict::half(c == 0 ? static_cast<float>(position) : normal(generator)));
    head.values.push_back(kvevict::half(normal(generator)));
  }
  head.positions.push_back(position);
}

}  // namespace

int main() {
  std::mt19937 generator(1);
  std::vector<Head> heads(3);
  kvevict::CpuResources res;
  kvevict::Selection kept;
  std::int32_t next = 0;  // tokens seen: never the number of rows
  for (int round = 0; round < 3; ++round) {
    for (int token = 0; token < 300; ++token, ++next) {
      for (Head& head : heads) append(head, next, generator);
    }
    // [evict_again]
    std::vector<kvevict::half*> keys, values;
    std::vector<std::int32_t*> positions;
    std::vector<std::int64_t> offsets = {0};
    for (Head& head : heads) {
      keys.push_back(head.keys.data());
      values.push_back(head.values.data());
      positions.push_back(head.positions.data());
      offsets.push_back(offsets.back() + static_cast<std::int64_t>(head.positions.size()));
    }
    // The view refers to the tables and offsets: keep them as long as the view.
    const auto layout = kvevict::RowLayout<>::ragged(offsets.data(), 3);
    const auto cache =
        kvevict::KvView<kvevict::half>::per_head(keys.data(), values.data(), layout, dim)
            .with_positions(kvevict::MutablePositions<>::per_head(positions.data()));
    kvevict::evict_into(res, kept, kvevict::Random{}, cache, {}, kvevict::Budget::rows(100),
                        {.sinks = 4, .recent = 16}, kvevict::GlobalBudget{.floor = 32});
    kvevict::compact(res, kept, cache);  // rows and positions; `cache` still has the old counts
    for (std::size_t h = 0; h < heads.size(); ++h) {
      const auto rows = static_cast<std::size_t>(kept.count(static_cast<std::int64_t>(h)));
      heads[h].keys.resize(rows * static_cast<std::size_t>(dim));
      heads[h].values.resize(rows * static_cast<std::size_t>(dim));
      heads[h].positions.resize(rows);
    }
    // [/evict_again]
  }

  bool good = kept.total() == 300;
  for (const Head& head : heads) {
    good = good && head.positions[3] == 3 && head.positions.back() == next - 1;
    for (std::size_t i = 0; i < head.positions.size(); ++i) {
      const kvevict::half expected(static_cast<float>(head.positions[i]));
      good = good && head.keys[i * static_cast<std::size_t>(dim)].bits == expected.bits;
    }
  }
  std::printf("%d tokens seen, rows held: %lld %lld %lld: %s\n", next,
              static_cast<long long>(kept.count(0)), static_cast<long long>(kept.count(1)),
              static_cast<long long>(kept.count(2)), good ? "each at its position" : "FAILED");
  return good ? 0 : 1;
}
