// SPDX-License-Identifier: Apache-2.0
#include "cache_state.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace demo {

using mini_llama::Index;

void write_matrix(kvevict::StateWriter& to, const mini_llama::ConstMatrixView& rows) {
  to.array(rows.data(), rows.size());
}

mini_llama::Matrix read_matrix(kvevict::StateReader& from, std::string_view name, Index rows,
                               Index dim) {
  const std::vector<float> values = from.array<float>(name, rows * dim);
  mini_llama::Matrix matrix(rows, dim);
  std::copy(values.begin(), values.end(), matrix.data());
  return matrix;
}

void write_cache(kvevict::StateWriter& to, const mini_llama::RaggedCache& cache) {
  const mini_llama::CacheShape& shape = cache.shape();
  for (const Index extent : {shape.layers, shape.kv_heads, shape.key_dim, shape.value_dim,
                             mini_llama::element_bytes(shape.row_type)}) {
    to.integer(extent);
  }
  std::vector<float> scratch;
  for (Index layer = 0; layer < shape.layers; ++layer) {
    for (Index head = 0; head < shape.kv_heads; ++head) {
      const Index rows = cache.rows(layer, head);
      to.array(cache.positions(layer, head).data(), rows);
      // Rows of 16 bits widen to fp32 and come back as they were.
      write_matrix(to, cache.float_keys(layer, head, 0, rows, scratch));
      write_matrix(to, cache.float_values(layer, head, 0, rows, scratch));
    }
  }
}

mini_llama::RaggedCache read_cache(kvevict::StateReader& from,
                                   const mini_llama::CacheShape& shape) {
  for (const auto& [name, extent] :
       {std::pair<std::string_view, Index>{"layers", shape.layers},
        {"kv_heads", shape.kv_heads},
        {"key_dim", shape.key_dim},
        {"value_dim", shape.value_dim},
        {"bytes of an element", mini_llama::element_bytes(shape.row_type)}}) {
    from.expect(name, extent);
  }
  mini_llama::RaggedCache cache(shape);
  for (Index layer = 0; layer < shape.layers; ++layer) {
    for (Index head = 0; head < shape.kv_heads; ++head) {
      const auto positions = from.array<std::int32_t>();
      const auto rows = static_cast<Index>(positions.size());
      const mini_llama::Matrix keys = read_matrix(from, "keys.size", rows, shape.key_dim);
      const mini_llama::Matrix values = read_matrix(from, "values.size", rows, shape.value_dim);
      cache.append(layer, head, positions, keys, values);
    }
  }
  return cache;
}

}  // namespace demo
