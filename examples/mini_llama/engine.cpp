// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "error.hpp"
#include "rope.hpp"

namespace mini_llama {
namespace {

// y = x / sqrt(mean(x^2) + epsilon) * w, row by row.
void rms_norm(const Matrix& x, const Vector& weights, float epsilon, Matrix& out) {
  out.resize(x.rows(), x.cols());
  for (Index i = 0; i < x.rows(); ++i) {
    const float mean_square = x.row(i).squaredNorm() / static_cast<float>(x.cols());
    const float scale = 1.0f / std::sqrt(mean_square + epsilon);
    out.row(i) = scale * x.row(i).cwiseProduct(weights.transpose());
  }
}

// gate = silu(gate) * up with silu(x) = x / (1 + exp(-x)).
void swiglu(ThreadPool& pool, Matrix& gate, const Matrix& up) {
  pool.parallel_for(gate.rows(), [&](std::int64_t row, int) {
    auto x = gate.row(row).array();
    x = x / (1.0f + (-x).exp()) * up.row(row).array();
  });
}

}  // namespace

// What the chunks need on their way through the layers; rows are tokens, chunk by chunk.
struct Engine::Activations {
  std::vector<std::int32_t> positions;
  RotationTable rotation;
  Matrix hidden;
  Matrix normed;
  Matrix query;
  Matrix pre_rope_query;
  Matrix key;
  Matrix value;
  Matrix attention;
  Matrix gate;
  Matrix up;
  Matrix update;
};

Engine::Engine(const Model& model, int threads)
    : model_(model), pool_(threads), scratch_(to_size(threads)) {}

RaggedCache Engine::make_cache(RowType type) const {
  const Hyperparameters& p = model_.parameters();
  return RaggedCache({p.layers, p.kv_heads, p.key_dim, p.value_dim, type});
}

Matrix Engine::forward(RaggedCache& cache, std::span<const TokenId> tokens,
                       std::span<const Index> logit_rows, const QueryObserver& observer) {
  const SequenceChunk chunk{cache, tokens, logit_rows, observer};
  return std::move(forward({&chunk, 1}).front());
}

std::vector<Matrix> Engine::forward(std::span<const SequenceChunk> chunks) {
  if (chunks.empty()) throw ArgumentError("forward: no sequence is given");
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> first;
  for (const SequenceChunk& chunk : chunks) {
    check_arguments(chunk.cache, chunk.tokens, chunk.logit_rows);
    const auto twice = std::find_if(chunks.begin(), chunks.end(), [&](const SequenceChunk& other) {
      return &other.cache == &chunk.cache;
    });
    if (&*twice != &chunk) {
      throw ArgumentError(concat("forward: sequences ", twice - chunks.begin(), " and ",
                                 &chunk - chunks.data(), " are the same cache"));
    }
    first.push_back(chunk.cache.next_position());
    for (Index i = 0; i < std::ssize(chunk.tokens); ++i) {
      positions.push_back(first.back() + static_cast<std::int32_t>(i));
    }
  }
  RotationTable rotation(model_.rope_frequencies(), positions);
  Activations a{std::move(positions), std::move(rotation), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  a.hidden.resize(std::ssize(a.positions), model_.parameters().embedding);
  Index row = 0;
  for (const SequenceChunk& chunk : chunks) {
    for (const TokenId token : chunk.tokens) a.hidden.row(row++) = model_.embedding().row(token);
  }
  try {
    run_layers(chunks, a);
    std::vector<Matrix> logits = compute_logits(chunks, a.hidden);
    for (const SequenceChunk& chunk : chunks) {
      chunk.cache.advance(static_cast<std::int32_t>(chunk.tokens.size()));
    }
    return logits;
  } catch (...) {
    for (std::size_t i = 0; i < chunks.size(); ++i) chunks[i].cache.rewind(first[i]);
    throw;
  }
}

void Engine::check_arguments(const RaggedCache& cache, std::span<const TokenId> tokens,
                             std::span<const Index> logit_rows) const {
  const Hyperparameters& p = model_.parameters();
  if (cache.shape() != make_cache(cache.shape().row_type).shape()) {
    throw ArgumentError("forward: the cache was made for a model of another shape");
  }
  cache.check();
  const Index room = p.context - cache.next_position();
  if (tokens.empty() || std::ssize(tokens) > room) {
    throw ArgumentError(concat("forward: ", tokens.size(), " tokens, allowed are 1 to ", room,
                               " at position ", cache.next_position(), " of a context of ",
                               p.context));
  }
  for (const TokenId token : tokens) {
    if (token < 0 || token >= p.vocabulary) {
      throw ArgumentError(concat("forward: token id is ", token, ", the model has ", p.vocabulary));
    }
  }
  for (const Index row : logit_rows) {
    if (row < 0 || row >= std::ssize(tokens)) {
      throw ArgumentError(
          concat("forward: logit row is ", row, ", the chunk has ", tokens.size(), " tokens"));
    }
  }
}

void Engine::run_layers(std::span<const SequenceChunk> chunks, Activations& a) {
  const float epsilon = model_.parameters().rms_epsilon;
  for (Index layer = 0; layer < model_.parameters().layers; ++layer) {
    const LayerWeights& w = model_.layers()[to_size(layer)];
    rms_norm(a.hidden, w.attention_norm, epsilon, a.normed);
    apply_linear(pool_, a.normed, {{w.query, a.query}, {w.key, a.key}, {w.value, a.value}});
    attend_layer(chunks, layer, a);
    apply_linear(pool_, a.attention, {{w.attention_output, a.update}});
    a.hidden += a.update;

    rms_norm(a.hidden, w.feed_forward_norm, epsilon, a.normed);
    apply_linear(pool_, a.normed, {{w.gate, a.gate}, {w.up, a.up}});
    swiglu(pool_, a.gate, a.up);
    apply_linear(pool_, a.gate, {{w.down, a.update}});
    a.hidden += a.update;
  }
}

// Every chunk's rows go into its cache, then its queries read from it.
void Engine::attend_layer(std::span<const SequenceChunk> chunks, Index layer, Activations& a) {
  const Hyperparameters& p = model_.parameters();
  const bool observed = std::any_of(chunks.begin(), chunks.end(), [](const SequenceChunk& chunk) {
    return static_cast<bool>(chunk.observer);
  });
  if (observed) a.pre_rope_query = a.query;
  a.attention.resize(a.query.rows(), p.query_heads * p.value_dim);
  std::vector<SequenceAttention> sequences;
  Index first = 0;
  for (const SequenceChunk& chunk : chunks) {
    const Index tokens = std::ssize(chunk.tokens);
    append_rows(chunk.cache, layer, first, tokens, a);
    const auto positions = std::span(a.positions).subspan(to_size(first), to_size(tokens));
    if (chunk.observer) {
      chunk.observer({layer, positions, a.pre_rope_query.middleRows(first, tokens),
                      a.query.middleRows(first, tokens)});
    }
    sequences.push_back({chunk.cache,
                         {a.query.middleRows(first, tokens), positions},
                         MatrixView(a.attention.row(first).data(), tokens, a.attention.cols(),
                                    Eigen::OuterStride<>(a.attention.cols()))});
    first += tokens;
  }
  attend(pool_, scratch_, layer, p.query_heads, sequences);
}

// Rotates queries and keys of one chunk and puts keys and values into its cache.
void Engine::append_rows(RaggedCache& cache, Index layer, Index first, Index tokens,
                         Activations& a) {
  const Hyperparameters& p = model_.parameters();
  for (Index t = first; t < first + tokens; ++t) {
    for (Index h = 0; h < p.query_heads; ++h) {
      a.rotation.rotate(a.query.row(t).data() + h * p.key_dim, t);
    }
    for (Index h = 0; h < p.kv_heads; ++h) {
      a.rotation.rotate(a.key.row(t).data() + h * p.key_dim, t);
    }
  }
  const auto positions = std::span(a.positions).subspan(to_size(first), to_size(tokens));
  for (Index h = 0; h < p.kv_heads; ++h) {
    cache.append(layer, h, positions, a.key.block(first, h * p.key_dim, tokens, p.key_dim),
                 a.value.block(first, h * p.value_dim, tokens, p.value_dim));
  }
}

std::vector<Matrix> Engine::compute_logits(std::span<const SequenceChunk> chunks,
                                           const Matrix& hidden) {
  const Hyperparameters& p = model_.parameters();
  std::vector<Index> rows;
  Index first = 0;
  for (const SequenceChunk& chunk : chunks) {
    for (const Index row : chunk.logit_rows) rows.push_back(first + row);
    first += std::ssize(chunk.tokens);
  }
  Matrix chosen(std::ssize(rows), p.embedding);
  for (Index i = 0; i < chosen.rows(); ++i) chosen.row(i) = hidden.row(rows[to_size(i)]);
  Matrix normed;
  rms_norm(chosen, model_.output_norm(), p.rms_epsilon, normed);
  Matrix logits;
  apply_linear(pool_, normed, {{model_.output(), logits}});
  std::vector<Matrix> parts;
  first = 0;
  for (const SequenceChunk& chunk : chunks) {
    const Index count = std::ssize(chunk.logit_rows);
    parts.emplace_back(logits.middleRows(first, count));
    first += count;
  }
  return parts;
}

Vector Engine::prefill(RaggedCache& cache, std::span<const TokenId> tokens, Index chunk,
                       const Progress& progress, const QueryObserver& observer) {
  if (chunk < 1) throw ArgumentError(concat("prefill: chunk is ", chunk, ", must be positive"));
  const Index total = std::ssize(tokens);
  check_arguments(cache, tokens, {});
  Matrix logits;
  for (Index begin = 0; begin < total; begin += chunk) {
    const Index count = std::min(chunk, total - begin);
    const Index last_row = count - 1;
    const bool is_last = begin + count == total;
    logits = forward(cache, tokens.subspan(to_size(begin), to_size(count)),
                     {&last_row, is_last ? std::size_t{1} : std::size_t{0}}, observer);
    if (progress) progress(begin + count, total);
  }
  return logits.row(0);
}

Vector Engine::decode(RaggedCache& cache, TokenId token) {
  const Index row = 0;
  return forward(cache, {&token, 1}, {&row, 1}).row(0);
}

Matrix Engine::attention_output(const RaggedCache& cache, Index layer, const Queries& queries) {
  Matrix out;
  attend(pool_, scratch_, cache, layer, model_.parameters().query_heads, queries, out);
  return out;
}

TokenId argmax(const Vector& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<TokenId> generate(Engine& engine, RaggedCache& cache, const Vector& logits, Index count,
                              std::optional<TokenId> end,
                              const std::function<bool(TokenId)>& on_token) {
  std::vector<TokenId> tokens;
  TokenId next = argmax(logits);
  while (std::ssize(tokens) < count && next != end) {
    tokens.push_back(next);
    if (on_token && !on_token(next)) break;
    next = argmax(engine.decode(cache, next));
  }
  return tokens;
}

}  // namespace mini_llama
