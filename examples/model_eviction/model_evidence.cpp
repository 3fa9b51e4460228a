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

}  // namespace demo
