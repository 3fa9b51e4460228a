// SPDX-License-Identifier: Apache-2.0
// A quantised cache that grows is kept within its limit as the floats that it stands for.
#include <vector>

#include "catch.hpp"
#include "decode/engine.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "support/quantised.hpp"

using namespace kvevict_test;
using kvevict::q8_0;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 32, .capacity = 24};

// Heads of equal length, [head][row][dim].
template <class T>
struct GrowingCache {
  static constexpr std::int64_t units = shape.dim / kvevict::channels_of<T>;

  std::int64_t rows = 0;
  std::vector<T> keys = std::vector<T>(shape.heads * shape.capacity * units);
  std::vector<T> values = keys;
  std::vector<std::int32_t> positions = std::vector<std::int32_t>(shape.heads * shape.capacity);
  std::int32_t* table[shape.heads] = {positions.data(), positions.data() + shape.capacity};

  kvevict::KvView<T> view() {
    return kvevict::KvView<T>::hnd(keys.data(), values.data(), shape.heads, shape.capacity,
                                   shape.dim)
        .with_layout(kvevict::RowLayout<>::uniform(shape.heads, rows),
                     kvevict::MutablePositions<>::per_head(table));
  }
  void set_row(std::int64_t h, std::int64_t position, const std::vector<T>& key,
               const std::vector<T>& value) {
    std::copy(key.begin(), key.end(), keys.begin() + (h * shape.capacity + rows) * units);
    std::copy(value.begin(), value.end(), values.begin() + (h * shape.capacity + rows) * units);
    table[h][rows] = static_cast<std::int32_t>(position);
  }
};

}  // namespace

TEST_CASE("a quantised cache is decoded as its numbers", "[decode][quantised]") {
  const auto one_row = kvevict::RowLayout<>::uniform(1, 1);
  for (const char* const name : {"KNorm", "SnapKV", "H2O", "ExpectedAttention", "Jacap"}) {
    INFO(name);
    const kvevict::DecodeSchedule schedule{
        .row_limit = shape.capacity, .slack = 3, .protect = {.sinks = 2, .recent = 4}};
    Evictor of_blocks(TestPolicy::named(name), shape.decode(), schedule, short_memory());
    Evictor of_floats(TestPolicy::named(name), shape.decode(), schedule, short_memory());
    GrowingCache<q8_0> blocks;
    GrowingCache<float> floats;
    TestResources res({.threads = 1});
    kvevict::Selection kept;
    kvevict::Selection kept_floats;
    int evictions = 0;
    for (std::int64_t position = 0; position < 60; ++position) {
      const bool evicted = of_blocks.make_room(res, kept, blocks.view(), 1);
      REQUIRE(evicted == of_floats.make_room(res, kept_floats, floats.view(), 1));
      if (evicted) {
        ++evictions;
        REQUIRE(kept == kept_floats);
        blocks.rows = floats.rows = kept.count(0);
      }
      const auto seed = static_cast<std::uint64_t>(10 * position);
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        const auto row = [&](std::uint64_t which) {
          return QuantisedRows<q8_0>(
              random_values(Shape::normal, shape.dim,
                            seed + 2 * static_cast<std::uint64_t>(h) + which),
              one_row, shape.dim);
        };
        const auto key = row(0);
        const auto value = row(1);
        blocks.set_row(h, position, key.stored, value.stored);
        floats.set_row(h, position, key.numbers(one_row), value.numbers(one_row));
      }
      ++blocks.rows;
      ++floats.rows;
      const std::int64_t query_heads = shape.heads * shape.group;
      const std::vector<float> numbers =
          random_values(Shape::normal, query_heads * shape.dim, seed + 9);
      const auto queries =
          kvevict::QueriesView<>::packed(numbers.data(), query_heads, 1, shape.dim);
      of_blocks.observe(res, blocks.view(), 1, {queries, queries});
      of_floats.observe(res, floats.view(), 1, {queries, queries});
    }
    REQUIRE(evictions > 5);
  }
}
