// SPDX-License-Identifier: Apache-2.0
// What ops take from memory: nothing from the system after a first call, from the workspace what
// counting said.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "kvevict/cpu/mass.hpp"
#include "kvevict/cpu/pooling.hpp"
#include "kvevict/cpu/projection_factor.hpp"
#include "kvevict/cpu/query_logits.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/cpu/query_stats.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/row_weighting.hpp"
#include "kvevict/cpu/running_mass.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "kvevict/evict.hpp"
#include "kvevict/policies/h2o.hpp"
#include "kvevict/policies/keydiff.hpp"
#include "kvevict/policies/knorm.hpp"
#include "ops/rows_case.hpp"
#include "support/allocation_counter.hpp"

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;
using kvevict::ScoreView;
using HostPositions = kvevict::Positions<>;

namespace {

struct NamedOp {
  std::string name;
  std::function<void(CpuResources&)> run;
};

// Inputs of one shape, made once, and every op over them.
struct AllOps {
  static constexpr std::int64_t heads = 3;
  static constexpr std::int64_t group = 2;
  static constexpr std::int64_t dim = 64;
  RowsCase<half> rows{RowsForm::packed, {300, 0, 130}, dim, 1};
  std::vector<float> numbers = random_values(Shape::normal, group* heads* dim* dim, 2);
  std::vector<float> scores = std::vector<float>(2 * 430, 0.5f);
  std::vector<float> others = std::vector<float>(2 * 430, 0.25f);
  std::vector<double> grams = std::vector<double>(2 * 3 * 64 * 64);
  std::vector<float> factors = std::vector<float>(2 * 3 * 64 * 64);
  std::vector<std::int64_t> offsets = {0, 100, 100, 130};
  std::vector<std::int64_t> counts = std::vector<std::int64_t>(3);
  std::vector<std::int32_t> indices = std::vector<std::int32_t>(130);
  kvevict::MeanRotation rotation = kvevict::no_rotation({}, dim);

  ScoreView<> one() { return {scores.data(), rows.layout()}; }
  ScoreView<> all() { return {scores.data(), rows.layout().repeated(group)}; }
  ScoreView<> other() { return {others.data(), rows.layout().repeated(group)}; }
  MatrixView<const float> vectors() {
    return MatrixView<const float>::packed(numbers.data(), group * heads, dim);
  }
  MatrixBatchView<const float> matrices() {
    return MatrixBatchView<const float>::packed(numbers.data(), group * heads, dim, dim);
  }
  MatrixBatchView<double> gram() {
    return MatrixBatchView<double>::packed(grams.data(), group * heads, dim, dim);
  }
  MatrixBatchView<float> factor() {
    return MatrixBatchView<float>::packed(factors.data(), group * heads, dim, dim);
  }

  // Of two heads, the first or the second such in `grams`.
  kvevict::QueryMoments<> moments(std::int64_t which) {
    double* start = grams.data() + which * 2 * (dim + dim * dim);
    return {MatrixView<double>::packed(start, 2, dim),
            MatrixView<double>::packed(start + 2 * dim, 2, dim * dim)};
  }
  kvevict::QueryMoments<kvevict::MemorySpace::host, const double> observed() {
    return {moments(1).mean, moments(1).second};
  }

