// SPDX-License-Identifier: Apache-2.0
// Hundreds of rounds of appending, evicting and compacting against a plain model of what each head
// holds: rows never drift from their positions, counts are exact, nothing comes back.
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/baseline_scores.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/evict.hpp"
#include "kvevict/policies/random.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace churn_test {

using namespace kvevict_test;
using kvevict::half;
using kvevict::KvView;
using kvevict::RowLayout;
using kvevict::RowsView;
using kvevict::Selection;
using WritablePositions = kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t capacity = 64;
constexpr std::int64_t dim = 2;

// What a row of a head was written as: recognisable by position and head.
half value_of(std::int64_t head, std::int32_t position, int which) {
  return half::from_bits(
      static_cast<std::uint16_t>(position * 7 + static_cast<std::int32_t>(head) * 3 + which));
}

// An engine's cache of fixed capacity, each head with rows of its own.
struct Engine {
  std::vector<half> keys = std::vector<half>(heads * capacity * dim);
  std::vector<half> values = std::vector<half>(heads * capacity * dim);
  std::vector<std::int32_t> positions = std::vector<std::int32_t>(heads * capacity);
  std::vector<std::int64_t> offsets = {0, 0, 0, 0};
  std::vector<std::vector<std::int32_t>> model = std::vector<std::vector<std::int32_t>>(heads);

  std::int64_t rows(std::int64_t h) const {
    return static_cast<std::int64_t>(model[static_cast<std::size_t>(h)].size());
  }

  void append(std::int64_t h, std::int32_t position) {
    const std::int64_t row = rows(h);
    for (std::int64_t c = 0; c < dim; ++c) {
      const auto at = static_cast<std::size_t>((h * capacity + row) * dim + c);
      keys[at] = value_of(h, position, 0);
      values[at] = value_of(h, position, 1);
    }
    positions[static_cast<std::size_t>(h * capacity + row)] = position;
    model[static_cast<std::size_t>(h)].push_back(position);
  }

  KvView<half> view() {
    for (std::int64_t h = 0; h < heads; ++h) {
      offsets[static_cast<std::size_t>(h + 1)] = offsets[static_cast<std::size_t>(h)] + rows(h);
      table_[h] = positions.data() + h * capacity;
    }
    const auto all = [](std::vector<half>& memory) {
      return RowsView<half>::strided(memory.data(), heads, capacity, dim, capacity * dim, dim);
    };
    const auto layout = RowLayout<>::ragged(offsets.data(), heads);
    return KvView<half>(all(keys).with_layout(layout), all(values).with_layout(layout),
                        WritablePositions::per_head(table_));
  }

  // The model's side of a compaction.
  void keep(const Selection& kept) {
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<std::int32_t> left;
      for (const std::int32_t i : kept.head(h)) {
        left.push_back(model[static_cast<std::size_t>(h)][static_cast<std::size_t>(i)]);
      }
      model[static_cast<std::size_t>(h)] = left;
    }
  }

  int differences() const {
    int count = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rows(h); ++i) {
        const std::int32_t position =
            model[static_cast<std::size_t>(h)][static_cast<std::size_t>(i)];
        count += positions[static_cast<std::size_t>(h * capacity + i)] == position ? 0 : 1;
        for (std::int64_t c = 0; c < dim; ++c) {
          const auto at = static_cast<std::size_t>((h * capacity + i) * dim + c);
          count += keys[at].bits == value_of(h, position, 0).bits ? 0 : 1;
          count += values[at].bits == value_of(h, position, 1).bits ? 0 : 1;
        }
      }
    }
    return count;
  }

 private:
  std::int32_t* table_[heads] = {};
};

}  // namespace

TEST_CASE("a thousand rounds of append, evict and compact", "[front][compact]") {
  Engine engine;
  TestResources res({.threads = 2});
  Selection kept;
  const Random random(3);
  std::uint64_t next = 0;
  std::int32_t seen = 0;
  for (int round = 0; round < 1000; ++round) {
    for (std::int64_t tokens = 1 + random.integer(next++, 12); tokens > 0; --tokens, ++seen) {
      for (std::int64_t h = 0; h < heads; ++h) {
        // Heads skip tokens now and then: their positions have holes from the start.
        if (engine.rows(h) < capacity && random.integer(next++, 8) > 0) engine.append(h, seen);
      }
    }
    const std::int64_t total = engine.rows(0) + engine.rows(1) + engine.rows(2);
    const kvevict::Random policy{.seed = static_cast<std::uint64_t>(round)};
    const kvevict::Protect protect{.sinks = 2, .recent = 3};
    const auto budget = kvevict::Budget::rows(12 + random.integer(next++, 20));
    const KvView<half> cache = engine.view();
    if (round % 2 == 0) {
      evict_into(res, kept, policy, cache, {}, budget, protect);
      for (std::int64_t h = 0; h < heads; ++h) {
        REQUIRE(kept.count(h) == budget.kept_rows(engine.rows(h)));
      }
    } else {
      evict_into(res, kept, policy, cache, {}, budget, protect, kvevict::GlobalBudget{.floor = 4});
      REQUIRE(kept.total() <= total);
    }
    compact(res, kept, cache);
    engine.keep(kept);
    INFO("round " << round);
    REQUIRE(engine.differences() == 0);
    // Sinks that a head once held, it still holds; the newest rows are there.
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto& model = engine.model[static_cast<std::size_t>(h)];
      REQUIRE(std::is_sorted(model.begin(), model.end()));
      REQUIRE(std::adjacent_find(model.begin(), model.end()) == model.end());
    }
  }
  REQUIRE(seen > 4000);
}

}  // namespace churn_test
