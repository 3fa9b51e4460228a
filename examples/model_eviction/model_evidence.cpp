// SPDX-License-Identifier: Apache-2.0
#include "model_evidence.hpp"

#include <kvevict/kvevict.hpp>

namespace demo {

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

WholeProjection::WholeProjection(const mini_llama::Model& model)
    : heads_(static_cast<std::int64_t>(model.layers().size()) * model.parameters().query_heads),
      dim_(model.parameters().value_dim) {
  for (const mini_llama::LayerWeights& layer : model.layers()) {
    const mini_llama::Matrix& w = layer.attention_output;
    hidden_ = w.rows();
    for (std::int64_t head = 0; head < model.parameters().query_heads; ++head) {
      for (std::int64_t row = 0; row < hidden_; ++row) {
        const float* from = w.data() + row * w.cols() + head * dim_;
        numbers_.insert(numbers_.end(), from, from + dim_);
      }
    }
  }
}

kvevict::OutputProjection<> WholeProjection::view() const {
  return {kvevict::MatrixBatchView<const float>::packed(numbers_.data(), heads_, hidden_, dim_)};
}

}  // namespace demo
