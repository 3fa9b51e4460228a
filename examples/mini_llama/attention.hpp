// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "matrix.hpp"
#include "ragged_cache.hpp"
#include "thread_pool.hpp"

namespace mini_llama {

// Post-RoPE queries of one layer: [token][query head][key_dim], contiguous, with the position of
// each token, ascending.
struct Queries {
  ConstMatrixRef rows;  // [tokens, query heads * key_dim]
  std::span<const std::int32_t> positions;
};

// Buffers of one thread, kept between calls.
struct AttentionScratch {
  Matrix queries;
  Matrix weights;
  Matrix output;
  std::vector<float> rows;
};

// Causal attention of queries over the rows of one layer of a ragged cache:
//   out[t, h] = sum_i a_i v_i,   a = softmax_i(q_th . k_i / sqrt(key_dim)) over rows i with
//   position <= the position of token t,
// where query head h reads KV head h / (query heads / KV heads). Rows that were removed are simply
// not there. A query that sees no row gives 0. out is [tokens, query heads * value_dim]. fp32
// throughout; parallel over KV heads and tiles of queries, the result does not depend on the number
// of threads. `scratch` needs one entry per thread of the pool. Throws ArgumentError if shapes
// disagree or the positions do not ascend. Cost: 2 (key_dim + value_dim) flops per visible row and
// query; memory 32 * (query heads / KV heads) * rows floats per thread.
void attend(ThreadPool& pool, std::span<AttentionScratch> scratch, const RaggedCache& cache,
            Index layer, Index query_heads, const Queries& queries, Matrix& out);

// One sequence of several: what its queries read from its cache.
struct SequenceAttention {
  const RaggedCache& cache;
  Queries queries;
  MatrixView out;  // [tokens, query heads * value_dim]
};

// attend() for several sequences at once, parallel over all of them; each gets what it would get
// alone. Throws ArgumentError also if an output has another shape.
void attend(ThreadPool& pool, std::span<AttentionScratch> scratch, Index layer, Index query_heads,
            std::span<SequenceAttention> sequences);

}  // namespace mini_llama
