// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model.hpp"
#include "tokenizer.hpp"

namespace mini_llama_test {

using Row = std::vector<double>;

// A key and a value of one head, with their position.
struct CacheRow {
  std::int32_t position;
  Row key;
  Row value;
};

// Attention of one query over the rows at its position or before, in double; zeros if there is
// none.
Row reference_attention(const Row& query, std::int32_t position, std::span<const CacheRow> rows,
                        mini_llama::Index value_dim);

// The llama architecture written down once more, token by token in double precision and plain
// loops, with a cache whose rows can be removed at will.
class ReferenceModel {
 public:
  explicit ReferenceModel(const mini_llama::Model& model);

  // Feeds one token at the next position and returns the logits after it.
  Row forward(mini_llama::TokenId token);

  std::vector<CacheRow>& rows(mini_llama::Index layer, mini_llama::Index head) {
    return cache_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)];
  }

  // Applied to keys and values as they enter the cache.
  std::function<double(double)> round_row_element;

 private:
  Row attend(const mini_llama::LayerWeights& weights, mini_llama::Index layer, const Row& x);
  void rotate(double* head) const;

  const mini_llama::Model& model_;
  std::vector<std::vector<std::vector<CacheRow>>> cache_;  // [layer][head][row]
  std::int32_t position_ = 0;
};

}  // namespace mini_llama_test
