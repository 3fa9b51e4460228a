// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <kvevict/core/kv_view.hpp>
#include <kvevict/core/selection.hpp>

#include "mini_llama/ragged_cache.hpp"

namespace demo {

/// The engine's cache as the library sees it: all heads of all layers in one axis, one pointer for
/// each, no copy. Refers to the cache; good until rows are appended or freed.
template <class T>
class CacheView {
 public:
  explicit CacheView(mini_llama::RaggedCache& cache) : offsets_{0} {
    const mini_llama::CacheShape& shape = cache.shape();
    key_dim_ = shape.key_dim;
    value_dim_ = shape.value_dim;
    for (mini_llama::Index layer = 0; layer < shape.layers; ++layer) {
      for (mini_llama::Index head = 0; head < shape.kv_heads; ++head) {
        keys_.push_back(cache.keys<T>(layer, head));
        values_.push_back(cache.values<T>(layer, head));
        positions_.push_back(cache.positions(layer, head));
        offsets_.push_back(offsets_.back() + cache.rows(layer, head));
      }
    }
  }

  kvevict::KvView<T> view() const {
    const auto heads = static_cast<std::int64_t>(keys_.size());
    const auto layout = kvevict::RowLayout<>::ragged(offsets_.data(), heads);
    using Rows = kvevict::RowsView<T>;
    return kvevict::KvView<T>(
        Rows::per_head(keys_.data(), layout, key_dim_, key_dim_),
        Rows::per_head(values_.data(), layout, value_dim_, value_dim_),
        kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>::per_head(positions_.data()));
  }

 private:
  std::vector<T*> keys_;
  std::vector<T*> values_;
  std::vector<std::int32_t*> positions_;
  std::vector<std::int64_t> offsets_;
  std::int64_t key_dim_ = 0;
  std::int64_t value_dim_ = 0;
};

/// Calls `use` with the cache as a view of its row type; returns what it returns.
template <class Use>
auto with_view(mini_llama::RaggedCache& cache, Use&& use) {
  if (cache.shape().row_type == mini_llama::RowType::float32) {
    const CacheView<float> rows(cache);
    return use(rows.view());
  }
  const CacheView<kvevict::half> rows(cache);
  return use(rows.view());
}

/// Gives the memory of the rows that were not kept back, after a compaction.
inline void keep_rows(mini_llama::RaggedCache& cache, const kvevict::Selection& kept) {
  const mini_llama::CacheShape& shape = cache.shape();
  for (mini_llama::Index layer = 0; layer < shape.layers; ++layer) {
    for (mini_llama::Index head = 0; head < shape.kv_heads; ++head) {
      cache.shrink(layer, head, kept.count(layer * shape.kv_heads + head));
    }
  }
}

}  // namespace demo
