// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "case.hpp"
#include "mini_llama/engine.hpp"
#include "model_eviction/query_capture.hpp"

namespace evaluate {

/// A context as the model has read it.
struct Prefill {
  mini_llama::RaggedCache cache;
  demo::QueryCapture queries;
};

/// Prefills on disk, a file for each context: keys, values and the queries before RoPE, fp32. A
/// file belongs to one model and to the tokens with one checksum.
class PrefillStore {
 public:
  /// `model` names the model; the folder is made when something is written.
  PrefillStore(std::string folder, std::string model);

  /// Reads what was stored for the context, or lets the model read it and stores that; then lets it
  /// read `question`, which is not stored. A file that is damaged, or of something else, is
  /// replaced. `say` is told how far it is.
  Prefill get(mini_llama::Engine& engine, const Case& context,
              std::span<const mini_llama::TokenId> question,
              const std::function<void(const std::string&)>& say) const;

  std::string path_of(const Case& context) const;

 private:
  std::string folder_;
  std::string model_;
};

}  // namespace evaluate
