// SPDX-License-Identifier: Apache-2.0
#include "query_capture.hpp"

namespace demo {

QueryCapture::QueryCapture(const mini_llama::Hyperparameters& shape, std::int64_t tokens)
    : dim_(shape.key_dim), width_(shape.query_heads * shape.key_dim) {
  for (mini_llama::Index layer = 0; layer < shape.layers; ++layer) {
    pre_rope_.emplace_back(tokens, width_);
    post_rope_.emplace_back(tokens, width_);
  }
  for (mini_llama::Index layer = 0; layer < shape.layers; ++layer) {
    const auto i = static_cast<std::size_t>(layer);
    for (mini_llama::Index head = 0; head < shape.query_heads; ++head) {
      pre_rope_heads_.push_back(pre_rope_[i].data() + head * dim_);
      post_rope_heads_.push_back(post_rope_[i].data() + head * dim_);
    }
  }
}

mini_llama::QueryObserver QueryCapture::observer() {
  return [this](const mini_llama::LayerQueries& chunk) {
    const auto layer = static_cast<std::size_t>(chunk.layer);
    const mini_llama::Index count = chunk.pre_rope.rows();
    pre_rope_[layer].middleRows(seen_, count) = chunk.pre_rope;
    post_rope_[layer].middleRows(seen_, count) = chunk.post_rope;
    if (layer + 1 == pre_rope_.size()) seen_ += count;
  };
}

kvevict::QueriesView<> QueryCapture::view(const std::vector<const float*>& heads) const {
  return kvevict::QueriesView<>::per_head(heads.data(), static_cast<std::int64_t>(heads.size()),
                                          seen_, dim_, width_);
}

}  // namespace demo
