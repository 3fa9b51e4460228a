// SPDX-License-Identifier: Apache-2.0
#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "error.hpp"

namespace mini_llama {
namespace {

constexpr Index tile_tokens = 32;

// Cache rows are multiplied, and float16 rows converted, this many at a time, so that a converted
// block stays in the nearest cache.
constexpr Index block_rows = 256;

// Replaces the scores of one query by softmax weights over its first `visible` rows, 0 after them.
void softmax_row(float* scores, Index visible, Index rows) {
  Eigen::Map<Eigen::ArrayXf> seen(scores, visible);
  if (visible > 0) {
    seen = (seen - seen.maxCoeff()).exp();
    seen /= seen.sum();
  }
  std::fill(scores + visible, scores + rows, 0.0f);
}

// The queries of one KV head's group for one tile of tokens.
class Tile {
 public:
  Tile(const RaggedCache& cache, Index layer, Index query_heads, Index kv_head, Index first_token,
       const Queries& queries, AttentionScratch& scratch)
      : cache_(cache),
        layer_(layer),
        kv_head_(kv_head),
        group_(query_heads / cache.shape().kv_heads),
        first_token_(first_token),
        tokens_(std::min(tile_tokens, queries.rows.rows() - first_token)),
        queries_(queries),
        positions_(cache.positions(layer, kv_head)),
        rows_(visible_rows(first_token + tokens_ - 1)),
        scratch_(scratch) {}

  void run(MatrixView& out) {
    gather_queries();
    compute_weights();
    compute_output();
    scatter_output(out);
  }

 private:
  // Positions ascend, so what a query may see is always a front part of the rows.
  Index visible_rows(Index token) const {
    const std::int32_t position = queries_.positions[to_size(token)];
    return std::upper_bound(positions_.begin(), positions_.end(), position) - positions_.begin();
  }

  // Rows of the tile: [token][query head of the group].
  void gather_queries() {
    const Index dim = cache_.shape().key_dim;
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    scratch_.queries.resize(tokens_ * group_, dim);
    for (Index t = 0; t < tokens_; ++t) {
      for (Index g = 0; g < group_; ++g) {
        const Index column = (kv_head_ * group_ + g) * dim;
        scratch_.queries.row(t * group_ + g) =
            scale * queries_.rows.row(first_token_ + t).segment(column, dim);
      }
    }
  }

  void compute_weights() {
    Matrix& weights = scratch_.weights;
    weights.resize(tokens_ * group_, rows_);
    for (Index begin = 0; begin < rows_; begin += block_rows) {
      const Index count = std::min(block_rows, rows_ - begin);
      const auto keys = cache_.float_keys(layer_, kv_head_, begin, count, scratch_.rows);
      multiply_transposed(scratch_.queries, keys, weights.middleCols(begin, count));
    }
    for (Index t = 0; t < tokens_; ++t) {
      const Index visible = visible_rows(first_token_ + t);
      for (Index g = 0; g < group_; ++g) {
        softmax_row(weights.row(t * group_ + g).data(), visible, rows_);
      }
    }
  }

  void compute_output() {
    scratch_.output.setZero(tokens_ * group_, cache_.shape().value_dim);
    for (Index begin = 0; begin < rows_; begin += block_rows) {
      const Index count = std::min(block_rows, rows_ - begin);
      const auto values = cache_.float_values(layer_, kv_head_, begin, count, scratch_.rows);
      add_product(scratch_.weights.middleCols(begin, count), values, scratch_.output);
    }
  }

  void scatter_output(MatrixView& out) const {
    const Index dim = cache_.shape().value_dim;
    for (Index t = 0; t < tokens_; ++t) {
      for (Index g = 0; g < group_; ++g) {
        const Index column = (kv_head_ * group_ + g) * dim;
        out.row(first_token_ + t).segment(column, dim) = scratch_.output.row(t * group_ + g);
      }
    }
  }

  const RaggedCache& cache_;
  Index layer_;
  Index kv_head_;
  Index group_;
  Index first_token_;
  Index tokens_;
  const Queries& queries_;
  std::span<const std::int32_t> positions_;
  Index rows_;
  AttentionScratch& scratch_;
};

void check_arguments(const CacheShape& shape, Index query_heads, const Queries& queries) {
  if (query_heads < 1 || query_heads % shape.kv_heads != 0) {
    throw ArgumentError(concat("attend: query_heads is ", query_heads,
                               ", must be a positive multiple of ", shape.kv_heads, " KV heads"));
  }
  if (queries.rows.cols() != query_heads * shape.key_dim ||
      queries.rows.rows() != std::ssize(queries.positions)) {
    throw ArgumentError(concat("attend: queries are [", queries.rows.rows(), ", ",
                               queries.rows.cols(), "], expected [", queries.positions.size(), ", ",
                               query_heads * shape.key_dim, "]"));
  }
  if (!std::is_sorted(queries.positions.begin(), queries.positions.end())) {
    throw ArgumentError("attend: the positions of the queries do not ascend");
  }
}

}  // namespace

void attend(ThreadPool& pool, std::span<AttentionScratch> scratch, Index layer, Index query_heads,
            std::span<SequenceAttention> sequences) {
  if (std::ssize(scratch) < pool.threads()) {
    throw ArgumentError(
        concat("attend: ", scratch.size(), " scratch buffers for ", pool.threads(), " threads"));
  }
  struct Task {
    SequenceAttention* sequence;
    Index kv_head;
    Index first_token;
  };
  std::vector<Task> tasks;
  for (SequenceAttention& sequence : sequences) {
    const CacheShape& shape = sequence.cache.shape();
    check_arguments(shape, query_heads, sequence.queries);
    const Index tokens = sequence.queries.rows.rows();
    if (sequence.out.rows() != tokens || sequence.out.cols() != query_heads * shape.value_dim) {
      throw ArgumentError(concat("attend: out is [", sequence.out.rows(), ", ", sequence.out.cols(),
                                 "], expected [", tokens, ", ", query_heads * shape.value_dim,
                                 "]"));
    }
    for (Index token = 0; token < tokens; token += tile_tokens) {
      for (Index head = 0; head < shape.kv_heads; ++head) tasks.push_back({&sequence, head, token});
    }
  }
  pool.parallel_for(std::ssize(tasks), [&](std::int64_t number, int thread) {
    const Task& task = tasks[to_size(number)];
    Tile(task.sequence->cache, layer, query_heads, task.kv_head, task.first_token,
         task.sequence->queries, scratch[to_size(thread)])
        .run(task.sequence->out);
  });
}

void attend(ThreadPool& pool, std::span<AttentionScratch> scratch, const RaggedCache& cache,
            Index layer, Index query_heads, const Queries& queries, Matrix& out) {
  check_arguments(cache.shape(), query_heads, queries);
  out.resize(queries.rows.rows(), query_heads * cache.shape().value_dim);
  SequenceAttention one{
      cache, queries,
      MatrixView(out.data(), out.rows(), out.cols(), Eigen::OuterStride<>(out.cols()))};
  attend(pool, scratch, layer, query_heads, {&one, 1});
}

}  // namespace mini_llama
