// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <kvevict/kvevict.hpp>
#include <vector>

// In a second translation unit with the same headers: a definition that is not inline fails to
// link.
std::int64_t rows_kept_elsewhere(const std::vector<float>& keys, std::int64_t rows);

int main() {
  constexpr std::int64_t rows = 8;
  constexpr std::int64_t dim = 4;
  std::vector<float> keys;
  for (std::int64_t row = 1; row <= rows; ++row) {
    keys.insert(keys.end(), dim, static_cast<float>(row));
  }
  std::vector<float> values = keys;
  const auto cache = kvevict::KvView<float>::hnd(keys.data(), values.data(), 1, rows, dim);

  kvevict::CpuResources res;
  const auto kept =
      kvevict::evict(res, kvevict::KNorm{}, cache, {}, kvevict::Budget::evict_ratio(0.5));
  const std::int64_t elsewhere = rows_kept_elsewhere(keys, rows);
  kvevict::compact(res, kept, cache);

  // The smallest keys stay: rows 0 to 3.
  const bool right =
      kept.total() == 4 && elsewhere == 4 && kept.head(0).back() == 3 && keys.front() == 1.0f;
  std::printf("kvevict %s: %s\n", kvevict::version_string, right ? "works" : "WRONG RESULT");
  return right ? 0 : 1;
}
