// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cuda_inputs.cuh"
#include "cuda_work.cuh"

namespace bench {

/// Scores that a selection may meet.
enum class CudaScoreKind {
  random,
  equal,         ///< nothing but ties: every row falls into one bin
  close,         ///< equal in their leading 22 bits: only the last digit tells rows apart
  most_infinite  ///< 90 % are +infinity
};

namespace kernels {

static __global__ void __launch_bounds__(256)
    fill_scores(float* to, std::int64_t count, CudaScoreKind kind) {
  const std::int64_t step = std::int64_t{256} * gridDim.x;
  for (std::int64_t i = std::int64_t{256} * blockIdx.x + threadIdx.x; i < count; i += step) {
    const std::uint64_t bits = kvevict::random_bits(seed, 7, static_cast<std::uint64_t>(i));
    float score = kvevict::random_uniform(seed, 6, static_cast<std::uint64_t>(i));
    if (kind == CudaScoreKind::equal) score = 1.0f;
    if (kind == CudaScoreKind::close) score = 1.0f + static_cast<float>(bits % 1024) * 0x1p-23f;
    if (kind == CudaScoreKind::most_infinite && bits % 10 != 0) score = INFINITY;
    to[i] = score;
  }
}

}  // namespace kernels

/// What the operations on scores work with. Those in place are run again and again on their own
/// results; the inputs are such that this leads nowhere that is slow or special.
struct CudaScoreScene {
  CudaScoreScene(kvevict::CudaResources& res, const Shape& given, CudaScoreKind kind)
      : shape(given),
        per_head(res, given.total_rows()),
        per_query_head(cuda_random_numbers<float>(res, given.query_heads() * given.rows, 8)),
        out(res, given.query_heads() * given.rows),
        shares(static_cast<std::size_t>(given.heads), given.rows / 2),
        counts(shares) {
    const std::int64_t blocks = std::min(kvevict::cuda::tiles_of(per_head.size(), 256),
                                         std::int64_t{16} * res.limits().multiprocessors);
    kvevict::cuda::launch(res, "fill_scores", kernels::fill_scores, blocks, 256, 0, per_head.data(),
                          per_head.size(), kind);
    res.make_room(kept, shares);
  }

  kvevict::RowLayout<device> layout() const {
    return kvevict::RowLayout<device>::uniform(shape.heads, shape.rows);
  }
  kvevict::ScoreView<device> scores() const { return {per_head.data(), layout()}; }
  kvevict::ScoreView<device> query_scores() const {
    return {per_query_head.data(), layout().repeated(shape.group)};
  }
  kvevict::ScoreView<device> results() const { return {out.data(), layout()}; }
  kvevict::ScoreView<device> query_results() const {
    return {out.data(), layout().repeated(shape.group)};
  }
  /// Reads the scores of all heads, or of all query heads, writes as many.
  Traffic traffic(bool per_query_head_rows) const {
    const CudaBuffer<float>& from = per_query_head_rows ? per_query_head : per_head;
    return {from.data(), from.bytes(), out.data(), from.bytes()};
  }

