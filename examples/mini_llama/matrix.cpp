// SPDX-License-Identifier: Apache-2.0
#include "matrix.hpp"

#include <algorithm>
#include <vector>

namespace mini_llama {
namespace {

// Up to this many rows a matrix-vector product for each is faster than a matrix product, which
// first packs the whole of b.
constexpr Index max_vector_rows = 4;

// Large enough to amortise packing, small enough to share the narrow layers of a small model among
// a few threads.
constexpr Index tile_tokens = 128;
constexpr Index tile_outputs = 192;

struct Tile {
  const LinearLayer* layer;
  Index token;
  Index output;
};

}  // namespace

void multiply_transposed(const ConstMatrixRef& a, const ConstMatrixRef& b, MatrixRef out) {
  if (a.rows() > max_vector_rows) {
    out.noalias() = a * b.transpose();
    return;
  }
  for (Index i = 0; i < a.rows(); ++i) out.row(i).transpose().noalias() = b * a.row(i).transpose();
}

void add_product(const ConstMatrixRef& a, const ConstMatrixRef& b, MatrixRef out) {
  if (a.rows() > max_vector_rows) {
    out.noalias() += a * b;
    return;
  }
  for (Index i = 0; i < a.rows(); ++i) out.row(i).noalias() += a.row(i) * b;
}

void apply_linear(ThreadPool& pool, const Matrix& x, std::initializer_list<LinearLayer> layers) {
  std::vector<Tile> tiles;
  for (const LinearLayer& layer : layers) {
    layer.out.resize(x.rows(), layer.weights.rows());
    for (Index output = 0; output < layer.weights.rows(); output += tile_outputs) {
      for (Index token = 0; token < x.rows(); token += tile_tokens) {
        tiles.push_back({&layer, token, output});
      }
    }
  }
  pool.parallel_for(std::ssize(tiles), [&](std::int64_t task, int) {
    const Tile& tile = tiles[to_size(task)];
    const Matrix& weights = tile.layer->weights;
    const Index tokens = std::min(tile_tokens, x.rows() - tile.token);
    const Index outputs = std::min(tile_outputs, weights.rows() - tile.output);
    multiply_transposed(x.middleRows(tile.token, tokens), weights.middleRows(tile.output, outputs),
                        tile.layer->out.block(tile.token, tile.output, tokens, outputs));
  });
}

}  // namespace mini_llama
