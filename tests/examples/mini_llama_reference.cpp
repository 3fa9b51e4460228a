// SPDX-License-Identifier: Apache-2.0
#include "mini_llama_reference.hpp"

#include <algorithm>
#include <cmath>

namespace mini_llama_test {
namespace {

using mini_llama::Index;
using mini_llama::Matrix;
using mini_llama::Vector;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

Row multiply(const Matrix& weights, const Row& x) {
  Row y(at(weights.rows()), 0.0);
  for (Index i = 0; i < weights.rows(); ++i) {
    for (Index j = 0; j < weights.cols(); ++j) y[at(i)] += double{weights(i, j)} * x[at(j)];
  }
  return y;
}

Row rms_norm(const Row& x, const Vector& weights, double epsilon) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  const double root = std::sqrt(sum / static_cast<double>(x.size()) + epsilon);
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / root * double{weights[static_cast<Index>(i)]};
  }
  return y;
}

void add_to(Row& x, const Row& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

Row reference_attention(const Row& query, std::int32_t position, std::span<const CacheRow> rows,
                        Index value_dim) {
  Row out(at(value_dim), 0.0);
  std::vector<std::pair<double, const CacheRow*>> seen;
  double largest = -1e300;
  for (const CacheRow& row : rows) {
    if (row.position > position) continue;
    double score = 0.0;
    for (std::size_t i = 0; i < query.size(); ++i) score += query[i] * row.key[i];
    seen.emplace_back(score / std::sqrt(static_cast<double>(query.size())), &row);
    largest = std::max(largest, seen.back().first);
  }
  double sum = 0.0;
  for (const auto& [score, row] : seen) sum += std::exp(score - largest);
  for (const auto& [score, row] : seen) {
    const double weight = std::exp(score - largest) / sum;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * row->value[i];
  }
  return out;
}

ReferenceModel::ReferenceModel(const mini_llama::Model& model)
    : round_row_element([](double x) { return x; }), model_(model) {
  cache_.resize(model.layers().size());
  for (auto& layer : cache_) layer.resize(at(model.parameters().kv_heads));
}

Row ReferenceModel::forward(mini_llama::TokenId token) {
  const auto& p = model_.parameters();
  Row x(at(p.embedding));
  for (Index i = 0; i < p.embedding; ++i) x[at(i)] = double{model_.embedding()(token, i)};
  for (Index layer = 0; layer < p.layers; ++layer) {
    const auto& w = model_.layers()[at(layer)];
    add_to(x, attend(w, layer, rms_norm(x, w.attention_norm, p.rms_epsilon)));
    const Row normed = rms_norm(x, w.feed_forward_norm, p.rms_epsilon);
    Row gate = multiply(w.gate, normed);
    const Row up = multiply(w.up, normed);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
    add_to(x, multiply(w.down, gate));
  }
  ++position_;
  return multiply(model_.output(), rms_norm(x, model_.output_norm(), p.rms_epsilon));
}

Row ReferenceModel::attend(const mini_llama::LayerWeights& weights, Index layer, const Row& x) {
  const auto& p = model_.parameters();
  Row queries = multiply(weights.query, x);
  Row keys = multiply(weights.key, x);
  const Row values = multiply(weights.value, x);
  for (Index h = 0; h < p.kv_heads; ++h) {
    rotate(keys.data() + h * p.key_dim);
    CacheRow row{position_, {}, {}};
    for (Index i = 0; i < p.key_dim; ++i) {
      row.key.push_back(round_row_element(keys[at(h * p.key_dim + i)]));
    }
    for (Index i = 0; i < p.value_dim; ++i) {
      row.value.push_back(round_row_element(values[at(h * p.value_dim + i)]));
    }
    rows(layer, h).push_back(row);
  }
  Row out;
  for (Index h = 0; h < p.query_heads; ++h) {
    double* head = queries.data() + h * p.key_dim;
    rotate(head);
    const Row one = reference_attention(Row(head, head + p.key_dim), position_,
                                        rows(layer, h * p.kv_heads / p.query_heads), p.value_dim);
    out.insert(out.end(), one.begin(), one.end());
  }
  return multiply(weights.attention_output, out);
}

void ReferenceModel::rotate(double* head) const {
  for (const double frequency : model_.rope_frequencies()) {
    const double c = std::cos(position_ * frequency);
    const double s = std::sin(position_ * frequency);
    const double x = head[0];
    const double y = head[1];
    head[0] = c * x - s * y;
    head[1] = s * x + c * y;
    head += 2;
  }
}

}  // namespace mini_llama_test
