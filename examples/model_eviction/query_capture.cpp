// SPDX-License-Identifier: Apache-2.0
#include "query_capture.hpp"

namespace demo {

QueryCapture::QueryCapture(const mini_llama::Hyperparameters& shape, std::int64_t tokens)
    : dim_(shape.key_dim),
      query_heads_(shape.query_heads),
      width_(shape.query_heads * shape.key_dim),
      pre_rope_(mini_llama::to_size(shape.layers)),
      post_rope_(mini_llama::to_size(shape.layers)) {
  clear(tokens);
}

void QueryCapture::clear(std::int64_t tokens) {
  seen_ = 0;
  if (!pre_rope_heads_.empty() && pre_rope_.front().rows() == tokens) return;
  pre_rope_heads_.clear();
  post_rope_heads_.clear();
  for (std::size_t layer = 0; layer < pre_rope_.size(); ++layer) {
    pre_rope_[layer].resize(tokens, width_);
    post_rope_[layer].resize(tokens, width_);
    for (std::int64_t head = 0; head < query_heads_; ++head) {
      const std::int64_t first = tokens == 0 ? 0 : head * dim_;  // no offset from a null pointer
      pre_rope_heads_.push_back(pre_rope_[layer].data() + first);
      post_rope_heads_.push_back(post_rope_[layer].data() + first);
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
