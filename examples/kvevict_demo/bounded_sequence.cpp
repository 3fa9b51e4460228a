// SPDX-License-Identifier: Apache-2.0
#include "bounded_sequence.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include <kvevict/kvevict.hpp>

#include "model_eviction/cache_state.hpp"
#include "model_eviction/cache_view.hpp"
#include "model_eviction/key_evidence.hpp"
#include "model_eviction/milliseconds.hpp"
#include "model_eviction/model_evidence.hpp"

namespace demo {

using mini_llama::Index;

namespace {

constexpr std::string_view blob_kind = "BoundedSequence";

kvevict::DecodeShape shape_of(const mini_llama::Hyperparameters& p) {
  return {p.layers * p.kv_heads, p.layers * p.query_heads, p.key_dim};
}

kvevict::DecodeEvidenceOptions evidence_options(const mini_llama::Model& model) {
  kvevict::DecodeEvidenceOptions options;
  options.rope = rope_of(model);
  return options;
}

}  // namespace

BoundedSequence::BoundedSequence(mini_llama::Engine& engine, mini_llama::RowType rows,
                                 const kvevict::AnyPolicy& policy, const SequenceLimit& limit)
    : engine_(&engine),
      cache_(engine.make_cache(rows)),
      evictor_(policy, shape_of(engine.model().parameters()), limit.schedule,
               evidence_options(engine.model())),
      budget_(limit.budget),
      queries_(engine.model().parameters(), 0) {}

void BoundedSequence::make_room(kvevict::CpuResources& res, std::int64_t tokens,
                                kvevict::Evidence<> given) {
  const auto start = Clock::now();
  const bool evicted = with_view(cache_, [&](const auto& view) {
    std::optional<UnrotatedKeys> before_rope;
    if (evictor_.policy().needs().contains(kvevict::EvidenceKind::keys_before_rope) &&
        evictor_.due(tokens)) {
      before_rope.emplace(view, rope_of(engine_->model()));
      given.keys_before_rope = before_rope->view();
    }
    if (budget_ == BudgetKind::uniform) {
      return evictor_.make_room(res, kept_, view, tokens, given);
    }
    // Scores that were not made for it are compared all the same.
    return evictor_.make_room(res, kept_, view, tokens, given,
                              kvevict::GlobalBudget{.allow_incomparable = true});
  });
  if (evicted) keep_rows(cache_, kept_);
  queries_.clear(tokens);
  evictor_milliseconds_ = milliseconds_since(start);
}

void BoundedSequence::observe(kvevict::CpuResources& res, std::int64_t tokens) {
  const auto start = Clock::now();
  with_view(cache_, [&](const auto& view) {
    evictor_.observe(
        res, view, tokens,
        {.pre_rope = queries_.pre_rope_view(), .post_rope = queries_.post_rope_view()});
  });
  evictor_milliseconds_ += milliseconds_since(start);
}

std::vector<mini_llama::Matrix> forward_together(kvevict::CpuResources& res,
                                                 mini_llama::Engine& engine,
                                                 std::span<const BoundedChunk> chunks,
                                                 const kvevict::Evidence<>& given) {
  std::vector<mini_llama::SequenceChunk> parts;
  for (const BoundedChunk& chunk : chunks) {
    chunk.sequence.make_room(res, std::ssize(chunk.tokens), given);
    parts.push_back({chunk.sequence.cache_, chunk.tokens, chunk.logit_rows,
                     chunk.sequence.queries_.observer()});
  }
  std::vector<mini_llama::Matrix> logits = engine.forward(parts);
  for (const BoundedChunk& chunk : chunks) {
    chunk.sequence.observe(res, std::ssize(chunk.tokens));
  }
  return logits;
}

mini_llama::Matrix BoundedSequence::forward(kvevict::CpuResources& res,
                                            std::span<const mini_llama::TokenId> tokens,
                                            std::span<const Index> logit_rows,
                                            const kvevict::Evidence<>& given) {
  const BoundedChunk chunk{*this, tokens, logit_rows};
  return std::move(forward_together(res, *engine_, {&chunk, 1}, given).front());
}

std::vector<std::byte> BoundedSequence::save(kvevict::CpuResources& res) const {
  kvevict::StateWriter to(blob_kind);
  write_cache(to, cache_);
  const std::vector<std::byte> evictor = evictor_.save(res);
  to.text({reinterpret_cast<const char*>(evictor.data()), evictor.size()});
  return to.finish();
}

void BoundedSequence::restore(kvevict::CpuResources& res, std::span<const std::byte> blob) {
  kvevict::StateReader from(blob, blob_kind);
  const mini_llama::CacheShape& shape = cache_.shape();
  mini_llama::RaggedCache cache = read_cache(from, shape);
  const std::string evictor = from.text();
  from.finish();
  kvevict::DecodeEvictor<kvevict::AnyPolicy> restored = evictor_;
  restored.restore(res, std::as_bytes(std::span(evictor)));
  for (Index head = 0; head < shape.layers * shape.kv_heads; ++head) {
    const Index rows = cache.rows(head / shape.kv_heads, head % shape.kv_heads);
    kvevict::require_for_head(rows == restored.rows(head), "rows", head, rows, "equal to",
                              restored.rows(head));
  }
  cache.advance(static_cast<std::int32_t>(restored.next_position()));
  cache_ = std::move(cache);
  evictor_ = std::move(restored);
}

}  // namespace demo
