// SPDX-License-Identifier: Apache-2.0
#include "kvevict/greedy_selection.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "kvevict/cpu/greedy_log_det.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "kvevict/cpu/projection_factor.hpp"
#include "kvevict/cpu/query_logits.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/cpu/query_stats.hpp"
#include "kvevict/cpu/row_weighting.hpp"
#include "kvevict/cpu/score_marks.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "kvevict/output_projection.hpp"
#include "kvevict/policies/capkv.hpp"
#include "kvevict/policies/jacap.hpp"
#include "kvevict/query_stats.hpp"
#include "support/random.hpp"

namespace greedy_selection_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::CapKV;
using kvevict::CpuResources;
using kvevict::Jacap;
using kvevict::KvView;
using kvevict::Noise;
using kvevict::Protect;
using kvevict::ScoreView;
using kvevict::Selection;

namespace {

constexpr std::int64_t heads = 2;
constexpr std::int64_t rows = 60;
constexpr std::int64_t dim = 8;
constexpr std::int64_t probes = 9;

// A cache of two heads, two query heads each, and all that Jacap and CapKV may be told.
struct Case {
  std::vector<float> keys = random_values(Shape::normal, heads* rows* dim, 1);
  std::vector<float> values = random_values(Shape::normal, heads* rows* dim, 2);
  std::vector<float> queries = random_values(Shape::normal, 2 * heads * probes * dim, 3);
  std::vector<float> w_o = random_values(Shape::normal, 2 * heads * dim * 20, 4);
  CpuResources res{{.threads = 2}};
  kvevict::QueryStats stats =
      kvevict::window_query_stats(res, view_of_queries(), kvevict::Covariance::full);
  kvevict::ProjectionFactors projection{2 * heads, dim};

  Case() {
    projection.add_layer(res,
                         kvevict::MatrixView<const float>::packed(w_o.data(), 20, 2 * heads * dim));
  }
  kvevict::QueriesView<> view_of_queries() const {
    return kvevict::QueriesView<>::packed(queries.data(), 2 * heads, probes, dim);
  }
  KvView<const float> cache() const {
    return KvView<const float>::hnd(keys.data(), values.data(), heads, rows, dim);
  }
  kvevict::Evidence<> evidence() const {
    return {.query_stats = stats.view(),
            .probes = kvevict::ProbeQueries<>{view_of_queries()},
            .output_projection = projection.view()};
  }
  template <class P>
  std::vector<float> roots(const P& policy) {
    std::vector<float> out(heads * rows);
    policy.pooled_root_weights(res, cache(), evidence(), ScoreView<>{out.data(), cache().layout()});
    return out;
  }
};

std::vector<std::vector<std::int32_t>> rows_of(const Selection& kept) {
  std::vector<std::vector<std::int32_t>> out;
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    out.emplace_back(kept.head(h).begin(), kept.head(h).end());
  }
  return out;
}

// The leverages of the weights that a policy hands out are its scores.
template <class P>
void check_weights(const P& policy) {
  Case given;
  std::vector<float> scores = given.roots(policy);
  const ScoreView<> view{scores.data(), given.cache().layout()};
  capacity_scores(given.res, given.cache().values(), view, {}, policy.noise, view, view);
  std::vector<float> want(heads * rows);
  kvevict::score_rows(given.res, policy, given.cache(), given.evidence(),
                      ScoreView<>{want.data(), given.cache().layout()});
  CHECK(scores == want);
}

}  // namespace

TEST_CASE("weights for greedy picks are those of the policy's scores", "[greedy]") {
  check_weights(Jacap{});
  check_weights(Jacap{.evidence = kvevict::WeightEvidence::mean});
  check_weights(Jacap{.reduction = kvevict::GroupReduction::max});
  check_weights(CapKV{.skip_first = 0, .pooled = true});
}

