// SPDX-License-Identifier: Apache-2.0
//
// Evicts three quarters of a small cache with Jacap and compacts it. The part between the marks is
// the example of the README; the rest makes up the cache that an engine would own, and checks what
// came out.
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "kvevict/kvevict.hpp"

namespace {

std::vector<float> random_rows(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// Sinks and recent rows are there, and row j of a head is what row kept[j] was before.
bool is_compacted(const kvevict::Selection& kept, const std::vector<float>& before,
                  const std::vector<float>& after, std::int64_t tokens, std::int64_t dim) {
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    const auto rows = kept.head(h);
    if (kept.count(h) != tokens / 4) return false;
    if (rows[3] != 3 || rows[rows.size() - 32] != tokens - 32) return false;
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      const std::int64_t from = (h * tokens + rows[static_cast<std::size_t>(j)]) * dim;
      const std::int64_t to = (h * tokens + j) * dim;
      for (std::int64_t c = 0; c < dim; ++c) {
        if (after[static_cast<std::size_t>(to + c)] != before[static_cast<std::size_t>(from + c)]) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

int main() {
  const std::int64_t kv_heads = 2, query_heads = 6, tokens = 1024, head_dim = 64;
  std::vector<float> keys = random_rows(kv_heads * tokens * head_dim, 1);
  std::vector<float> values = random_rows(kv_heads * tokens * head_dim, 2);
  const std::vector<float> queries = random_rows(query_heads * tokens * head_dim, 3);
  const std::vector<float> all_keys = keys;
  const std::vector<float> all_values = values;
  float* k = keys.data();
  float* v = values.data();
  const float* q = queries.data();

  // [quickstart]
  kvevict::CpuResources res({.threads = 4});
  // The engine owns the memory: k, v [kv_head][token][dim], q [query_head][token][dim] before RoPE
  auto cache = kvevict::KvView<float>::hnd(k, v, kv_heads, tokens, head_dim);
  auto context = kvevict::QueriesView<>::packed(q, query_heads, tokens, head_dim);
  auto stats =
      kvevict::estimate_query_stats(res, context, {.theta = 1e5}, {.next_position = tokens});
  auto kept = kvevict::evict(res, kvevict::Jacap{}, cache, {.query_stats = stats.view()},
                             kvevict::Budget::evict_ratio(0.75), {.sinks = 4, .recent = 32});
  kvevict::compact(res, kept, cache);  // or hand `kept` to the engine's own page code
  // [/quickstart]

  std::printf("rows in each head: %lld before, %lld after\n", static_cast<long long>(tokens),
              static_cast<long long>(kept.count(0)));
  const bool good = is_compacted(kept, all_keys, keys, tokens, head_dim) &&
                    is_compacted(kept, all_values, values, tokens, head_dim) &&
                    kept.report() == kvevict::Report{};
  std::puts(good ? "the kept rows are at the front of their heads" : "FAILED");
  return good ? 0 : 1;
}
