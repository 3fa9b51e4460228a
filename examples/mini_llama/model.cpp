// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <cmath>
#include <string>
#include <string_view>

#include "error.hpp"
#include "weight_loader.hpp"

namespace mini_llama {
namespace {

// Far above every model of this architecture. With all extents below it, products of two stay
// inside of 64 bits.
constexpr std::uint64_t max_extent = std::uint64_t{1} << 24;

Index extent(const GgufFile& file, std::string_view key) {
  const std::uint64_t value = file.unsigned_value(key);
  if (value < 1 || value > max_extent) {
    throw FileError(
        concat(file.name(), ": ", key, " is ", value, ", allowed are 1 to ", max_extent));
  }
  return static_cast<Index>(value);
}

Index extent_or(const GgufFile& file, std::string_view key, Index fallback) {
  return file.contains(key) ? extent(file, key) : fallback;
}

double positive_number(const GgufFile& file, std::string_view key) {
  const double value = file.number(key);
  if (!(value > 0.0) || !std::isfinite(value)) {
    throw FileError(concat(file.name(), ": ", key, " is ", value, ", must be positive and finite"));
  }
  return value;
}

Hyperparameters read_parameters(const GgufFile& file) {
  if (const auto found = file.text("general.architecture"); found != "llama") {
    throw FileError(
        concat(file.name(), ": architecture '", found, "' is not supported, only 'llama' is"));
  }
  Hyperparameters p{};
  p.layers = extent(file, "llama.block_count");
  p.embedding = extent(file, "llama.embedding_length");
  p.query_heads = extent(file, "llama.attention.head_count");
  p.kv_heads = extent_or(file, "llama.attention.head_count_kv", p.query_heads);
  if (p.query_heads % p.kv_heads != 0) {
    throw FileError(concat(file.name(), ": ", p.query_heads, " query heads cannot share ",
                           p.kv_heads, " key-value heads evenly"));
  }
  const auto needs_head_dim = [&](std::string_view key) {
    if (!file.contains(key) && p.embedding % p.query_heads != 0) {
      throw FileError(concat(file.name(), ": an embedding of ", p.embedding,
                             " cannot be split over ", p.query_heads, " heads, and ", key,
                             " is missing"));
    }
    return extent_or(file, key, p.embedding / p.query_heads);
  };
  p.key_dim = needs_head_dim("llama.attention.key_length");
  p.value_dim = needs_head_dim("llama.attention.value_length");
  p.feed_forward = extent(file, "llama.feed_forward_length");
  p.context = extent(file, "llama.context_length");
  p.vocabulary = static_cast<Index>(file.tensor("token_embd.weight").shape[1]);
  if (extent_or(file, "llama.vocab_size", p.vocabulary) != p.vocabulary) {
    throw FileError(concat(file.name(), ": llama.vocab_size is not ", p.vocabulary,
                           ", the rows of token_embd.weight"));
  }
  p.rms_epsilon =
      static_cast<float>(positive_number(file, "llama.attention.layer_norm_rms_epsilon"));
  return p;
}

std::vector<double> read_rope_frequencies(const GgufFile& file, WeightLoader& loader,
                                          Index key_dim) {
  constexpr std::string_view scaling = "llama.rope.scaling.type";
  if (file.contains(scaling) && file.text(scaling) != "none") {
    throw FileError(
        concat(file.name(), ": ", scaling, " '", file.text(scaling), "' is not supported"));
  }
  constexpr std::string_view old_scaling = "llama.rope.scale_linear";
  if (file.contains(old_scaling) && file.number(old_scaling) != 1.0) {
    throw FileError(concat(file.name(), ": ", old_scaling, " is ", file.number(old_scaling),
                           ", only 1 is supported"));
  }
  constexpr std::string_view dimension_key = "llama.rope.dimension_count";
  const Index rotated = extent_or(file, dimension_key, key_dim);
  if (rotated % 2 != 0 || rotated > key_dim) {
    throw FileError(concat(file.name(), ": ", dimension_key, " is ", rotated,
                           ", must be even and at most ", key_dim));
  }
  constexpr std::string_view base_key = "llama.rope.freq_base";
  const double base = file.contains(base_key) ? positive_number(file, base_key) : 10000.0;
  constexpr const char* factors_name = "rope_freqs.weight";
  Vector factors = Vector::Ones(rotated / 2);
  if (loader.contains(factors_name)) factors = loader.vector(factors_name, rotated / 2);
  std::vector<double> frequencies;
  for (Index i = 0; i < rotated / 2; ++i) {
    if (!(factors[i] > 0.0f)) {
      throw FileError(concat(file.name(), ": ", factors_name, " has the factor ", factors[i],
                             " for pair ", i, ", must be positive"));
    }
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotated);
    frequencies.push_back(std::pow(base, exponent) / factors[i]);
  }
  return frequencies;
}

LayerWeights load_layer(WeightLoader& loader, const Hyperparameters& p, Index layer) {
  const auto name = [layer](const char* part) {
    return concat("blk.", layer, ".", part, ".weight");
  };
  LayerWeights w;
  w.attention_norm = loader.vector(name("attn_norm"), p.embedding);
  w.query = loader.matrix(name("attn_q"), p.query_heads * p.key_dim, p.embedding);
  w.key = loader.matrix(name("attn_k"), p.kv_heads * p.key_dim, p.embedding);
  w.value = loader.matrix(name("attn_v"), p.kv_heads * p.value_dim, p.embedding);
  w.attention_output = loader.matrix(name("attn_output"), p.embedding, p.query_heads * p.value_dim);
  w.feed_forward_norm = loader.vector(name("ffn_norm"), p.embedding);
  w.gate = loader.matrix(name("ffn_gate"), p.feed_forward, p.embedding);
  w.up = loader.matrix(name("ffn_up"), p.feed_forward, p.embedding);
  w.down = loader.matrix(name("ffn_down"), p.embedding, p.feed_forward);
  return w;
}

}  // namespace

Model Model::load(const GgufFile& file, ThreadPool& pool) {
  Model model;
  model.parameters_ = read_parameters(file);
  const Hyperparameters& p = model.parameters_;
  WeightLoader loader(file, pool);
  model.rope_frequencies_ = read_rope_frequencies(file, loader, p.key_dim);
  model.embedding_ = loader.matrix("token_embd.weight", p.vocabulary, p.embedding);
  for (Index i = 0; i < p.layers; ++i) model.layers_.push_back(load_layer(loader, p, i));
  model.output_norm_ = loader.vector("output_norm.weight", p.embedding);
  if (loader.contains("output.weight")) {
    model.output_ = loader.matrix("output.weight", p.vocabulary, p.embedding);
  }
  loader.require_all_taken();
  return model;
}

}  // namespace mini_llama
