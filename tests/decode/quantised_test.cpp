// SPDX-License-Identifier: Apache-2.0
// A quantised cache that grows is kept within its limit as the floats that it stands for.
#include <memory>
#include <vector>

#include "catch.hpp"
#include "decode/engine.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "support/quantised.hpp"

namespace quantised_test {

using namespace kvevict_test;
using kvevict::float8_e4m3;
using kvevict::q8_0;
using kvevict::RowsView;

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
  template <class Quantised>
  void set_row(std::int64_t h, std::int64_t position, const Quantised& key,
               const Quantised& value) {
    set_row(h, position, key.stored, value.stored);
  }
  void keep(const kvevict::Selection& kept) { rows = kept.count(0); }
};

// 8-bit rows with a scale each: pools [page][row][head][dim] and [page][row][head], pages of both
// taken and given back together.
struct PagedCache {
  static constexpr std::int64_t page_rows = 5;
  static constexpr std::size_t places = shape.heads * (shape.capacity + page_rows);

  std::int64_t rows = 0;
  PagePool pages{std::make_shared<FreePages>(PagePool::pages_of(shape.capacity, page_rows)), 1,
                 shape.heads, page_rows, shape.capacity};
  std::vector<float8_e4m3> keys = std::vector<float8_e4m3>(places * shape.dim);
  std::vector<float8_e4m3> values = keys;
  std::vector<float> key_scales = std::vector<float>(places);
  std::vector<float> value_scales = key_scales;
  std::vector<std::int32_t> positions = std::vector<std::int32_t>(shape.heads * shape.capacity);
  std::int32_t* table[shape.heads] = {positions.data(), positions.data() + shape.capacity};

  kvevict::RowLayout<> layout() const { return kvevict::RowLayout<>::uniform(shape.heads, rows); }
  kvevict::KvView<float8_e4m3> view() {
    const auto scales = [&](std::vector<float>& pool) {
      return RowsView<float>::paged(pool.data(),
                                    kvevict::PageLayout::nhd(page_rows, shape.heads, 1),
                                    pages.table(), layout(), 1);
    };
    return kvevict::KvView<float8_e4m3>::paged_nhd(keys.data(), values.data(), pages.table(),
                                                   layout(), page_rows, shape.heads, shape.dim)
        .with_row_scales(scales(key_scales), scales(value_scales))
        .with_positions(kvevict::MutablePositions<>::per_head(table));
  }
  void set_row(std::int64_t h, std::int64_t position, const QuantisedRows<float8_e4m3>& key,
               const QuantisedRows<float8_e4m3>& value) {
    pages.take(h, rows);
    const std::int64_t place =
        (pages.page(h, rows) * page_rows + rows % page_rows) * shape.heads + h;
    std::copy(key.stored.begin(), key.stored.end(), keys.begin() + place * shape.dim);
    std::copy(value.stored.begin(), value.stored.end(), values.begin() + place * shape.dim);
    key_scales[static_cast<std::size_t>(place)] = key.scales[0];
    value_scales[static_cast<std::size_t>(place)] = value.scales[0];
    table[h][rows] = static_cast<std::int32_t>(position);
  }
  void keep(const kvevict::Selection& kept) {
    pages.give_back(freed_pages(pages.table(), page_rows, layout(), kept.layout()));
    rows = kept.count(0);
  }
};

struct Blocks {
  using Cache = GrowingCache<q8_0>;
  using Stored = q8_0;
};
struct ScaledRows {
  using Cache = PagedCache;
  using Stored = float8_e4m3;
};

}  // namespace

TEMPLATE_TEST_CASE("a quantised cache is decoded as its numbers", "[decode][quantised]", Blocks,
                   ScaledRows) {
  using T = typename TestType::Stored;
  const auto one_row = kvevict::RowLayout<>::uniform(1, 1);
  for (const char* const name : {"KNorm", "SnapKV", "H2O", "ExpectedAttention", "Jacap"}) {
    INFO(name);
    const kvevict::DecodeSchedule schedule{.row_limit = shape.capacity,
                                           .slack = 3,
                                           .protect = kvevict::Protect{.sinks = 2, .recent = 4}};
    Evictor of_blocks(TestPolicy::named(name), shape.decode(), schedule, short_memory());
    Evictor of_floats(TestPolicy::named(name), shape.decode(), schedule, short_memory());
    typename TestType::Cache blocks;
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
        blocks.keep(kept);
        floats.keep(kept_floats);
        for (std::int64_t h = 0; h < shape.heads; ++h) {
          for (std::int64_t i = 0; i < blocks.rows; ++i) {
            for (std::int64_t c = 0; c < shape.dim; ++c) {
              REQUIRE(blocks.view().keys().head(h).value(i, c) ==
                      floats.view().keys().head(h).value(i, c));
              REQUIRE(blocks.view().values().head(h).value(i, c) ==
                      floats.view().values().head(h).value(i, c));
            }
          }
        }
      }
      const auto seed = static_cast<std::uint64_t>(10 * position);
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        const auto row = [&](std::uint64_t which) {
          return QuantisedRows<T>(random_values(Shape::normal, shape.dim,
                                                seed + 2 * static_cast<std::uint64_t>(h) + which),
                                  one_row, shape.dim, Scaling::by_row);
        };
        const auto key = row(0);
        const auto value = row(1);
        blocks.set_row(h, position, key, value);
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

TEMPLATE_TEST_CASE("quantised layouts give the same rows: a prompt of 520, a limit of 256",
                   "[decode][quantised]", q8_0, kvevict::float8_e4m3) {
  const EngineShape large{.heads = 2, .group = 2, .dim = 32, .capacity = 520};
  for (const char* const name : {"KNorm", "H2O", "SnapKV", "KeyDiff", "ExpectedAttention"}) {
    INFO(name);
    std::vector<std::vector<std::int32_t>> want;
    std::vector<std::byte> want_state;
    for (const CacheLayout layout : all_layouts) {
      TestResources res({.threads = 2});
      kvevict::Selection kept;
      Evictor evictor(TestPolicy::named(name), large.decode(),
                      {.row_limit = 256, .protect = kvevict::Protect{.sinks = 4}}, short_memory());
      Engine<TestType> engine(layout, large, 31);
      engine.append(0, 520);
      evictor.observe(res, engine.view(), 520, engine.queries(0, 520).view());
      for (int step = 0; step < 5; ++step) {
        decode_step(res, evictor, engine, kept, 1);
        REQUIRE(engine.rows(0) == 256);
      }
      const std::vector<std::vector<std::int32_t>> held = {engine.held(0), engine.held(1)};
      const std::vector<std::byte> state = evictor.save(res);
      if (want.empty()) want = held;
      if (want_state.empty()) want_state = state;
      REQUIRE(held == want);
      REQUIRE(state == want_state);
      REQUIRE(engine.differences() == 0);
    }
  }
}

}  // namespace quantised_test
