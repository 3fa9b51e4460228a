// SPDX-License-Identifier: Apache-2.0
// Caches whose elements lie beyond 2^31 and 2^33 elements from the base: memory of tens of
// gigabytes of which only a few pages exist. An offset that is computed in 32 bits reads or writes
// elsewhere.
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/far_memory.hpp"
#include "core/selections.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "kvevict/cpu/merge_rows.hpp"
#include "kvevict/cpu/query_logits.hpp"
#include "kvevict/cpu/rerotate_keys.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/row_weighting.hpp"
#include "kvevict/cpu/running_mass.hpp"
#include "kvevict/ops/key_direction.hpp"
#include "kvevict/ops/row_norms.hpp"
#include "kvevict/policies/h2o.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"

namespace far_rows_test {

using namespace kvevict_test;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;
using kvevict::RowLayout;
using kvevict::RowsView;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t rows = 4;
constexpr std::int64_t dim = 5;

// The same numbers twice: near each other, and far apart in one of four ways.
struct FarCase {
  FarMemory<half> memory;
  RowsView<half> far;
  RowsCase<half> near;

  explicit FarCase(int form)
      : memory(std::int64_t{1} << 35),
        far(view_of(form)),
        near(RowsForm::head_first, {rows, rows, rows}, dim, 8) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t c = 0; c < dim; ++c) far.head(h)(i, c) = near.view().head(h)(i, c);
      }
    }
  }

  RowsView<half> view_of(int form) {
    constexpr std::int64_t head_stride = (std::int64_t{1} << 33) + 512;
    constexpr std::int64_t row_stride = (std::int64_t{1} << 31) + 64;
    constexpr std::int64_t channel_stride = (std::int64_t{1} << 29) + 32;
    if (form == 0) {
      return RowsView<half>::strided(memory.data(), heads, rows, dim, head_stride, row_stride);
    }
    if (form == 1) {
      return RowsView<half>::strided(memory.data(), heads, rows, dim, head_stride, 16,
                                     channel_stride);
    }
    if (form == 2) {
      static constexpr std::int32_t ids[] = {3, 0};
      return RowsView<half>::paged(memory.data(), {3, heads, head_stride, 512, row_stride, 1},
                                   {ids, 1, 2, heads, 4}, RowLayout<>::uniform(heads, rows), dim);
    }
    return RowsView<half>::packed(memory.data(), RowLayout<>::uniform(heads, rows), dim,
                                  row_stride + 128);
  }
};

template <class Op>
void check(Op&& op, std::int64_t group = 1) {
  for (int form = 0; form < 4; ++form) {
    FarCase c(form);
    INFO("form " << form);
    const auto layout = RowLayout<>::uniform(heads, rows).repeated(group);
    const std::vector<float> near =
        scores_of(layout, [&](auto& res, auto scores) { op(res, c.near.view(), scores); });
    const std::vector<float> far = scores_of(
        layout, [&](auto& res, auto scores) { op(res, RowsView<const half>(c.far), scores); });
    REQUIRE(same_bits(far, near));
  }
}

}  // namespace

