// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cuda_inputs.cuh"
#include "cuda_policy_work.cuh"

namespace bench {

/// What the operations on rows of keys or values work with.
template <class T>
struct CudaRowScene {
  CudaRowScene(kvevict::CudaResources& res, const CudaInputs<T>& given)
      : inputs(given),
        shape(given.shape()),
        keys(given.cache().keys()),
        values(given.cache().values()),
        score_storage(res, shape.total_rows()),
        query_score_storage(res, shape.query_heads() * shape.rows),
        root_storage(cuda_random_numbers<float>(res, shape.total_rows(), 4)),
        factor_storage(cuda_random_numbers<float>(res, shape.heads * shape.dim * shape.dim, 5)),
        gram_storage(res, shape.heads * shape.dim * shape.dim),
        target_storage(res, shape.heads * (shape.rows / 2) * shape.dim) {
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(shape.heads), shape.rows / 2);
    res.make_room(kept, counts);
    kvevict::select_top(res, roots(), kvevict::Positions<device>{}, {}, kept.layout(),
                        kept.indices_data());
    // Random weights make well-conditioned matrices.
    kvevict::weighted_gram(res, values, roots(), gram());
  }

  kvevict::RowLayout<device> layout() const {
    return kvevict::RowLayout<device>::uniform(shape.heads, shape.rows);
  }
  kvevict::ScoreView<device> scores() const { return {score_storage.data(), layout()}; }
  kvevict::ScoreView<device> query_scores() const {
    return {query_score_storage.data(), layout().repeated(shape.group)};
  }
  kvevict::ScoreView<device> roots() const { return {root_storage.data(), layout()}; }
  kvevict::MatrixBatchView<float, device> factors() const {
    return kvevict::MatrixBatchView<float, device>::packed(factor_storage.data(), shape.heads,
                                                           shape.dim, shape.dim);
  }
  kvevict::MatrixBatchView<double, device> gram() const {
    return kvevict::MatrixBatchView<double, device>::packed(gram_storage.data(), shape.heads,
                                                            shape.dim, shape.dim);
  }
  kvevict::MatrixView<float, device> directions() const {
    return kvevict::MatrixView<float, device>::packed(factor_storage.data(), shape.heads,
                                                      shape.dim);
  }
  kvevict::RowsView<T, device> target() const {
    const std::int64_t rows = shape.rows / 2;
    return kvevict::RowsView<T, device>::strided(target_storage.data(), shape.heads, rows,
                                                 shape.dim, rows * shape.dim, shape.dim);
  }
  CudaLoad load() const { return {shape, sizeof(T), inputs.probes().queries.count()}; }
  /// Reads keys, writes rows of keys.
  Traffic traffic() const {
    return {inputs.keys().data(), inputs.keys().bytes(), target_storage.data(),
            target_storage.bytes()};
  }

  const CudaInputs<T>& inputs;
  Shape shape;
  kvevict::RowsView<T, device> keys;
  kvevict::RowsView<T, device> values;
  CudaBuffer<float> score_storage;
  CudaBuffer<float> query_score_storage;
  CudaBuffer<float> root_storage;
  CudaBuffer<float> factor_storage;
  CudaBuffer<double> gram_storage;
  CudaBuffer<T> target_storage;
  kvevict::CudaSelection kept;  ///< a random half of the rows
};

/// An operation on rows, and what it cannot do without.
template <class T>
struct CudaRowOp {
  std::string_view name;
  Work (*work)(const CudaLoad&);
  void (*run)(kvevict::CudaResources&, const CudaRowScene<T>&);
};

inline Work one_read(const CudaLoad& l) { return {writing_scores(l, read_pass(l, 2))}; }
inline Work copy_half(const CudaLoad& l) { return {{.copy = l.bytes() / 2.0}}; }

