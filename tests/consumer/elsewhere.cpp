// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <kvevict/kvevict.hpp>
#include <vector>

std::int64_t rows_kept_elsewhere(const std::vector<float>& keys, std::int64_t rows) {
  kvevict::CpuResources res;
  const std::int64_t dim = static_cast<std::int64_t>(keys.size()) / rows;
  const auto cache = kvevict::KvView<const float>::hnd(keys.data(), keys.data(), 1, rows, dim);
  return kvevict::evict(res, kvevict::KNorm{}, cache, {}, kvevict::Budget::rows(rows / 2)).total();
}
