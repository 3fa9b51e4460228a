// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <kvevict/core/queries.hpp>

#include "mini_llama/engine.hpp"

namespace demo {

/// Keeps the queries that an engine's observer reports, of all layers, for up to a number of
/// tokens.
class QueryCapture {
 public:
  QueryCapture(const mini_llama::Hyperparameters& shape, std::int64_t tokens);

  /// Forgets what it holds and makes room for so many tokens. Views from before are stale.
  void clear(std::int64_t tokens);

  /// To be given to the engine; refers to this object.
  mini_llama::QueryObserver observer();

  /// One layer's queries [token][query_head * dim], of the tokens that there is room for.
  const mini_llama::Matrix& pre_rope(std::int64_t layer) const {
    return pre_rope_[static_cast<std::size_t>(layer)];
  }
  const mini_llama::Matrix& post_rope(std::int64_t layer) const {
    return post_rope_[static_cast<std::size_t>(layer)];
  }

  /// The tokens seen so far, all layers' query heads in one axis: [layer * query_head][token][dim].
  kvevict::QueriesView<> pre_rope_view() const { return view(pre_rope_heads_); }
  kvevict::QueriesView<> post_rope_view() const { return view(post_rope_heads_); }

 private:
  kvevict::QueriesView<> view(const std::vector<const float*>& heads) const;

  std::int64_t dim_;
  std::int64_t query_heads_;
  std::int64_t width_;
  std::int64_t seen_ = 0;
  std::vector<mini_llama::Matrix> pre_rope_;   // [layer]
  std::vector<mini_llama::Matrix> post_rope_;  // [layer]
  std::vector<const float*> pre_rope_heads_;   // [layer * query_head]
  std::vector<const float*> post_rope_heads_;
};

}  // namespace demo
