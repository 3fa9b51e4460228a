// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "mini_llama_gguf_writer.hpp"

namespace mini_llama_test {

// A random model of the llama architecture, small and with every extent different from the others.
struct TinyModel {
  std::uint32_t layers = 2;
  std::uint32_t embedding = 32;
  std::uint32_t query_heads = 6;
  std::uint32_t kv_heads = 2;
  std::uint32_t key_dim = 10;
  std::uint32_t value_dim = 7;
  std::uint32_t feed_forward = 44;
  std::uint32_t vocabulary = 200;  // more than one tile of outputs and of decoded rows
  std::uint32_t context = 400;
  std::uint32_t rotated = 8;
  bool tied = true;
  bool with_rope_factors = true;
  bool quantised = false;  // query, gate and embedding in blocks of 8 bits

  // Metadata and tensors; what tests add to the result may break it.
  GgufWriter write() const {
    GgufWriter file;
    write_metadata(file);
    write_tensors(file);
    return file;
  }

  void write_metadata(GgufWriter& file) const {
    file.add("general.architecture", "llama");
    file.add("llama.block_count", layers);
    file.add("llama.embedding_length", embedding);
    file.add("llama.attention.head_count", query_heads);
    file.add("llama.attention.head_count_kv", kv_heads);
    file.add("llama.attention.key_length", key_dim);
    file.add("llama.attention.value_length", value_dim);
    file.add("llama.feed_forward_length", feed_forward);
    file.add("llama.context_length", context);
    file.add("llama.vocab_size", vocabulary);
    file.add("llama.rope.dimension_count", rotated);
    file.add("llama.rope.freq_base", 50.0f);
    file.add("llama.attention.layer_norm_rms_epsilon", 1e-3f);
  }

  void write_tensors(GgufWriter& file) const {
    std::mt19937 random(42);
    const auto matrix = [&](const std::string& name, std::uint32_t in, std::uint32_t out,
                            bool in_blocks = false) {
      if (in_blocks && quantised) {
        add_q8_0(file, name, in, out, random);
        return;
      }
      std::vector<float> weights(std::size_t{in} * out);
      for (float& w : weights) w = uniform(random) * 0.4f;
      file.add_tensor(name, {in, out}, weights);
    };
    const auto norm = [&](const std::string& name) {
      std::vector<float> weights(embedding);
      for (float& w : weights) w = 1.0f + 0.3f * uniform(random);
      file.add_tensor(name, {embedding}, weights);
    };
    // Well apart from the layers in scale, so that attention and logits are far from uniform.
    matrix("token_embd.weight", embedding, vocabulary, true);
    for (std::uint32_t i = 0; i < layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      norm(prefix + "attn_norm.weight");
      matrix(prefix + "attn_q.weight", embedding, query_heads * key_dim, true);
      matrix(prefix + "attn_k.weight", embedding, kv_heads * key_dim);
      matrix(prefix + "attn_v.weight", embedding, kv_heads * value_dim);
      matrix(prefix + "attn_output.weight", query_heads * value_dim, embedding);
      norm(prefix + "ffn_norm.weight");
      matrix(prefix + "ffn_gate.weight", embedding, feed_forward, true);
      matrix(prefix + "ffn_up.weight", embedding, feed_forward);
      matrix(prefix + "ffn_down.weight", feed_forward, embedding);
    }
    norm("output_norm.weight");
    if (!tied) matrix("output.weight", embedding, vocabulary);
    if (with_rope_factors) {
      std::vector<float> factors(rotated / 2);
      for (float& f : factors) f = 1.5f + uniform(random);
      file.add_tensor("rope_freqs.weight", {rotated / 2}, factors);
    }
  }

  static float uniform(std::mt19937& random) {  // in [-1, 1)
    return static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
  }

 private:
  static void add_q8_0(GgufWriter& file, const std::string& name, std::uint32_t in,
                       std::uint32_t out, std::mt19937& random) {
    Bytes blocks;
    for (std::uint32_t i = 0; i < in / 32 * out; ++i) {
      put(blocks, std::uint16_t{0x1a00});  // 3 / 1024
      for (int j = 0; j < 32; ++j) put(blocks, static_cast<std::int8_t>(random() % 256));
    }
    file.add_tensor(name, {in, out}, 8, blocks);
  }
};

}  // namespace mini_llama_test
