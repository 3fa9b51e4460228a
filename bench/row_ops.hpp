// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "inputs.hpp"
#include "unavoidable.hpp"

namespace bench {

/// What the operations on rows of keys or values work with.
template <class T>
struct RowScene {
  explicit RowScene(const Inputs<T>& given)
      : inputs(given),
        shape(given.shape()),
        keys(given.cache().keys()),
        values(given.cache().values()),
        score_storage(shape.total_rows()),
        query_score_storage(shape.query_heads() * shape.rows),
        root_storage(random_numbers<float>(shape.total_rows(), 4)),
        factor_storage(random_numbers<float>(shape.heads * shape.dim * shape.dim, 5)),
        gram_storage(shape.heads * shape.dim * shape.dim),
        target_storage(shape.heads * (shape.rows / 2) * shape.dim) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(shape.heads), shape.rows / 2);
    std::int32_t* indices = kept.reshape(counts);
    kvevict::CpuResources res;
    kvevict::select_top(res, roots(), kvevict::Positions<>{}, {}, kept.layout(), indices);
  }

  kvevict::RowLayout<> layout() const {
    return kvevict::RowLayout<>::uniform(shape.heads, shape.rows);
  }
  kvevict::ScoreView<> scores() const { return {score_storage.data(), layout()}; }
  kvevict::ScoreView<> query_scores() const {
    return {query_score_storage.data(), layout().repeated(shape.group)};
  }
  kvevict::ScoreView<> roots() const { return {root_storage.data(), layout()}; }
  kvevict::MatrixBatchView<float> factors() const {
    return kvevict::MatrixBatchView<float>::packed(factor_storage.data(), shape.heads, shape.dim,
                                                   shape.dim);
  }
  kvevict::MatrixBatchView<double> gram() const {
    return kvevict::MatrixBatchView<double>::packed(gram_storage.data(), shape.heads, shape.dim,
                                                    shape.dim);
  }
  kvevict::MatrixView<float> directions() const {
    return kvevict::MatrixView<float>::packed(factor_storage.data(), shape.heads, shape.dim);
  }
  kvevict::RowsView<T> target() const {
    const std::int64_t rows = shape.rows / 2;
    return kvevict::RowsView<T>::strided(target_storage.data(), shape.heads, rows, shape.dim,
                                         rows * shape.dim, shape.dim);
  }
  Load load() const {
    return {shape,
            inputs.keys().data(),
            inputs.values().data(),
            inputs.keys().bytes(),
            score_storage.data(),
            inputs.probes().queries.count()};
  }
  double copy_kept(Bounds& bounds) const {
    return bounds.copy(inputs.values().data(), target_storage.data(), target_storage.bytes());
  }

  const Inputs<T>& inputs;
  Shape shape;
  kvevict::RowsView<T> keys;
  kvevict::RowsView<T> values;
  Buffer<float> score_storage;
  Buffer<float> query_score_storage;
  Buffer<float> root_storage;
  Buffer<float> factor_storage;
  Buffer<double> gram_storage;
  Buffer<T> target_storage;
  kvevict::Selection kept;  ///< a random half of the rows
};

/// An operation on rows, and what it cannot do without.
template <class T>
struct RowOp {
  std::string_view name;
  double (*unavoidable)(Bounds&, const RowScene<T>&);
  void (*run)(kvevict::CpuResources&, const RowScene<T>&);
};

template <class T>
inline constexpr RowOp<T> row_ops[] = {
    {"row_norms", [](Bounds& b, const RowScene<T>& s) { return read_keys(b, s.load()); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       row_norms(res, s.keys, -1.0f, s.scores());
     }},
    {"mean_direction", [](Bounds& b, const RowScene<T>& s) { return read_keys(b, s.load()); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       mean_direction(res, s.keys, s.directions());
     }},
    {"cosine", [](Bounds& b, const RowScene<T>& s) { return read_keys(b, s.load()); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       cosine(res, s.keys, kvevict::MatrixView<const float>(s.directions()), -1.0f, s.scores());
     }},
    {"query_logits", [](Bounds& b, const RowScene<T>& s) { return read_keys(b, s.load()); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       query_logits(res, s.keys, s.inputs.stats().mean, 1.0f, s.query_scores());
     }},
    {"quadratic_form,diagonal",
     [](Bounds& b, const RowScene<T>& s) { return read_keys(b, s.load()); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       quadratic_form(res, s.keys, s.inputs.stats(), kvevict::Covariance::diagonal, 1.0f, false,
                      s.query_scores());
     }},
    {"quadratic_form,full",
     [](Bounds& b, const RowScene<T>& s) {
       return read_keys(b, s.load(), square_products(b, s.load(), s.shape.query_heads()));
     },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       quadratic_form(res, s.keys, s.inputs.stats(), kvevict::Covariance::full, 1.0f, false,
                      s.query_scores());
     }},
    {"attention_statistic,window",
     [](Bounds& b, const RowScene<T>& s) { return attention(b, s.load(), window_queries); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       const auto window = s.inputs.window();
       attention_statistic(res, s.keys, kvevict::Positions<>{},
                           {window.queries, window.positions, kvevict::ProbeMask::by_position},
                           0.1f, kvevict::AttentionStatistic::mean, s.query_scores());
     }},
    {"attention_statistic,probes",
     [](Bounds& b, const RowScene<T>& s) { return attention(b, s.load(), s.load().probes); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       attention_statistic(res, s.keys, kvevict::Positions<>{}, s.inputs.probes(), 0.1f,
                           kvevict::AttentionStatistic::mean_jacobian_diagonal, s.query_scores());
     }},
    {"weight_by_norm", [](Bounds& b, const RowScene<T>& s) { return read_values(b, s.load()); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       weight_by_norm(res, s.values, {}, kvevict::Epsilon{}, kvevict::ReductionDomain::linear,
                      s.scores());
     }},
    {"weighted_gram",
     [](Bounds& b, const RowScene<T>& s) {
       return read_values(b, s.load(), gram_products(b, s.load(), s.shape.heads));
     },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       weighted_gram(res, s.values, s.roots(), s.gram());
     }},
    {"leverage_scores",
     [](Bounds& b, const RowScene<T>& s) {
       return read_values(b, s.load(), square_products(b, s.load(), s.shape.heads));
     },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       leverage_scores(res, s.values, kvevict::MatrixBatchView<const float>(s.factors()), s.roots(),
                       s.scores());
     }},
    {"gather_rows", [](Bounds& b, const RowScene<T>& s) { return s.copy_kept(b); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       gather_rows(res, s.kept.view(), kvevict::RowsView<const T>(s.keys), s.target());
     }},
    // Last, since it moves the rows of the inputs about: random they stay.
    {"compact_rows", [](Bounds& b, const RowScene<T>& s) { return s.copy_kept(b); },
     [](kvevict::CpuResources& res, const RowScene<T>& s) {
       compact_rows(res, s.kept.view(), s.keys);
     }},
};

}  // namespace bench