  std::vector<NamedOp> list() {
    using R = CpuResources;
    return {
        {"row_norms", [this](R& r) { row_norms(r, rows.view(), 1.0f, one()); }},
        {"mean_direction",
         [this](R& r) {
           mean_direction(r, rows.view(), MatrixView<float>::packed(factors.data(), heads, dim));
         }},
        {"cosine", [this](R& r) { cosine(r, rows.view(), vectors(), 1.0f, all()); }},
        {"query_logits", [this](R& r) { query_logits(r, rows.view(), vectors(), 1.0f, all()); }},
        {"quadratic_form",
         [this](R& r) {
           const kvevict::QueryStatsView<> stats{.covariance = matrices()};
           quadratic_form(r, rows.view(), stats, kvevict::Covariance::full, 1.0f, false, all());
         }},
        {"softmax",
         [this](R& r) { softmax(r, all(), 4, kvevict::SoftmaxOutput::jacobian_diagonal); }},
        {"attention_statistic",
         [this](R& r) {
           const kvevict::ProbeQueries<> probes{
               .queries = kvevict::QueriesView<>::packed(numbers.data(), group * heads, 64, dim)};
           attention_statistic(r, rows.view(), {}, probes, 0.1f, kvevict::AttentionStatistic::mean,
                               all());
         }},
        {"pool_rows",
         [this](R& r) {
           pool_rows(r, HostPositions(), rows.layout(), {}, 5, kvevict::Pooling::average, true,
                     all());
         }},
        {"reduce_group",
         [this](R& r) {
           reduce_group(r, other(), kvevict::GroupReduction::mean,
                        kvevict::ReductionDomain::logarithm, one());
         }},
        {"weight_by_norm",
         [this](R& r) {
           weight_by_norm(r, rows.view(), matrices(), kvevict::Epsilon{},
                          kvevict::ReductionDomain::linear, all());
         }},
        {"weighted_gram", [this](R& r) { weighted_gram(r, rows.view(), other(), gram()); }},
        {"inverse_factor",
         [this](R& r) {
           inverse_factor(r, MatrixBatchView<const double>(gram()), matrices(),
                          kvevict::Noise::absolute(1), factor());
         }},
        {"leverage_scores",
         [this](R& r) {
           leverage_scores(r, rows.view(), MatrixBatchView<const float>(factor()), other(), all());
         }},
        {"capacity_scores",
         [this](R& r) {
           capacity_scores(r, rows.view(), other(), matrices(), kvevict::Noise::relative(0.1),
                           other(), all());
         }},
        {"projection_factors",
         [this](R& r) {
           projection_factors(r, MatrixView<const float>::packed(numbers.data(), 60, 6 * dim),
                              factor());
         }},
        {"stack_factors",
         [this](R& r) {
           stack_factors(r, matrices(),
                         MatrixBatchView<float>::packed(factors.data(), heads, dim, dim));
         }},
        {"accumulate_query_moments",
         [this](R& r) {
           accumulate_query_moments(r, kvevict::QueriesView<>::packed(numbers.data(), 2, 150, dim),
                                    0, kvevict::Rope{}, kvevict::Covariance::full, 0.0, 1.0,
                                    moments(0));
         }},
        {"merge_query_moments",
         [this](R& r) {
           merge_query_moments(r, observed(), 9, kvevict::Rope{}, kvevict::Covariance::full, 5,
                               moments(0));
         }},
        {"finish_query_stats",
         [this](R& r) {
           finish_query_stats(r, observed(), 9, kvevict::Rope{}, rotation,
                              kvevict::Covariance::full,
                              MatrixView<float>::packed(factors.data(), 2, dim),
                              MatrixView<float>::packed(factors.data() + 2 * dim, 2, dim * dim));
         }},
        {"select_top",
         [this](R& r) {
           select_top(r, one(), HostPositions(), {.sinks = 4},
                      kvevict::RowLayout<>::ragged(offsets.data(), heads), indices.data());
         }},
        {"global_counts",
         [this](R& r) {
           global_counts(r, kvevict::AllocationInput<>{one(), {}, {.sinks = 4}, nullptr, true}, 130,
                         1, 1000, counts.data());
         }},
    };
  }
};

}  // namespace

TEST_CASE("after a first call no op allocates", "[cpu][workspace]") {
  for (const int threads : {1, 2}) {
    AllOps ops;
    CpuResources res({.threads = threads});
    for (const NamedOp& op : ops.list()) {
      op.run(res);
      op.run(res);  // the workspace is one block now
      const AllocationScope scope;
      op.run(res);
      const std::int64_t allocations = scope.count().allocations;
      INFO(op.name << ", " << threads << " threads");
      REQUIRE(allocations == 0);
    }
  }
}

