// SPDX-License-Identifier: Apache-2.0
//
// Evicts with one threshold over all heads, then refits the kept rows so that probe queries read
// from them what they read from the whole cache. Self-checking: no head may end further from the
// whole cache than by evicting alone.
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "kvevict/kvevict.hpp"

namespace {

constexpr std::int64_t kv_heads = 4;
constexpr std::int64_t query_heads = 8;
constexpr std::int64_t tokens = 600;
constexpr std::int64_t dim = 32;

// Made-up tensors with what real ones have: queries share a large common part (here the channel
// that turns slowest), and a few rows draw most of the attention.
std::vector<float> random_rows(std::int64_t count, float common, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<std::size_t>(count * dim));
  for (float& value : rows) value = normal(generator);
  for (std::size_t i = 0; i < rows.size(); i += static_cast<std::size_t>(dim)) {
    rows[i + static_cast<std::size_t>(dim) / 2 - 1] += common;
  }
  return rows;
}

}  // namespace

int main() {
  std::vector<float> k = random_rows(kv_heads * tokens, 0.0f, 1);
  std::vector<float> v = random_rows(kv_heads * tokens, 0.0f, 2);
  const std::vector<float> q = random_rows(query_heads * tokens, 8.0f, 3);
  const kvevict::Rope rope{.theta = 1e6, .rotary_dim = dim};

  // [refit]
  kvevict::CpuResources res;
  const auto cache = kvevict::KvView<float>::hnd(k.data(), v.data(), kv_heads, tokens, dim);
  const auto queries = kvevict::QueriesView<>::packed(q.data(), query_heads, tokens, dim);
  const auto probes = kvevict::future_probes(res, queries, rope, {.next_position = tokens});

  const auto kept = kvevict::evict(res, kvevict::ProbeAttention{}, cache, {.probes = probes.view()},
                                   kvevict::Budget::evict_ratio(0.75), {.sinks = 4, .recent = 32},
                                   kvevict::GlobalBudget{});
  std::vector<float> new_k(static_cast<std::size_t>(kept.total() * dim));
  std::vector<float> new_v(new_k.size());
  std::vector<kvevict::RefitHead> accounts(kv_heads);
  const auto refitted =
      kvevict::KvView<float>::ragged(new_k.data(), new_v.data(), kept.layout(), dim);
  kvevict::refit(res, kept, cache, probes.view(), {}, refitted, accounts);
  kvevict::compact_refitted(res, kept, cache, refitted);
  // [/refit]

  bool good = true;
  for (const kvevict::RefitHead& head : accounts) {
    std::printf("error of the probes' outputs: %.3f evicted, %.3f refitted\n",
                static_cast<double>(head.evict_error), static_cast<double>(head.error));
    good = good && head.error < head.evict_error;
  }
  std::printf("%lld of %lld rows kept: %s\n", static_cast<long long>(kept.total()),
              static_cast<long long>(kv_heads * tokens), good ? "every head is nearer" : "FAILED");
  return good ? 0 : 1;
}
