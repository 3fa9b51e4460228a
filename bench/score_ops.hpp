// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "inputs.hpp"
#include "unavoidable.hpp"

namespace bench {

/// Scores that a selection may meet.
enum class ScoreKind {
  random,
  equal,          ///< nothing but ties: every row falls into one bin
  close,          ///< equal in their leading 22 bits: only the last digit tells rows apart
  few_infinite,   ///< 10 % are +infinity
  most_infinite,  ///< 90 % are
};

inline Buffer<float> make_scores(ScoreKind kind, std::int64_t count) {
  Buffer<float> scores = random_numbers<float>(count, 6);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = kvevict::random_bits(seed, 7, static_cast<std::uint64_t>(i));
    float& score = scores.data()[i];
    switch (kind) {
      case ScoreKind::random:
        break;
      case ScoreKind::equal:
        score = 1.0f;
        break;
      case ScoreKind::close:
        score = 1.0f + static_cast<float>(bits % 1024) * std::numeric_limits<float>::epsilon();
        break;
      case ScoreKind::few_infinite:
        if (bits % 10 == 0) score = infinity;
        break;
      case ScoreKind::most_infinite:
        if (bits % 10 != 0) score = infinity;
        break;
    }
  }
  return scores;
}

/// What the operations on scores work with. Those in place are run again and again on their own
/// results; the inputs are such that this leads nowhere that is slow or special.
struct ScoreScene {
  ScoreScene(const Shape& given, ScoreKind kind)
      : shape(given),
        per_head(make_scores(kind, given.total_rows())),
        per_query_head(random_numbers<float>(given.query_heads() * given.rows, 8)),
        out(given.query_heads() * given.rows),
        shares(static_cast<std::size_t>(given.heads), given.rows / 2),
        counts(shares) {
    indices = kept.reshape(shares);
  }

  kvevict::RowLayout<> layout() const {
    return kvevict::RowLayout<>::uniform(shape.heads, shape.rows);
  }
  kvevict::ScoreView<> scores() const { return {per_head.data(), layout()}; }
  kvevict::ScoreView<> query_scores() const {
    return {per_query_head.data(), layout().repeated(shape.group)};
  }
  kvevict::ScoreView<> results() const { return {out.data(), layout()}; }
  kvevict::ScoreView<> query_results() const {
    return {out.data(), layout().repeated(shape.group)};
  }
  double read_scores(Bounds& b) const { return b.read(per_head.data(), per_head.bytes()); }
  double read_query_scores(Bounds& b) const {
    return b.read(per_query_head.data(), per_query_head.bytes());
  }
  double copy_query_scores(Bounds& b) const {
    return b.copy(per_query_head.data(), out.data(), out.bytes());
  }
  double exponentials(Bounds& b) const {
    return b.exponentials(static_cast<double>(shape.query_heads() * shape.rows));
  }

  Shape shape;
  Buffer<float> per_head;        ///< of the kind asked for
  Buffer<float> per_query_head;  ///< random
  Buffer<float> out;
  std::vector<std::int64_t> shares;  ///< half of the rows
  std::vector<std::int64_t> counts;
  kvevict::Selection kept;
  std::int32_t* indices = nullptr;
};

/// An operation on scores, and what it cannot do without.
struct ScoreOp {
  std::string_view name;
  bool per_query_head;  ///< whether its rows are those of all query heads
  ScoreKind kind;
  double (*unavoidable)(Bounds&, ScoreScene&);
  void (*run)(kvevict::CpuResources&, ScoreScene&);
};

inline constexpr kvevict::Protect protect = {.sinks = 4, .recent = 32};

/// One read for each of the three digits and one that writes the rows.
inline double select_bound(Bounds& b, ScoreScene& s) { return 4.0 * s.read_scores(b); }
inline void run_select(kvevict::CpuResources& res, ScoreScene& s) {
  select_top(res, s.scores(), kvevict::Positions<>{}, protect, s.kept.layout(), s.indices);
}

inline double softmax_bound(Bounds& b, ScoreScene& s) {
  return s.read_query_scores(b) + s.exponentials(b);
}
template <kvevict::SoftmaxOutput output>
void run_softmax(kvevict::CpuResources& res, ScoreScene& s) {
  softmax(res, s.query_scores(), 4, output);
}

template <kvevict::ReductionDomain domain>
void run_reduce(kvevict::CpuResources& res, ScoreScene& s) {
  reduce_group(res, s.query_scores(), kvevict::GroupReduction::mean, domain, s.results());
}

template <kvevict::Pooling pooling>
void run_pool(kvevict::CpuResources& res, ScoreScene& s) {
  // Without padding, averages of averages stay where they are.
  pool_rows(res, kvevict::Positions<>{}, s.layout(), kvevict::PositionBound<>{}, 5, pooling, false,
            s.query_scores());
}

inline constexpr ScoreOp score_ops[] = {
    {"select_top,random", false, ScoreKind::random, select_bound, run_select},
    {"select_top,equal", false, ScoreKind::equal, select_bound, run_select},
    {"select_top,close", false, ScoreKind::close, select_bound, run_select},
    {"select_top,few_infinite", false, ScoreKind::few_infinite, select_bound, run_select},
    {"select_top,most_infinite", false, ScoreKind::most_infinite, select_bound, run_select},
    {"global_counts", false, ScoreKind::random,
     [](Bounds& b, ScoreScene& s) { return 3.0 * s.read_scores(b); },
     [](kvevict::CpuResources& res, ScoreScene& s) {
       const kvevict::AllocationInput<> input{s.scores(), {}, protect, s.shares.data(), true};
       const std::int64_t total = s.shape.heads * (s.shape.rows / 2);
       global_counts(res, input, total, 1, s.shape.rows, s.counts.data());
     }},
    {"softmax,probability", true, ScoreKind::random, softmax_bound,
     run_softmax<kvevict::SoftmaxOutput::probability>},
    {"softmax,jacobian_diagonal", true, ScoreKind::random, softmax_bound,
     run_softmax<kvevict::SoftmaxOutput::jacobian_diagonal>},
    {"softmax,log_probability", true, ScoreKind::random, softmax_bound,
     run_softmax<kvevict::SoftmaxOutput::log_probability>},
    {"exponential_root_weights", true, ScoreKind::random, softmax_bound,
     [](kvevict::CpuResources& res, ScoreScene& s) {
       exponential_root_weights(res, s.query_scores(), 1.0f, 0.0f, 4, s.query_results());
     }},
    {"reduce_group,linear", true, ScoreKind::random,
     [](Bounds& b, ScoreScene& s) { return s.read_query_scores(b); },
     run_reduce<kvevict::ReductionDomain::linear>},
    {"reduce_group,square_root", true, ScoreKind::random,
     [](Bounds& b, ScoreScene& s) { return s.read_query_scores(b); },
     run_reduce<kvevict::ReductionDomain::square_root>},
    {"pool_rows,average", true, ScoreKind::random,
     [](Bounds& b, ScoreScene& s) { return s.copy_query_scores(b); },
     run_pool<kvevict::Pooling::average>},
    {"pool_rows,max", true, ScoreKind::random,
     [](Bounds& b, ScoreScene& s) { return s.copy_query_scores(b); },
     run_pool<kvevict::Pooling::max>},
    {"raise_rows", false, ScoreKind::random,
     [](Bounds& b, ScoreScene& s) { return s.read_scores(b); },
     [](kvevict::CpuResources& res, ScoreScene& s) {
       raise_rows(res, kvevict::Positions<>{}, kvevict::RaisedRows<>{4, {}}, s.scores());
     }},
};

}  // namespace bench
