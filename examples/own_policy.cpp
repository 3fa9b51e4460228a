// SPDX-License-Identifier: Apache-2.0
//
// A policy of one's own: any copyable, comparable type with the four functions below can be handed
// to `evict`, for every element type and cache layout.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

#include "kvevict/kvevict.hpp"

// [own_policy]
/// Keeps rows whose value has a large channel: score_i = max_c |v_ic|.
struct LargeValues {
  std::string_view name() const { return "LargeValues"; }
  kvevict::EvidenceSet needs() const { return {}; }  // keys and values suffice
  bool comparable_across_heads() const { return false; }

  template <class T>
  void score(kvevict::CpuResources& res, const kvevict::KvView<const T>& cache,
             const kvevict::Evidence<>&, kvevict::ScoreView<> scores) const {
    if (res.workspace().counting()) return;  // only the workspace is asked for, there is none
    res.parallel_for(cache.heads(), [&](std::int64_t h, int) {
      const kvevict::HeadView<const T> values = cache.values().head(h);  // [row][dim]
      float* out = scores.head(h);
      for (std::int64_t i = 0; i < values.rows; ++i) {
        out[i] = 0.0f;
        for (std::int64_t c = 0; c < values.dim; ++c) {
          out[i] = std::max(out[i], std::abs(static_cast<float>(values(i, c))));
        }
      }
    });
  }

  friend bool operator==(const LargeValues&, const LargeValues&) = default;
};
static_assert(kvevict::EvictionPolicy<LargeValues, kvevict::CpuResources, kvevict::half>);
// [/own_policy]

int main() {
  const std::int64_t heads = 2, rows = 200, dim = 16;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<kvevict::half> keys(static_cast<std::size_t>(heads * rows * dim));
  std::vector<kvevict::half> values(keys.size());
  for (auto* array : {&keys, &values}) {
    for (kvevict::half& x : *array) x = kvevict::half(normal(generator));
  }
  // Two rows that such a policy has to find.
  values[static_cast<std::size_t>((0 * rows + 70) * dim + 5)] = kvevict::half(-1000.0f);
  values[static_cast<std::size_t>((1 * rows + 130) * dim)] = kvevict::half(2000.0f);

  kvevict::CpuResources res;
  const auto cache =
      kvevict::KvView<kvevict::half>::hnd(keys.data(), values.data(), heads, rows, dim);
  const auto kept = kvevict::evict(res, LargeValues{}, cache, {}, kvevict::Budget::rows(20),
                                   {.sinks = 4, .recent = 8});
  const auto has = [&](std::int64_t head, std::int32_t row) {
    const auto rows_of_head = kept.head(head);
    return std::binary_search(rows_of_head.begin(), rows_of_head.end(), row);
  };
  const bool good = kept.total() == 40 && has(0, 70) && has(1, 130) && has(0, 3) && has(1, 199);
  std::printf("LargeValues keeps %lld of %lld rows in each head, the large ones among them: %s\n",
              static_cast<long long>(kept.count(0)), static_cast<long long>(rows),
              good ? "yes" : "NO");
  return good ? 0 : 1;
}