TEST_CASE("ops read rows beyond 2^33 elements", "[ops][far]") {
  const std::vector<float> numbers = random_values(Shape::normal, 6 * dim * dim, 3);
  const auto vectors = MatrixView<const float>::packed(numbers.data(), 2 * heads, dim);
  const auto matrices = MatrixBatchView<const float>::packed(numbers.data(), 2 * heads, dim, dim);
  check([](auto& res, const auto& view, auto scores) { row_norms(res, view, 1.0f, scores); });
  check([](auto& res, const auto& view, auto scores) {
    std::vector<float> anchors(heads * dim);
    const auto anchor = MatrixView<float>::packed(anchors.data(), heads, dim);
    mean_direction(res, view, anchor);
    cosine(res, view, MatrixView<const float>(anchor), -1.0f, scores);
  });
  check([&](auto& res, const auto& view,
            auto scores) { query_logits(res, view, vectors, 1.0f, scores); },
        2);
  check(
      [&](auto& res, const auto& view, auto scores) {
        kvevict::QueryStatsView<> stats;
        stats.covariance = matrices;
        quadratic_form(res, view, stats, kvevict::Covariance::full, 1.0f, false, scores);
      },
      2);
  check([&](auto& res, const auto& view, auto scores) {
    const kvevict::ProbeQueries<> probes{
        kvevict::QueriesView<>::packed(numbers.data(), heads, 2, dim),
        {},
        kvevict::ProbeMask::none};
    attention_statistic(res, view, {}, probes, 0.4f, kvevict::AttentionStatistic::sum, scores);
  });
  check([&](auto& res, const auto& view, auto scores) {
    for (std::int64_t i = 0; i < scores.layout.total(); ++i) scores.data[i] = 1.0f;
    capacity_scores(res, view, scores, MatrixBatchView<const float>{},
                    kvevict::Noise::relative(0.1), scores, scores);
  });
  check([&](auto& res, const auto& view, auto scores) {
    for (std::int64_t i = 0; i < scores.layout.total(); ++i) scores.data[i] = 1.0f;
    weight_by_norm(res, view, MatrixBatchView<const float>{}, kvevict::Epsilon{},
                   kvevict::ReductionDomain::linear, scores);
  });
}

TEST_CASE("queries beyond 2^33 elements", "[ops][far]") {
  constexpr std::int64_t head_stride = (std::int64_t{1} << 33) + 512;
  constexpr std::int64_t row_stride = (std::int64_t{1} << 31) + 64;
  FarMemory<half> memory(std::int64_t{1} << 35);
  std::vector<half> near;
  for (const float x : random_values(Shape::normal, heads * 3 * dim, 5)) near.push_back(half(x));
  for (std::int64_t q = 0; q < heads; ++q) {
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t c = 0; c < dim; ++c) {
        memory.data()[q * head_stride + i * row_stride + c] =
            near[static_cast<std::size_t>((q * 3 + i) * dim + c)];
      }
    }
  }
  const RowsCase<half> keys(RowsForm::head_first, {rows, rows, rows}, dim, 8);
  const auto run = [&](const kvevict::QueriesView<>& queries) {
    return scores_of(keys.layout(), [&](auto& res, auto scores) {
      attention_statistic(res, keys.view(), {},
                          kvevict::ProbeQueries<>{queries, {}, kvevict::ProbeMask::none}, 0.4f,
                          kvevict::AttentionStatistic::sum, scores);
    });
  };
  REQUIRE(same_bits(
      run(kvevict::QueriesView<>::strided(memory.data(), heads, 3, dim, head_stride, row_stride)),
      run(kvevict::QueriesView<>::packed(near.data(), heads, 3, dim))));
}

TEST_CASE("compaction beyond 2^33 elements", "[ops][far]") {
  for (int form = 0; form < 4; ++form) {
    FarCase c(form);
    kvevict::Selection kept;
    const std::vector<std::int64_t> counts = {2, 1, 3};
    std::int32_t* out = kept.reshape(counts);
    for (const std::int32_t i : {1, 3, 3, 0, 2, 3}) *out++ = i;
    kvevict::CpuResources res({.threads = 2});
    RowsCase<half> target(RowsForm::packed, counts, dim, 9);
    gather_rows(res, kept.view(), RowsView<const half>(c.far), target.writable());
    compact_rows(res, kept.view(), c.far);
    INFO("form " << form);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t j = 0; j < rows; ++j) {
        const std::int64_t source =
            j < kept.count(h) ? kept.head(h)[static_cast<std::size_t>(j)] : j;
        for (std::int64_t d = 0; d < dim; ++d) {
          REQUIRE(c.far.head(h)(j, d).bits == c.near.view().head(h)(source, d).bits);
          if (j < kept.count(h)) {
            REQUIRE(target.view().head(h)(j, d).bits == c.near.view().head(h)(source, d).bits);
          }
        }
      }
    }
  }
}