TEST_CASE("an eviction by greedy picks is greedy_log_det over the policy's weights", "[greedy]") {
  Case given;
  for (const bool projected : {false, true}) {
    Jacap policy;
    if (projected) policy.output_projection = kvevict::ProjectionUse::factor;
    const Protect protect{.sinks = 2, .recent = 5};
    Selection kept;
    std::vector<double> log_dets(heads);
    kvevict::evict_greedily_into(given.res, kept, policy, given.cache(), given.evidence(),
                                 Budget::evict_ratio(0.75), protect, log_dets);
    std::vector<float> roots = given.roots(policy);
    std::vector<float> stacked(heads * dim * dim);
    kvevict::MatrixBatchView<float> transforms;
    if (projected) {
      transforms = kvevict::MatrixBatchView<float>::packed(stacked.data(), heads, dim, dim);
      stack_factors(given.res, given.projection.view().factors, transforms);
    }
    std::vector<std::int32_t> indices(heads * 15);
    std::vector<double> want(heads);
    greedy_log_det(given.res, given.cache().values(),
                   ScoreView<>{roots.data(), given.cache().layout()},
                   kvevict::MatrixBatchView<const float>(transforms), policy.noise, {}, protect,
                   kvevict::RowLayout<>::uniform(heads, 15), indices.data(), want.data());
    for (std::int64_t h = 0; h < heads; ++h) {
      CHECK(std::vector<std::int32_t>(kept.head(h).begin(), kept.head(h).end()) ==
            std::vector<std::int32_t>(indices.begin() + 15 * h, indices.begin() + 15 * (h + 1)));
    }
    CHECK(log_dets == want);
    CHECK(kept.report() == kvevict::Report{});
  }
}

TEST_CASE("greedy picks keep one of two equal rows where leverages keep both", "[greedy]") {
  Case given;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < rows; i += 2) {
      const std::int64_t at = (h * rows + i) * dim;
      std::copy_n(given.keys.begin() + at, dim, given.keys.begin() + at + dim);
      std::copy_n(given.values.begin() + at, dim, given.values.begin() + at + dim);
    }
  }
  const Jacap policy{.noise = Noise::relative(1e-3)};
  const auto pairs = [&](const Selection& kept) {
    std::int64_t both = 0;
    for (const std::vector<std::int32_t>& head : rows_of(kept)) {
      const std::set<std::int32_t> all(head.begin(), head.end());
      for (const std::int32_t row : head) both += row % 2 == 0 && all.count(row + 1) == 1 ? 1 : 0;
    }
    return both;
  };
  Selection kept;
  kvevict::evict_greedily_into(given.res, kept, policy, given.cache(), given.evidence(),
                               Budget::rows(dim));
  CHECK(pairs(kept) == 0);
  kvevict::evict_into(given.res, kept, policy, given.cache(), given.evidence(), Budget::rows(dim));
  CHECK(pairs(kept) == heads * dim / 2);
}

TEST_CASE("greedy picks from weights of the caller's own", "[greedy]") {
  Case given;
  std::vector<float> roots(heads * rows, 1.0f);
  Selection kept;
  kvevict::select_log_det(given.res, kept, ScoreView<>{roots.data(), given.cache().layout()},
                          given.cache(), {}, Noise::absolute(0.1), Budget::rows(rows));
  CHECK(kept.total() == heads * rows);
  for (const std::vector<std::int32_t>& head : rows_of(kept)) {
    for (std::int32_t i = 0; i < rows; ++i) CHECK(head[static_cast<std::size_t>(i)] == i);
  }
  kvevict::select_log_det(given.res, kept, ScoreView<>{roots.data(), given.cache().layout()},
                          given.cache(), {}, Noise::absolute(0.1), Budget::rows(0));
  CHECK(kept.total() == 0);
}

TEST_CASE("evictions by greedy picks refuse what does not fit", "[greedy]") {
  Case given;
  Selection kept;
  kvevict::evict_greedily_into(given.res, kept, Jacap{}, given.cache(), given.evidence(),
                               Budget::rows(3));
  const std::vector<std::vector<std::int32_t>> before = rows_of(kept);
  const auto problem = [&](const Jacap& policy, const kvevict::Evidence<>& evidence,
                           const Protect& protect, std::size_t size, kvevict::ErrorKind kind) {
    return refused(
        [&] {
          std::vector<double> log_dets(size);
          kvevict::evict_greedily_into(given.res, kept, policy, given.cache(), evidence,
                                       Budget::rows(3), protect, log_dets);
        },
        kind);
  };
  using Kind = kvevict::ErrorKind;
  CHECK(problem(Jacap::published(), given.evidence(), {}, 0, Kind::unsupported) ==
        "policy.pooled is false, must be true for one matrix for each KV head");
  CHECK(problem(Jacap{}, {}, {}, 0, Kind::invalid_argument) ==
        "evidence.probes is missing, must be given for Jacap, or evidence.query_stats instead");
  CHECK(problem(Jacap{}, given.evidence(), {}, 1, Kind::invalid_argument) ==
        "log_dets.size is 1, must be one for each head, or none, 2");
  CHECK(problem(Jacap{}, given.evidence(), {.recent = 4}, 2, Kind::budget) ==
        "protected rows of head 0 is 4, must be at most the rows that it keeps, 3");
  CHECK(rows_of(kept) == before);
}

}  // namespace greedy_selection_test
