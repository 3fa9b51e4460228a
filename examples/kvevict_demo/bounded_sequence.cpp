// SPDX-License-Identifier: Apache-2.0
#include "bounded_sequence.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <kvevict/kvevict.hpp>

#include "cache_view.hpp"

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

}  // namespace

kvevict::Rope rope_of(const mini_llama::Model& model) {
  const auto& frequencies = model.rope_frequencies();
  return {.pairing = kvevict::RopePairing::adjacent,
          .rotary_dim = 2 * static_cast<std::int64_t>(frequencies.size()),
          .frequencies = frequencies};
}

kvevict::ProjectionFactors projection_of(kvevict::CpuResources& res,
                                         const mini_llama::Model& model) {
  kvevict::ProjectionFactors factors(model.parameters().query_heads, model.parameters().value_dim);
  for (const mini_llama::LayerWeights& layer : model.layers()) {
    const mini_llama::Matrix& w = layer.attention_output;
    factors.add_layer(res, kvevict::MatrixView<const float>::packed(w.data(), w.rows(), w.cols()));
  }
  return factors;
}

BoundedSequence::BoundedSequence(mini_llama::Engine& engine, mini_llama::RowType rows,
                                 const kvevict::AnyPolicy& policy, const SequenceLimit& limit)
    : engine_(&engine),
      cache_(engine.make_cache(rows)),
      evictor_(policy, shape_of(engine.model().parameters()), limit.schedule,
               evidence_options(engine.model())),
      budget_(limit.budget),
      queries_(engine.model().parameters(), 0) {}

mini_llama::Matrix BoundedSequence::forward(kvevict::CpuResources& res,
                                            std::span<const mini_llama::TokenId> tokens,
                                            std::span<const Index> logit_rows,
                                            const kvevict::Evidence<>& given) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const bool evicted = with_view(cache_, [&](const auto& view) {
    if (budget_ == BudgetKind::uniform) {
      return evictor_.make_room(res, kept_, view, count, given);
    }
    // Scores that were not made for it are compared all the same.
    return evictor_.make_room(res, kept_, view, count, given,
                              kvevict::GlobalBudget{.allow_incomparable = true});
  });
  if (evicted) keep_rows(cache_, kept_);
  queries_.clear(count);
  mini_llama::Matrix logits = engine_->forward(cache_, tokens, logit_rows, queries_.observer());
  with_view(cache_, [&](const auto& view) {
    evictor_.observe(
        res, view, count,
        {.pre_rope = queries_.pre_rope_view(), .post_rope = queries_.post_rope_view()});
  });
  return logits;
}

std::vector<std::byte> BoundedSequence::save(kvevict::CpuResources& res) const {
  kvevict::StateWriter to(blob_kind);
  const mini_llama::CacheShape& shape = cache_.shape();
  for (const Index extent : {shape.layers, shape.kv_heads, shape.key_dim, shape.value_dim,
                             mini_llama::element_bytes(shape.row_type)}) {
    to.integer(extent);
  }
  std::vector<float> scratch;
  for (Index layer = 0; layer < shape.layers; ++layer) {
    for (Index head = 0; head < shape.kv_heads; ++head) {
      const Index rows = cache_.rows(layer, head);
      to.array(cache_.positions(layer, head).data(), rows);
      // Rows of 16 bits widen to fp32 and come back as they were.
      write_matrix(to, cache_.float_keys(layer, head, 0, rows, scratch));
      write_matrix(to, cache_.float_values(layer, head, 0, rows, scratch));
    }
  }
  const std::vector<std::byte> evictor = evictor_.save(res);
  to.text({reinterpret_cast<const char*>(evictor.data()), evictor.size()});
  return to.finish();
}

void BoundedSequence::restore(kvevict::CpuResources& res, std::span<const std::byte> blob) {
  kvevict::StateReader from(blob, blob_kind);
  const mini_llama::CacheShape& shape = cache_.shape();
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