/// One number for each query head and row, from `flops` flops for each number of its key.
inline Work mean_query_work(const CudaLoad& l, double flops) {
  return {{.read = l.bytes(),
           .write = l.query_score_bytes(),
           .fp32 = flops * l.query_rows() * l.dim()}};
}
inline Work attention_work(const CudaLoad& l, std::int64_t queries) {
  Pass pass = attention_pass(l, queries);
  pass.write = l.query_score_bytes();
  return {pass};
}
/// In double: the library promises it for the operation by itself.
inline Work gram_work(const CudaLoad& l) {
  const double rows = l.rows();
  return {{.read = l.bytes(), .fp64 = rows * l.dim() * l.dim()}};
}
/// Any factors: no triangles.
inline Work leverage_work(const CudaLoad& l) {
  Pass pass = leverage_pass(l, l.shape.heads);
  pass.fp32 *= 2.0;
  return {pass};
}
/// d^3 / 3 flops for a factor L of A, as many for its inverse.
inline Work inverse_work(const CudaLoad& l) {
  const double matrices = static_cast<double>(l.shape.heads);
  return {{.fp64 = matrices * 2.0 / 3.0 * l.dim() * l.dim() * l.dim()}};
}

template <class T>
inline constexpr CudaRowOp<T> cuda_row_ops[] = {
    {"row_norms", one_read,
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       row_norms(res, s.keys, -1.0f, s.scores());
     }},
    {"mean_direction", [](const CudaLoad& l) -> Work { return {read_pass(l, 4)}; },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       mean_direction(res, s.keys, s.directions());
     }},
    {"cosine", [](const CudaLoad& l) -> Work { return {writing_scores(l, read_pass(l, 4))}; },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       cosine(res, s.keys, kvevict::MatrixView<const float, device>(s.directions()), -1.0f,
              s.scores());
     }},
    {"query_logits", [](const CudaLoad& l) { return mean_query_work(l, 2); },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       query_logits(res, s.keys, s.inputs.stats().mean, 1.0f, s.query_scores());
     }},
    {"quadratic_form,diagonal", [](const CudaLoad& l) { return mean_query_work(l, 2); },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       quadratic_form(res, s.keys, s.inputs.stats(), kvevict::Covariance::diagonal, 1.0f, false,
                      s.query_scores());
     }},
    {"quadratic_form,full", [](const CudaLoad& l) { return mean_query_work(l, 2.0 * l.dim()); },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       quadratic_form(res, s.keys, s.inputs.stats(), kvevict::Covariance::full, 1.0f, false,
                      s.query_scores());
     }},
    {"attention_statistic,window",
     [](const CudaLoad& l) { return attention_work(l, window_queries); },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       const auto window = s.inputs.window();
       attention_statistic(res, s.keys, kvevict::Positions<device>{},
                           {window.queries, window.positions, kvevict::ProbeMask::by_position},
                           0.1f, kvevict::AttentionStatistic::mean, s.query_scores());
     }},
    {"attention_statistic,probes", [](const CudaLoad& l) { return attention_work(l, l.probes); },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       attention_statistic(res, s.keys, kvevict::Positions<device>{}, s.inputs.probes(), 0.1f,
                           kvevict::AttentionStatistic::mean_jacobian_diagonal, s.query_scores());
     }},
    {"weight_by_norm", one_read,
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       weight_by_norm(res, s.values, kvevict::MatrixBatchView<const float, device>{},
                      kvevict::Epsilon{}, kvevict::ReductionDomain::linear, s.scores());
     }},
    {"weighted_gram", gram_work,
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       weighted_gram(res, s.values, s.roots(), s.gram());
     }},
    {"inverse_factor", inverse_work,
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       inverse_factor(res, kvevict::MatrixBatchView<const double, device>(s.gram()),
                      kvevict::MatrixBatchView<const float, device>{},
                      kvevict::Noise::relative(0.1), s.factors());
     }},
    {"leverage_scores", leverage_work,
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       leverage_scores(res, s.values, kvevict::MatrixBatchView<const float, device>(s.factors()),
                       s.roots(), s.scores());
     }},
    {"capacity_scores",
     [](const CudaLoad& l) -> Work {
       return {gram_pass(l, l.shape.heads), leverage_pass(l, l.shape.heads)};
     },
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       capacity_scores(res, s.values, s.roots(), kvevict::MatrixBatchView<const float, device>{},
                       kvevict::Noise::relative(0.1), s.roots(), s.scores());
     }},
    {"gather_rows", copy_half,
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       gather_rows(res, s.kept.view(), kvevict::RowsView<const T, device>(s.keys), s.target());
     }},
    // Last, since it moves the rows of the inputs about: random they stay.
    {"compact_rows", copy_half,
     [](kvevict::CudaResources& res, const CudaRowScene<T>& s) {
       compact_rows(res, s.kept.view(), s.keys);
     }},
};

}  // namespace bench
