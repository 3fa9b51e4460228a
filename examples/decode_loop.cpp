// SPDX-License-Identifier: Apache-2.0
//
// A cache that keeps its limit: a prompt in chunks, then token by token, thousands of them, in a
// buffer that never grows; saved half-way and gone on with. Self-checking: every row carries its
// position in its key.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "kvevict/kvevict.hpp"

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t query_heads = 6;
constexpr std::int64_t dim = 16;
constexpr std::int64_t limit = 128;  // rows of a head, in the cache and in the buffers behind it

/// What the engine owns.
struct Cache {
  std::vector<float> keys = std::vector<float>(heads * limit * dim);
  std::vector<float> values = std::vector<float>(heads * limit * dim);
  std::vector<std::int32_t> positions = std::vector<std::int32_t>(heads * limit);
  std::vector<std::int32_t*> position_table;
  std::int64_t rows = 0;  // of each head

  Cache() {
    for (std::int64_t h = 0; h < heads; ++h) position_table.push_back(&positions[at(h, 0)]);
  }
  static std::size_t at(std::int64_t head, std::int64_t row) {
    return static_cast<std::size_t>(head * limit + row);
  }

  kvevict::KvView<float> view() {
    return kvevict::KvView<float>::hnd(keys.data(), values.data(), heads, limit, dim)
        .with_layout(kvevict::RowLayout<>::uniform(heads, rows),
                     kvevict::MutablePositions<>::per_head(position_table.data()));
  }

  void append(std::int64_t tokens, std::int64_t position, std::mt19937& generator) {
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < tokens; ++i, ++rows) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::size_t c = 0; c < dim; ++c) {
          keys[at(h, rows) * dim + c] =
              c == 0 ? static_cast<float>(position + i) : normal(generator);
          values[at(h, rows) * dim + c] = normal(generator);
        }
        positions[at(h, rows)] = static_cast<std::int32_t>(position + i);
      }
    }
  }
};

}  // namespace

int main() {
  std::mt19937 generator(1);
  Cache cache;
  kvevict::CpuResources res;
  kvevict::Selection kept;
  const kvevict::DecodeShape shape{heads, query_heads, dim};
  const kvevict::DecodeSchedule schedule{
      .row_limit = limit, .slack = 16, .protect = kvevict::Protect{.sinks = 4, .recent = 32}};
  kvevict::DecodeEvictor evictor(kvevict::SnapKV{.window = 32}, shape, schedule);
  std::vector<float> queries;
  // Two sequences through one object, the first one longer.
  for (const std::int64_t length : {5000, 300}) {
    evictor.reset();
    cache.rows = 0;
    while (evictor.next_position() < length) {
      const bool prompt = evictor.next_position() < 240;  // in chunks of 60
      const std::int64_t tokens = prompt ? 60 : 1;
      // [decode_loop]
      if (evictor.make_room(res, kept, cache.view(), tokens)) cache.rows = kept.count(0);
      cache.append(tokens, evictor.next_position(), generator);
      queries.assign(static_cast<std::size_t>(query_heads * tokens * dim), 0.5f);  // after RoPE
      evictor.observe(
          res, cache.view(), tokens,
          {.post_rope = kvevict::QueriesView<>::packed(queries.data(), query_heads, tokens, dim)});
      // [/decode_loop]
    }
    // What was collected moves to another process; the rows are the engine's to move.
    const std::vector<std::byte> blob = evictor.save(res);
    kvevict::DecodeEvictor elsewhere(kvevict::SnapKV{.window = 32}, shape, schedule);
    elsewhere.restore(res, blob);
    bool good = elsewhere.next_position() == length && elsewhere.save(res) == blob;
    good = good && cache.rows <= limit && evictor.dropped(0) == length - cache.rows;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < cache.rows; ++i) {
        const std::int32_t position = cache.positions[Cache::at(h, i)];
        good = good && cache.keys[Cache::at(h, i) * dim] == static_cast<float>(position);
        good = good && (i >= 4 || position == i);
        good = good && (i + 32 < cache.rows || position == length - cache.rows + i);
      }
    }
    std::printf("%lld tokens seen, %lld rows held, %zu bytes of state: %s\n",
                static_cast<long long>(length), static_cast<long long>(cache.rows), blob.size(),
                good ? "as it should be" : "FAILED");
    if (!good) return 1;
  }
  return 0;
}
