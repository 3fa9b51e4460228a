// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gguf.hpp"
#include "matrix.hpp"
#include "thread_pool.hpp"

namespace mini_llama {

struct Hyperparameters {
  Index layers;
  Index embedding;
  Index query_heads;
  Index kv_heads;
  Index key_dim;    // of one head
  Index value_dim;  // of one head
  Index feed_forward;
  Index vocabulary;
  Index context;  // positions the model was trained for
  float rms_epsilon;
};

// Weight matrices are [out, in].
struct LayerWeights {
  Vector attention_norm;
  Matrix query;
  Matrix key;
  Matrix value;
  Matrix attention_output;
  Vector feed_forward_norm;
  Matrix gate;
  Matrix up;
  Matrix down;
};

// A decoder of the "llama" architecture, all weights in fp32.
class Model {
 public:
  // Reads and decodes all weights, in parallel. Throws FileError for another architecture, missing
  // or unknown tensors, shapes that contradict the hyperparameters, and kinds of RoPE scaling that
  // are not supported. Cost: 4 bytes a weight.
  static Model load(const GgufFile& file, ThreadPool& pool);

  const Hyperparameters& parameters() const { return parameters_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const Matrix& embedding() const { return embedding_; }  // [vocabulary, embedding]
  const Vector& output_norm() const { return output_norm_; }

  // [vocabulary, embedding]; the embedding itself when the file has no output matrix.
  const Matrix& output() const { return output_.size() > 0 ? output_ : embedding_; }

  // Radians per position of every rotated pair of a head: base^(-2i / rotated dimension), divided
  // by the file's factor for that pair if there is one.
  const std::vector<double>& rope_frequencies() const { return rope_frequencies_; }

 private:
  Model() = default;

  Hyperparameters parameters_{};
  std::vector<LayerWeights> layers_;
  Matrix embedding_;
  Vector output_norm_;
  Matrix output_;
  std::vector<double> rope_frequencies_;
};

}  // namespace mini_llama