namespace {

// What `write` makes of rows that lie far apart is what it makes of them together.
template <class Write>
void check_written(Write&& write) {
  for (int form = 0; form < 4; ++form) {
    FarCase c(form);
    const RowsCase<half> before = c.near.copy();
    write(c.near.writable());
    write(c.far);
    INFO("form " << form);
    int changed = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t d = 0; d < dim; ++d) {
          const half near = c.near.view().head(h)(i, d);
          REQUIRE(c.far.head(h)(i, d).bits == near.bits);
          changed += near.bits == before.view().head(h)(i, d).bits ? 0 : 1;
        }
      }
    }
    CHECK(changed > 0);
  }
}

}  // namespace

TEST_CASE("keys beyond 2^33 elements are turned", "[ops][far]") {
  const kvevict::Rope rope{.theta = 50.0, .rotary_dim = 4};
  const std::vector<std::int32_t> from = {5, 9, 40, 41, 0, 1, 2, 70, 3, 8, 9, 1000};
  check_written([&](const RowsView<half>& keys) {
    kvevict::CpuResources res({.threads = 2});
    rerotate_keys(res, keys, kvevict::Positions<>::packed(from.data()),
                  kvevict::Positions<>::consecutive(), rope);
  });
}

TEST_CASE("values beyond 2^33 elements are merged", "[ops][far]") {
  const kvevict::Selection kept = selection_of({{0, 2}, {1, 3}, {2, 3}});
  const RowsCase<half> keys(RowsForm::head_first, {rows, rows, rows}, dim, 9);
  check_written([&](const RowsView<half>& values) {
    kvevict::CpuResources res({.threads = 2});
    merge_rows(res, kept.view(), keys.view(), values, {});
  });
  // Evicted rows are attended to more than the others together, so that each is merged.
  std::vector<float> attention(heads * rows, 1.0f);
  for (const std::size_t evicted : {1, 4, 6, 8, 9}) attention[evicted] = 9.0f;
  check_written([&](const RowsView<half>& values) {
    kvevict::CpuResources res({.threads = 2});
    merge_following_rows(res, kept.view(), kvevict::Positions<>::consecutive(),
                         kvevict::ScoreView<>{attention.data(), RowLayout<>::uniform(heads, rows)},
                         values, {});
  });
  // Keys that lie far apart decide as those together.
  FarCase c(1);
  RowsCase<half> values(RowsForm::head_first, {rows, rows, rows}, dim, 10);
  RowsCase<half> want = values.copy();
  kvevict::CpuResources res({.threads = 2});
  merge_rows(res, kept.view(), RowsView<const half>(c.far), values.writable(), {});
  merge_rows(res, kept.view(), c.near.view(), want.writable(), {});
  for (std::size_t i = 0; i < want.memory().size(); ++i) {
    REQUIRE(values.memory()[i].bits == want.memory()[i].bits);
  }
}

TEST_CASE("attention mass from keys beyond 2^33 elements", "[ops][far]") {
  const std::vector<float> queries = random_values(Shape::normal, heads * 3 * dim, 11);
  const kvevict::QueryWindow<> window{kvevict::QueriesView<>::packed(queries.data(), heads, 3, dim),
                                      kvevict::QueryPositions<>::consecutive(1)};
  for (int form = 0; form < 4; ++form) {
    FarCase c(form);
    const auto mass_of = [&](const RowsView<const half>& keys) {
      kvevict::CpuResources res({.threads = 2});
      kvevict::H2O::State state(kvevict::H2O{});
      state.observe(res, kvevict::KvView<const half>(keys, keys), window);
      const float* mass = state.mass().data;
      return std::vector<float>(mass, mass + heads * rows);
    };
    CHECK(same_bits(mass_of(RowsView<const half>(c.far)), mass_of(c.near.view())));
  }
}

}  // namespace far_rows_test