  Shape shape;
  CudaBuffer<float> per_head;        ///< of the kind asked for
  CudaBuffer<float> per_query_head;  ///< random
  CudaBuffer<float> out;
  std::vector<std::int64_t> shares;  ///< half of the rows
  std::vector<std::int64_t> counts;
  kvevict::CudaSelection kept;
};

/// An operation on scores, and what it cannot do without.
struct CudaScoreOp {
  std::string_view name;
  bool per_query_head;  ///< whether its rows are those of all query heads
  CudaScoreKind kind;
  Work (*work)(const Shape&);
  void (*run)(kvevict::CudaResources&, CudaScoreScene&);
};

inline constexpr kvevict::Protect cuda_protect = {.sinks = 4, .recent = 32};

inline double rows_of(const Shape& s) { return static_cast<double>(s.total_rows()); }
inline double query_rows_of(const Shape& s) {
  return static_cast<double>(s.query_heads() * s.rows);
}

/// One read, and half of the row numbers: what a selection would take that finds its threshold for
/// nothing.
inline Work select_work(const Shape& s) {
  return {{.read = 4.0 * rows_of(s), .write = 2.0 * rows_of(s)}};
}
inline void run_select(kvevict::CudaResources& res, CudaScoreScene& s) {
  select_top(res, s.scores(), kvevict::Positions<device>{}, cuda_protect, s.kept.layout(),
             s.kept.indices_data());
}

/// In place; the largest of all must be known before the first exponential.
inline Work softmax_work(const Shape& s) {
  return {{.read = 4.0 * query_rows_of(s), .exponentials = query_rows_of(s)},
          {.copy = 4.0 * query_rows_of(s)}};
}
template <kvevict::SoftmaxOutput output>
void run_softmax(kvevict::CudaResources& res, CudaScoreScene& s) {
  softmax(res, s.query_scores(), 4, output);
}

inline Work reduce_work(const Shape& s) {
  return {{.read = 4.0 * query_rows_of(s), .write = 4.0 * rows_of(s)}};
}
template <kvevict::ReductionDomain domain>
void run_reduce(kvevict::CudaResources& res, CudaScoreScene& s) {
  reduce_group(res, s.query_scores(), kvevict::GroupReduction::mean, domain, s.results());
}

inline Work pool_work(const Shape& s) { return {{.copy = 4.0 * query_rows_of(s)}}; }
template <kvevict::Pooling pooling>
void run_pool(kvevict::CudaResources& res, CudaScoreScene& s) {
  // Without padding, averages of averages stay where they are.
  pool_rows(res, kvevict::Positions<device>{}, s.layout(), kvevict::PositionBound<device>{}, 5,
            pooling, false, s.query_scores());
}

inline constexpr CudaScoreOp cuda_score_ops[] = {
    {"select_top,random", false, CudaScoreKind::random, select_work, run_select},
    {"select_top,equal", false, CudaScoreKind::equal, select_work, run_select},
    {"select_top,close", false, CudaScoreKind::close, select_work, run_select},
    {"select_top,most_infinite", false, CudaScoreKind::most_infinite, select_work, run_select},
    // Waits for the device: what the host does in between counts.
    {"global_counts", false, CudaScoreKind::random,
     [](const Shape& s) -> Work { return {{.read = 4.0 * rows_of(s)}}; },
     [](kvevict::CudaResources& res, CudaScoreScene& s) {
       const kvevict::AllocationInput<device> input{
           s.scores(), {}, cuda_protect, s.shares.data(), true};
       const std::int64_t total = s.shape.heads * (s.shape.rows / 2);
       global_counts(res, input, total, 1, s.shape.rows, s.counts.data());
     }},
    {"softmax,probability", true, CudaScoreKind::random, softmax_work,
     run_softmax<kvevict::SoftmaxOutput::probability>},
    {"softmax,jacobian_diagonal", true, CudaScoreKind::random, softmax_work,
     run_softmax<kvevict::SoftmaxOutput::jacobian_diagonal>},
    {"softmax,log_probability", true, CudaScoreKind::random, softmax_work,
     run_softmax<kvevict::SoftmaxOutput::log_probability>},
    {"exponential_root_weights", true, CudaScoreKind::random, softmax_work,
     [](kvevict::CudaResources& res, CudaScoreScene& s) {
       exponential_root_weights(res, s.query_scores(), 1.0f, 0.0f, 4, s.query_results());
     }},
    {"reduce_group,linear", true, CudaScoreKind::random, reduce_work,
     run_reduce<kvevict::ReductionDomain::linear>},
    {"reduce_group,square_root", true, CudaScoreKind::random, reduce_work,
     run_reduce<kvevict::ReductionDomain::square_root>},
    {"pool_rows,average", true, CudaScoreKind::random, pool_work,
     run_pool<kvevict::Pooling::average>},
    {"pool_rows,max", true, CudaScoreKind::random, pool_work, run_pool<kvevict::Pooling::max>},
    {"raise_rows", false, CudaScoreKind::random,
     [](const Shape& s) -> Work { return {{.read = 4.0 * rows_of(s)}}; },
     [](kvevict::CudaResources& res, CudaScoreScene& s) {
       raise_rows(res, kvevict::Positions<device>{}, kvevict::RaisedRows<device>{4, {}},
                  s.scores());
     }},
};

}  // namespace bench
