// SPDX-License-Identifier: Apache-2.0
#include "metrics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace demo {
namespace {

using mini_llama::Index;
using mini_llama::Matrix;
using mini_llama::TokenId;

std::vector<Index> all_rows(std::size_t count) {
  std::vector<Index> rows(count);
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

void to_log_probabilities(Matrix& logits) {
  for (Index i = 0; i < logits.rows(); ++i) {
    const float largest = logits.row(i).maxCoeff();
    const double sum = (logits.row(i).array() - largest).exp().cast<double>().sum();
    logits.row(i).array() -= largest + static_cast<float>(std::log(sum));
  }
}

TokenId top_of(const Matrix& logits, Index row) {
  Index best = 0;
  logits.row(row).maxCoeff(&best);
  return static_cast<TokenId>(best);
}

/// log p of each token after the first, where its predecessor stands.
std::vector<double> next_log_probabilities(const Matrix& log_probabilities,
                                           std::span<const TokenId> tokens) {
  std::vector<double> next;
  for (Index i = 0; i + 1 < std::ssize(tokens); ++i) {
    next.push_back(static_cast<double>(log_probabilities(i, tokens[mini_llama::to_size(i + 1)])));
  }
  return next;
}

std::vector<std::int32_t> continuation_positions(const Reference& reference) {
  const auto count = static_cast<std::size_t>(reference.log_probabilities.rows());
  std::vector<std::int32_t> positions(count);
  std::iota(positions.begin(), positions.end(),
            reference.cache.next_position() - static_cast<std::int32_t>(count));
  return positions;
}

/// Puts the continuation's rows of the full cache behind the rows of the evicted one.
mini_llama::RaggedCache with_continuation(const Reference& reference,
                                          const mini_llama::RaggedCache& evicted) {
  mini_llama::RaggedCache cache = evicted;
  const std::vector<std::int32_t> positions = continuation_positions(reference);
  const auto count = static_cast<Index>(positions.size());
  const mini_llama::CacheShape& shape = cache.shape();
  std::vector<float> key_scratch;
  std::vector<float> value_scratch;
  for (Index layer = 0; layer < shape.layers; ++layer) {
    for (Index head = 0; head < shape.kv_heads; ++head) {
      const Index first = reference.cache.rows(layer, head) - count;
      cache.append(layer, head, positions,
                   reference.cache.float_keys(layer, head, first, count, key_scratch),
                   reference.cache.float_values(layer, head, first, count, value_scratch));
    }
  }
  cache.advance(static_cast<std::int32_t>(count));
  return cache;
}

double attention_output_error(mini_llama::Engine& engine, const Reference& reference,
                              const mini_llama::RaggedCache& evicted) {
  const mini_llama::RaggedCache cache = with_continuation(reference, evicted);
  const std::vector<std::int32_t> positions = continuation_positions(reference);
  const Index dim = cache.shape().value_dim;
  double sum = 0.0;
  std::int64_t count = 0;
  for (Index layer = 0; layer < cache.shape().layers; ++layer) {
    const Matrix& full = reference.attention[mini_llama::to_size(layer)];
    const Matrix kept =
        engine.attention_output(cache, layer, {reference.queries.post_rope(layer), positions});
    for (Index token = 0; token < full.rows(); ++token) {
      for (Index column = 0; column < full.cols(); column += dim) {
        const auto whole = full.row(token).segment(column, dim);
        const float error = (whole - kept.row(token).segment(column, dim)).norm();
        const float length = whole.norm();
        if (length > 0.0f) sum += static_cast<double>(error / length);
        ++count;
      }
    }
  }
  return sum / static_cast<double>(count);
}

}  // namespace

Reference run_reference(mini_llama::Engine& engine, const mini_llama::RaggedCache& context,
                        std::span<const TokenId> continuation) {
  const mini_llama::Hyperparameters& shape = engine.model().parameters();
  Reference reference{{}, {}, QueryCapture(shape, std::ssize(continuation)), context, {}, {}, 0.0};
  const std::vector<Index> rows = all_rows(continuation.size());
  reference.log_probabilities =
      engine.forward(reference.cache, continuation, rows, reference.queries.observer());
  to_log_probabilities(reference.log_probabilities);
  for (Index i = 0; i < reference.log_probabilities.rows(); ++i) {
    reference.top.push_back(top_of(reference.log_probabilities, i));
  }
  reference.next = next_log_probabilities(reference.log_probabilities, continuation);
  if (!reference.next.empty()) {
    reference.loss = -std::accumulate(reference.next.begin(), reference.next.end(), 0.0) /
                     static_cast<double>(reference.next.size());
  }
  const std::vector<std::int32_t> positions = continuation_positions(reference);
  for (Index layer = 0; layer < shape.layers; ++layer) {
    reference.attention.push_back(engine.attention_output(
        reference.cache, layer, {reference.queries.post_rope(layer), positions}));
  }
  return reference;
}

Distance measure(mini_llama::Engine& engine, const Reference& reference,
                 const mini_llama::RaggedCache& evicted, std::span<const TokenId> continuation) {
  Distance distance{};
  mini_llama::RaggedCache cache = evicted;
  const std::vector<Index> rows = all_rows(continuation.size());
  Matrix log_probabilities = engine.forward(cache, continuation, rows);
  to_log_probabilities(log_probabilities);
  const Matrix& full = reference.log_probabilities;
  std::vector<double> kl;
  for (Index i = 0; i < full.rows(); ++i) {
    const auto p = full.row(i).array();
    const auto q = log_probabilities.row(i).array();
    kl.push_back((p.exp() * (p - q)).cast<double>().sum());
    distance.top1_agreement +=
        top_of(log_probabilities, i) == reference.top[mini_llama::to_size(i)] ? 1.0 : 0.0;
  }
  distance.mean_kl = std::accumulate(kl.begin(), kl.end(), 0.0) / static_cast<double>(kl.size());
  distance.kl_99 = quantile(std::move(kl), 0.99);
  distance.top1_agreement /= static_cast<double>(full.rows());
  distance.attention_output_error = attention_output_error(engine, reference, evicted);
  distance.next = next_log_probabilities(log_probabilities, continuation);
  return distance;
}

double quantile(std::vector<double> values, double q) {
  const auto size = static_cast<double>(values.size());
  // Rounding of the product must not add a rank.
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(q * size * (1.0 - 1e-12)));
  const auto at = values.begin() + std::max<std::ptrdiff_t>(rank, 1) - 1;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace demo
