// SPDX-License-Identifier: Apache-2.0
#include "replay.hpp"

#include <algorithm>

#include <kvevict/kvevict.hpp>

#include "cache_view.hpp"
#include "query_capture.hpp"

namespace demo {
namespace {

constexpr const char* prompt = "\n\nRepeat the text above, word by word:\n\n";
constexpr std::int64_t chunk_tokens = 256;

/// Takes the rows of a replay out of the cache, however it ends.
class Rewind {
 public:
  explicit Rewind(mini_llama::RaggedCache& cache)
      : cache_(cache), position_(cache.next_position()) {}
  Rewind(const Rewind&) = delete;
  Rewind& operator=(const Rewind&) = delete;
  ~Rewind() { cache_.rewind(position_); }

 private:
  mini_llama::RaggedCache& cache_;
  std::int32_t position_;
};

}  // namespace

std::vector<mini_llama::TokenId> replay_of(const mini_llama::Tokenizer& tokenizer,
                                           std::span<const mini_llama::TokenId> context) {
  std::vector<mini_llama::TokenId> replay = tokenizer.encode(prompt);
  replay.insert(replay.end(), context.begin(), context.end());
  return replay;
}

kvevict::KVzip::State replayed_attention(kvevict::CpuResources& res, mini_llama::Engine& engine,
                                         mini_llama::RaggedCache& cache,
                                         std::span<const mini_llama::TokenId> replay) {
  const Rewind rewind(cache);
  kvevict::KVzip::State state = kvevict::KVzip::state();
  QueryCapture queries(engine.model().parameters(), chunk_tokens);
  for (auto left = replay; !left.empty();) {
    const std::size_t count = std::min(left.size(), std::size_t{chunk_tokens});
    const std::int32_t first = cache.next_position();
    queries.clear(static_cast<std::int64_t>(count));
    engine.forward(cache, left.first(count), {}, queries.observer());
    with_view(cache, [&](const auto& view) {
      state.observe(res, view,
                    {queries.post_rope_view(), kvevict::QueryPositions<>::consecutive(first)});
    });
    left = left.subspan(count);
  }
  return state;
}

}  // namespace demo
