// SPDX-License-Identifier: Apache-2.0
//
// A small engine with paged memory: sequences of different lengths take pages of one pool, a token
// at a time, and give them back when rows or whole pages are evicted. One pool per layer, one table
// of pages for each sequence, which its layers share. Prints the pages in use; self-checking: every
// row carries its sequence and position in its key.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "kvevict/kvevict.hpp"

namespace {

constexpr std::int64_t layers = 2;
constexpr std::int64_t kv_heads = 2;
constexpr std::int64_t heads = layers * kv_heads;  // of a sequence, as one view shows them
constexpr std::int64_t query_heads = 2 * heads;
constexpr std::int64_t dim = 16;
constexpr std::int64_t page_rows = 16;
constexpr std::int64_t pool_pages = 16;
constexpr std::int64_t table_size = 6;  // most pages of a sequence
constexpr std::int64_t row_limit = 96;  // of a head

const kvevict::PageLayout page_layout = kvevict::PageLayout::nhd(page_rows, kv_heads, dim);

/// The memory of all sequences, [page][row][head][dim] for each layer, and which pages are free.
struct Pool {
  std::vector<std::vector<float>> keys, values;  // [layer]
  std::vector<std::int32_t> free = std::vector<std::int32_t>(pool_pages);

  Pool() {
    const auto size = static_cast<std::size_t>(pool_pages * page_layout.stride);
    keys.assign(layers, std::vector<float>(size));
    values = keys;
    std::iota(free.rbegin(), free.rend(), 0);  // page 0 is taken first
  }
  std::int64_t in_use() const { return pool_pages - static_cast<std::int64_t>(free.size()); }
};

/// A sequence: its table of pages, and the positions of its rows.
struct Sequence {
  std::int64_t number;
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(table_size, -1);
  std::vector<std::int32_t> positions = std::vector<std::int32_t>(heads * table_size * page_rows);
  std::vector<std::int32_t*> position_table;
  std::vector<float*> key_bases, value_bases;  // of each head, in page 0 of its layer's pool
  std::int64_t rows = 0;                       // of each head
  kvevict::DecodeEvictor<kvevict::SnapKV> evictor;
  kvevict::Selection kept;

  Sequence(std::int64_t n, Pool& pool)
      : number(n),
        evictor({.window = 16}, {heads, query_heads, dim},
                {.row_limit = row_limit,
                 .slack = 16,
                 .protect = kvevict::Protect{.sinks = 4, .recent = 16}}) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto layer = static_cast<std::size_t>(h / kv_heads);
      key_bases.push_back(pool.keys[layer].data() + h % kv_heads * dim);
      value_bases.push_back(pool.values[layer].data() + h % kv_heads * dim);
      position_table.push_back(positions.data() + h * table_size * page_rows);
    }
  }
  Sequence(const Sequence&) = delete;

  kvevict::PageTable<> table() const { return {ids.data(), 1, table_size, heads, pool_pages}; }
  kvevict::RowLayout<> layout() const { return kvevict::RowLayout<>::uniform(heads, rows); }
  kvevict::KvView<float> cache() const {
    return kvevict::KvView<float>::paged_per_head(key_bases.data(), value_bases.data(), page_layout,
                                                  table(), layout(), dim)
        .with_positions(kvevict::MutablePositions<>::per_head(position_table.data()));
  }

  /// Takes a page if the last one is full, and writes a row to every head.
  bool append(Pool& pool, std::mt19937& generator) {
    std::int32_t& id = ids[static_cast<std::size_t>(rows / page_rows)];
    if (rows % page_rows == 0) {
      if (pool.free.empty()) return false;
      id = pool.free.back();
      pool.free.pop_back();
    }
    const std::int64_t position = evictor.next_position();
    std::normal_distribution<float> normal;
    ++rows;
    const kvevict::KvView<float> now = cache();
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t c = 0; c < dim; ++c) {
        now.keys().head(h)(rows - 1, c) = normal(generator);
        now.values().head(h)(rows - 1, c) = normal(generator);
      }
      now.keys().head(h)(rows - 1, 0) = static_cast<float>(number);
      now.keys().head(h)(rows - 1, 1) = static_cast<float>(position);
      position_table[static_cast<std::size_t>(h)][rows - 1] = static_cast<std::int32_t>(position);
    }
    return true;
  }

  bool is_whole() const {
    bool good = true;
    const kvevict::KvView<float> now = cache();
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int32_t position = position_table[static_cast<std::size_t>(h)][i];
        good = good && now.keys().head(h)(i, 0) == static_cast<float>(number) &&
               now.keys().head(h)(i, 1) == static_cast<float>(position);
      }
    }
    return good;
  }
};