TEST_CASE("after a first call evict_into does not allocate", "[cpu][workspace]") {
  const RowsCase<half> rows(RowsForm::packed, {300, 0, 130}, 64, 1);
  const kvevict::KvView<const half> cache(rows.view(), rows.view());
  for (const int threads : {1, 2}) {
    CpuResources res({.threads = threads});
    kvevict::Selection kept;
    const auto evict_twice = [&] {
      const kvevict::Protect protect{.sinks = 4, .recent = 8};
      evict_into(res, kept, kvevict::KeyDiff{}, cache, {}, kvevict::Budget::evict_ratio(0.5),
                 protect);
      evict_into(res, kept, kvevict::KNorm{}, cache, {}, kvevict::Budget::rows(60), protect,
                 kvevict::GlobalBudget{.allow_incomparable = true});
    };
    evict_twice();
    evict_twice();
    const AllocationScope scope;
    evict_twice();
    const std::int64_t allocations = scope.count().allocations;
    REQUIRE(allocations == 0);
  }
}

TEST_CASE("after a few steps of the same shapes H2O's state does not allocate",
          "[cpu][workspace]") {
  const RowsCase<half> before(RowsForm::packed, {60, 30}, 64, 1);
  const RowsCase<half> after(RowsForm::packed, {61, 31}, 64, 1);
  const std::vector<float> query = random_values(Shape::normal, 4 * 64, 2);
  kvevict::Selection kept;
  const std::vector<std::int64_t> counts = {60, 30};
  std::int32_t* row = kept.reshape(counts);
  for (const std::int64_t count : counts) {
    for (std::int32_t i = 1; i <= count; ++i) *row++ = i;
  }
  CpuResources res({.threads = 2});
  kvevict::H2O::State state{kvevict::H2O{}};
  const auto observe = [&](const RowsCase<half>& rows) {
    state.observe(res, kvevict::KvView<const half>(rows.view(), rows.view()),
                  kvevict::QueryWindow<>{kvevict::QueriesView<>::packed(query.data(), 4, 1, 64),
                                         kvevict::QueryPositions<>::consecutive(60)});
  };
  observe(before);
  const auto step = [&] {
    observe(after);
    state.compact(res, kept);
  };
  step();
  step();
  const AllocationScope scope;
  step();
  const std::int64_t allocations = scope.count().allocations;
  REQUIRE(allocations == 0);
}

TEST_CASE("counting says what an op carves", "[cpu][workspace]") {
  AllOps ops;
  for (const NamedOp& op : ops.list()) {
    CpuResources res({.threads = 2});
    CpuResources counting = CpuResources::counting(res);
    op.run(counting);
    op.run(res);
    INFO(op.name);
    REQUIRE(counting.workspace().peak_bytes() == res.workspace().peak_bytes());
    // And a buffer of that size is enough.
    const auto bytes = static_cast<std::size_t>(counting.workspace().peak_bytes());
    std::vector<std::byte> buffer(bytes + 256);
    CpuResources borrowing(
        {.threads = 2, .workspace = buffer.data(), .workspace_bytes = buffer.size()});
    REQUIRE_NOTHROW(op.run(borrowing));
  }
}

TEST_CASE("a counting op writes nothing", "[cpu][workspace]") {
  AllOps ops;
  const std::vector<float> scores = ops.scores;
  const std::vector<float> factors = ops.factors;
  const std::vector<double> grams = ops.grams;
  CpuResources like({.threads = 2});
  CpuResources counting = CpuResources::counting(like);
  for (const NamedOp& op : ops.list()) {
    op.run(counting);
    INFO(op.name);
    REQUIRE(ops.scores == scores);
    REQUIRE(ops.factors == factors);
    REQUIRE(ops.grams == grams);
  }
  REQUIRE(counting.report() == kvevict::Report{});
}
