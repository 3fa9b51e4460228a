// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "decode/engine.hpp"

namespace kvevict_test {

// What an evictor must have collected for the rows that an engine holds: the attention that each
// row has received, in double, query by query, and the last queries.
class ShadowEvidence {
 public:
  ShadowEvidence(const EngineShape& shape, const kvevict::H2O& accumulation, std::int64_t window)
      : shape_(shape), accumulation_(accumulation), window_(window) {
    reset();
  }

  void reset() { heads_.assign(static_cast<std::size_t>(shape_.heads), {}); }

  void keep(const kvevict::Selection& kept) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      std::vector<Received>& rows = heads_[static_cast<std::size_t>(h)];
      std::size_t next = 0;
      for (const std::int32_t row : kept.head(h))
        rows[next++] = rows[static_cast<std::size_t>(row)];
      rows.resize(next);
    }
  }

  // After the engine has appended the rows of `tokens` tokens from `first` on.
  template <class T>
  void observe(const Engine<T>& engine, std::int64_t first, std::int64_t tokens) {
    const auto dim = static_cast<std::size_t>(shape_.dim);
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      std::vector<Received>& rows = heads_[static_cast<std::size_t>(h)];
      const std::vector<std::int32_t>& held = engine.held(h);
      rows.resize(held.size());
      keys_.resize(held.size() * dim);
      for (std::size_t j = 0; j < held.size(); ++j) {
        engine.key_numbers(h, held[j], keys_.data() + j * dim);
      }
      for (std::int64_t p = first; p < first + tokens; ++p) {
        const auto seen =
            static_cast<std::size_t>(std::upper_bound(held.begin(), held.end(), p) - held.begin());
        const bool largest = accumulation_.accumulation == kvevict::Accumulation::max;
        received_.assign(seen, 0.0);
        for (std::int64_t q = h * shape_.group; q < (h + 1) * shape_.group; ++q) {
          attend(engine.contents(), q, p, seen);
          for (std::size_t j = 0; j < seen; ++j) {
            const double share = weights_[j] / static_cast<double>(shape_.group);
            received_[j] = largest ? std::max(received_[j], weights_[j]) : received_[j] + share;
          }
        }
        for (Received& row : rows) {
          if (accumulation_.accumulation == kvevict::Accumulation::decay) {
            row.mass *= accumulation_.decay;
          }
        }
        for (std::size_t j = 0; j < seen; ++j) {
          rows[j].mass =
              largest ? std::max(rows[j].mass, received_[j]) : rows[j].mass + received_[j];
          ++rows[j].queries;
        }
      }
    }
  }

  // Of what the evictor collected of these two kinds, what is not that. 0 for an evictor that
  // collects neither.
  template <class P, class T>
  int differences(TestResources& res, kvevict::DecodeEvictor<P>& evictor,
                  const Engine<T>& engine) const {
    // A policy that asks for statistics as well has none of the first token.
    if (!evictor.needs_post_rope() || evictor.next_position() < 2) return 0;
    const kvevict::Evidence<> evidence = evictor.evidence(res);
    int count = 0;
    if (evidence.attention_mass) count += differences(*evidence.attention_mass);
    if (evidence.query_window) {
      count += differences(*evidence.query_window, engine.contents(), evictor.next_position());
    }
    return count;
  }

 private:
  struct Received {
    double mass = 0.0;
    std::int64_t queries = 0;  // that could see the row
  };

  // Of a mass: logits are below 24 in size, sums of 32 rounded products.
  static constexpr double mass_tolerance = 24 * 32 * 0x1p-24;
  // Weights that fp32 has no digits for.
  static constexpr double least_mass = 1e-30;

  void attend(const TokenContents& contents, std::int64_t q, std::int64_t p, std::size_t seen) {
    const auto dim = static_cast<std::size_t>(shape_.dim);
    weights_.resize(seen);
    query_.resize(dim);
    for (std::size_t c = 0; c < dim; ++c) {
      query_[c] = contents.number(3, q, p, static_cast<std::int64_t>(c)) /
                  std::sqrt(static_cast<double>(dim));
    }
    double largest = -INFINITY;
    for (std::size_t j = 0; j < seen; ++j) {
      weights_[j] = 0.0;
      for (std::size_t c = 0; c < dim; ++c) weights_[j] += query_[c] * keys_[j * dim + c];
      largest = std::max(largest, weights_[j]);
    }
    double sum = 0.0;
    for (double& weight : weights_) sum += weight = std::exp(weight - largest);
    for (double& weight : weights_) weight /= sum;
  }

  int differences(const kvevict::AttentionMass<>& mass) const {
    int count = mass.layout.heads() == shape_.heads ? 0 : 1;
    for (std::int64_t h = 0; count == 0 && h < shape_.heads; ++h) {
      const std::vector<Received>& rows = heads_[static_cast<std::size_t>(h)];
      if (mass.layout.rows(h) != static_cast<std::int64_t>(rows.size())) return 1;
      for (std::size_t j = 0; j < rows.size(); ++j) {
        const double got = mass.data[mass.layout.offset(h) + static_cast<std::int64_t>(j)];
        const bool mean = accumulation_.accumulation == kvevict::Accumulation::mean;
        const double want =
            mean ? rows[j].mass / static_cast<double>(rows[j].queries) : rows[j].mass;
        count += std::abs(got - want) <= mass_tolerance * want + least_mass ? 0 : 1;
      }
    }
    return count;
  }

  int differences(const kvevict::QueryWindow<>& window, const TokenContents& contents,
                  std::int64_t seen) const {
    const std::int64_t count = std::min(window_, seen);
    if (window.queries.count() != count) return 1;
    int wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t p = seen - count + i;
      wrong += window.positions.at(0, i) == p ? 0 : 1;
      for (std::int64_t q = 0; q < shape_.heads * shape_.group; ++q) {
        for (std::int64_t c = 0; c < shape_.dim; ++c) {
          wrong += window.queries.at(q, i, c) == contents.number(3, q, p, c) ? 0 : 1;
        }
      }
    }
    return wrong;
  }

  EngineShape shape_;
  kvevict::H2O accumulation_;
  std::int64_t window_;
  std::vector<std::vector<Received>> heads_;
  // Scratch.
  std::vector<double> keys_;
  std::vector<double> query_;
  std::vector<double> weights_;
  std::vector<double> received_;
};

}  // namespace kvevict_test