/// Pages without rows go back to the pool.
void give_back(Pool& pool, const kvevict::PageList& freed) {
  pool.free.insert(pool.free.end(), freed.ids.rbegin(), freed.ids.rend());
}

}  // namespace

int main() {
  std::mt19937 generator(1);
  Pool pool;
  kvevict::CpuResources res;
  Sequence first(0, pool), second(1, pool), third(2, pool);
  std::vector<float> queries(query_heads * dim);
  const auto step = [&](Sequence& sequence) {
    // [paged_engine]
    const kvevict::RowLayout<> before = sequence.layout();
    if (sequence.evictor.make_room(res, sequence.kept, sequence.cache(), 1)) {
      const kvevict::RowLayout<>& after = sequence.kept.layout();
      give_back(pool, kvevict::freed_pages(sequence.table(), page_rows, before, after));
      sequence.rows = after.rows(0);
    }
    // [/paged_engine]
    if (!sequence.append(pool, generator)) return false;
    std::normal_distribution<float> normal;
    std::generate(queries.begin(), queries.end(), [&] { return normal(generator); });
    sequence.evictor.observe(
        res, sequence.cache(), 1,
        {.post_rope = kvevict::QueriesView<>::packed(queries.data(), query_heads, 1, dim)});
    return true;
  };
  const auto print = [&](const char* what) {
    std::printf("%s: %lld, %lld and %lld rows a head, %lld of %lld pages in use\n", what,
                static_cast<long long>(first.rows), static_cast<long long>(second.rows),
                static_cast<long long>(third.rows), static_cast<long long>(pool.in_use()),
                static_cast<long long>(pool_pages));
  };

  // 1650 tokens, which would need 105 pages.
  bool good = true;
  for (int token = 0; token < 1000; ++token) {
    if (token < 50) good = good && step(first);
    good = good && step(second);
    if (token >= 400) good = good && step(third);
    if (token == 49) print("  50 tokens");
    if (token == 399) print(" 400 tokens");
  }
  print("1000 tokens");

  // Memory runs short: a sequence gives up whole pages, and none of its rows moves.
  const std::int64_t pages = pool.in_use();
  {
    const kvevict::KvView<float> cache = second.cache();
    const kvevict::RowLayout<> before = second.layout();
    std::vector<float> memory(static_cast<std::size_t>(before.total()));
    const kvevict::ScoreView<> scores{memory.data(), before};
    kvevict::score_rows(res, second.evictor.policy(), cache, second.evictor.evidence(res), scores);
    const auto options = kvevict::BlockOptions::of(second.table(), page_layout);
    kvevict::Selection blocks;
    kvevict::select_blocks(res, blocks, scores, kvevict::Positions<>(cache.positions()), options,
                           kvevict::Budget::rows(48), {.sinks = 4, .recent = 16});
    second.kept = kvevict::rows_of_blocks(blocks, before, options);
    give_back(pool,
              kvevict::keep_pages(blocks, second.table(), second.ids.data(), page_rows, before));
    for (std::int64_t h = 0; h < heads; ++h) {  // positions are not in pages: they move
      std::int32_t* next = second.position_table[static_cast<std::size_t>(h)];
      const std::int32_t* positions = next;
      for (const std::int32_t row : second.kept.head(h)) *next++ = positions[row];
    }
    second.evictor.commit(res, second.kept);
    second.rows = second.kept.count(0);
  }
  print("pages given up");
  good = good && pool.in_use() < pages;
  for (int token = 0; token < 200; ++token) good = good && step(second);
  print("1200 tokens");

  good = good && first.is_whole() && second.is_whole() && third.is_whole();
  good = good && first.rows == 50 && second.rows <= row_limit && third.rows <= row_limit;
  std::printf("%s\n", good ? "every row at its place" : "FAILED");
  return good ? 0 : 1;
}
