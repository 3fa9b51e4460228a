// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/attention_statistic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "ops/attention_case.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

namespace attention_statistic_test {

using namespace kvevict_test;
using kvevict::AttentionStatistic;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::ProbeQueries;

namespace {

// Logits of size 5 with up to 130 roundings each: an error of 1e-5 in the exponent at most, and as
// much again over sums of queries.
constexpr Tolerance attention_tolerance{3e-5, 1e-12};

ProbeQueries<> without_mask(const kvevict::QueriesView<>& queries) {
  return {queries, {}, kvevict::ProbeMask::none};
}

template <class T, class Q>
void check(const RowsCase<T>& rows, const QueriesCase<Q>& queries, AttentionStatistic statistic,
           float decay = 1.0f) {
  const std::int64_t group = rows.heads() == 0 ? 1 : queries.heads / rows.heads();
  std::vector<double> want;
  for (std::size_t q = 0; q < queries.exact.size(); ++q) {
    const reference::Matrix& keys = rows.exact()[q / static_cast<std::size_t>(group)];
    if (keys.rows == 0) continue;
    const std::vector<double> one = statistic_of(reference::attention(queries.exact[q], keys),
                                                 statistic, static_cast<double>(decay));
    want.insert(want.end(), one.begin(), one.end());
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(rows.dim())));
  const std::vector<float> got =
      scores_of(rows.layout().repeated(group), [&](auto& res, auto scores) {
        attention_statistic(res, rows.view(), {}, without_mask(queries.view()), scale, statistic,
                            scores, decay);
      });
  INFO(rows.describe() << ", statistic " << static_cast<int>(statistic) << ", queries "
                       << queries.count);
  require_close(got, want, attention_tolerance);
}

}  // namespace

TEMPLATE_TEST_CASE("attention statistics agree with double loops", "[ops][attention]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        const QueriesCase<float> queries(2 * rows.heads(), 5, rows.dim(), 31);
        for (const AttentionStatistic statistic : all_statistics) check(rows, queries, statistic);
      },
      {1, 17, 64, 130});
}

TEMPLATE_TEST_CASE("queries of each element type", "[ops][attention]", float, half, bfloat16) {
  const RowsCase<half> rows(RowsForm::packed, {40, 131}, 24, 6);
  const QueriesCase<TestType> queries(6, 7, 24, 32);
  for (const AttentionStatistic statistic : all_statistics) check(rows, queries, statistic);
}

TEST_CASE("more queries than are held at once", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::packed, {9, 140}, 8, 7);
  for (const std::int64_t count : {1, 63, 64, 65, 200}) {
    const QueriesCase<float> queries(4, count, 8, 33);
    for (const AttentionStatistic statistic : all_statistics) check(rows, queries, statistic);
  }
}

TEST_CASE("queries of several heads in one block", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::packed, {9, 140}, 8, 7);
  std::uint64_t number = 0;
  for (const std::int64_t count : {1, 2, 3, 4, 7, 8, 12, 16, 20, 32}) {
    for (const std::int64_t group : {1, 3, 7}) {
      if (!case_runs(++number)) continue;
      const QueriesCase<float> queries(2 * group, count, 8, 38);
      for (const AttentionStatistic statistic : all_statistics) check(rows, queries, statistic);
    }
  }
}

TEST_CASE("the largest logit may come in any tile", "[ops][attention]") {
  // Sharp and flat queries; rows whose logits rise, fall, or rise in the middle, over three tiles.
  constexpr std::int64_t n = 300;
  for (const std::int64_t peak : {0, 127, 128, 150, 299}) {
    std::vector<float> keys;
    for (std::int64_t i = 0; i < n; ++i) {
      keys.push_back(static_cast<float>(std::abs(i - peak)) * -0.01f);
    }
    const auto rows = kvevict::RowsView<const float>::strided(keys.data(), 1, n, 1, n, 1);
    const std::vector<float> queries = {1.0f, 80.0f, 1500.0f};
    for (const AttentionStatistic statistic : all_statistics) {
      reference::Matrix p(3, n);
      for (std::size_t i = 0; i < 3; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < n; ++j) {
          p(i, j) = std::exp(static_cast<double>(queries[i]) * static_cast<double>(keys[j]));
          sum += p(i, j);
        }
        for (std::size_t j = 0; j < n; ++j) p(i, j) /= sum;
      }
      const std::vector<float> got = scores_of(rows.layout(), [&](auto& res, auto scores) {
        attention_statistic(res, rows, {},
                            without_mask(kvevict::QueriesView<>::packed(queries.data(), 1, 3, 1)),
                            1.0f, statistic, scores);
      });
      INFO("peak " << peak << ", statistic " << static_cast<int>(statistic));
      // Logits down to -4000 with one rounding: 1e-4 in the exponent where a weight is not 0.
      require_close(got, statistic_of(p, statistic, 1.0), {2e-4, 1e-12});
    }
  }
}

TEST_CASE("a tile of logits of -infinity changes no weight", "[ops][attention]") {
  constexpr std::size_t n = 300;
  constexpr std::size_t hidden = 140;
  const std::vector<float> query = {1.0f};
  // Whatever lies between the tile's reference and the later ones, by more than floats can have.
  for (int bits = 1; bits < 1100; bits += 3) {
    std::vector<float> keys(n, -0.693147f * static_cast<float>(bits));
    std::fill_n(keys.begin(), hidden, -std::numeric_limits<float>::infinity());
    const auto rows = kvevict::RowsView<const float>::strided(keys.data(), 1, n, 1, n, 1);
    const std::vector<float> got = scores_of(rows.layout(), [&](auto& res, auto scores) {
      attention_statistic(res, rows, {},
                          without_mask(kvevict::QueriesView<>::packed(query.data(), 1, 1, 1)), 1.0f,
                          AttentionStatistic::mean, scores);
    });
    INFO("2^-" << bits);
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(got[i] == Approx(i < hidden ? 0.0 : 1.0 / (n - hidden)).epsilon(1e-6).margin(0.0));
    }
  }
}

TEST_CASE("equal rows have equal statistics in any tile", "[ops][attention]") {
  constexpr std::int64_t dim = 8;
  constexpr std::size_t n = 400;
  std::vector<float> keys = random_values(Shape::normal, static_cast<std::int64_t>(n) * dim, 12);
  const std::size_t copies[] = {3, 130, 200, 399};
  for (const std::size_t row : copies) {
    for (std::size_t c = 0; c < dim; ++c) keys[row * dim + c] = keys[c];
  }
  const auto rows = kvevict::RowsView<const float>::strided(keys.data(), 1, n, dim, 0, dim);
  for (const std::int64_t count : {3, 70}) {
    const QueriesCase<float> queries(2, count, dim, 37);
    for (const AttentionStatistic statistic : all_statistics) {
      const std::vector<float> got = scores_of(rows.layout().repeated(2), [&](auto& res,
                                                                              auto scores) {
        attention_statistic(res, rows, {}, without_mask(queries.view()), 1.0f, statistic, scores);
      });
      for (const std::size_t row : copies) {
        REQUIRE(got[row] == got[0]);
        REQUIRE(got[n + row] == got[n]);
      }
    }
  }
}

TEST_CASE("logits of infinity: -infinity has no weight, +infinity leaves NaN", "[ops][attention]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> keys = {1.0f, -infinity, 1.0f, 1.0f};
  const std::vector<float> queries = {1.0f, 2.0f, -1.0f};
  const auto rows = kvevict::RowsView<const float>::strided(keys.data(), 1, 4, 1, 4, 1);
  const auto run = [&](std::int64_t count) {
    return scores_of(rows.layout(), [&](auto& res, auto scores) {
      attention_statistic(res, rows, {},
                          without_mask(kvevict::QueriesView<>::packed(queries.data(), 1, count, 1)),
                          1.0f, AttentionStatistic::mean, scores);
    });
  };
  const std::vector<float> finite = run(2);
  REQUIRE(finite[1] == 0.0f);
  for (const std::size_t j : {0u, 2u, 3u}) REQUIRE(finite[j] == Approx(1.0 / 3.0).epsilon(1e-6));
  for (const float value : run(3)) REQUIRE(std::isnan(value));
}

TEST_CASE("older queries weigh less by the decay", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::head_first, {20, 20}, 8, 8);
  const QueriesCase<float> queries(4, 150, 8, 34);
  for (const float decay : {1.0f, 0.99f, 0.5f, 1e-6f}) {
    check(rows, queries, AttentionStatistic::sum, decay);
  }
}

TEST_CASE("long heads shrink the block of queries and change no bit elsewhere",
          "[ops][attention][large]") {
  // With 30,000 rows fewer queries fit at once. The short head must not notice that it shares a
  // call with the long one.
  constexpr std::int64_t dim = 8;
  const RowsCase<half> both(RowsForm::packed, {300, 30000}, dim, 9);
  const QueriesCase<float> queries(4, 70, dim, 35);
  for (const AttentionStatistic statistic :
       {AttentionStatistic::mean, AttentionStatistic::mean_jacobian_diagonal}) {
    check(both, queries, statistic);
  }
  const auto alone_rows = both.view().head(0);
  const auto alone = kvevict::RowsView<const half>::strided(
      alone_rows.data, 1, 300, dim, 0, alone_rows.row_stride, alone_rows.channel_stride);
  const auto run = [&](const kvevict::RowsView<const half>& rows, std::int64_t heads) {
    return scores_of(rows.layout().repeated(2), [&](auto& res, auto scores) {
      const auto view = kvevict::QueriesView<>::packed(queries.data.data(), 2 * heads, 70, dim);
      attention_statistic(res, rows, {}, without_mask(view), 0.3f, AttentionStatistic::sum, scores);
    });
  };
  const std::vector<float> together = run(both.view(), 2);
  REQUIRE(same_bits({together.begin(), together.begin() + 600}, run(alone, 1)));
}

TEST_CASE("weights that come near one keep p (1 - p)", "[ops][attention]") {
  // One key far ahead of the others for every query: 1 - p down to 1e-12.
  constexpr std::int64_t n = 12;
  for (const float gap : {10.0f, 16.0f, 20.0f, 27.5f}) {
    std::vector<float> keys(n, 0.0f);
    keys[4] = 1.0f;
    const auto rows = kvevict::RowsView<const float>::strided(keys.data(), 1, n, 1, n, 1);
    const std::vector<float> queries = {gap, gap + 1.0f, 0.5f * gap};
    double want = 0;
    double want_other = 0;
    for (const float q : queries) {
      const double others = (n - 1) * std::exp(-static_cast<double>(q));
      want += others / ((1 + others) * (1 + others)) / 3.0;
      const double p = std::exp(-static_cast<double>(q)) / (1 + others);
      want_other += p * (1 - p) / 3.0;
    }
    const std::vector<float> got = scores_of(rows.layout(), [&](auto& res, auto scores) {
      attention_statistic(res, rows, {},
                          without_mask(kvevict::QueriesView<>::packed(queries.data(), 1, 3, 1)),
                          1.0f, AttentionStatistic::mean_jacobian_diagonal, scores);
    });
    INFO("gap " << gap);
    // Exponents of this size are exact here; what remains are sums of three.
    REQUIRE(got[4] == Approx(want).epsilon(1e-6));
    REQUIRE(got[0] == Approx(want_other).epsilon(1e-6));
  }
}

TEST_CASE("a NaN query stays visible in every statistic, in its own head only",
          "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::head_first, {10, 10}, 4, 11);
  for (const std::size_t at : {0u, 2u, 4u}) {
    QueriesCase<float> queries(2, 5, 4, 36);
    queries.data[at * 4] = std::nanf("");
    for (const AttentionStatistic statistic : all_statistics) {
      const std::vector<float> got = scores_of(rows.layout(), [&](auto& res, auto scores) {
        attention_statistic(res, rows.view(), {}, without_mask(queries.view()), 0.5f, statistic,
                            scores);
      });
      INFO("statistic " << static_cast<int>(statistic) << ", query " << at);
      for (std::size_t j = 0; j < 10; ++j) REQUIRE(std::isnan(got[j]));
      for (std::size_t j = 10; j < 20; ++j) REQUIRE(std::isfinite(got[j]));
    }
  }
}

TEST_CASE("attention refuses shapes that do not fit", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::packed, {3, 5}, 4, 1);
  TestResources res({.threads = 1});
  std::vector<float> out(64);
  const auto problem = [&](int heads, int count, int dim, float decay) {
    return refused([&] {
      const auto queries = kvevict::QueriesView<>::packed(out.data(), heads, count, dim);
      attention_statistic(res, rows.view(), {}, without_mask(queries), 1.0f,
                          AttentionStatistic::sum, kvevict::ScoreView<>{out.data(), rows.layout()},
                          decay);
    });
  };
  REQUIRE(problem(2, 2, 4, 0.0f) == "decay is 0, must be in (0, 1]");
  REQUIRE(problem(2, 2, 4, 1.5f) == "decay is 1.5, must be in (0, 1]");
  REQUIRE(problem(2, 2, 4, std::nanf("")) == "decay is nan, must be in (0, 1]");
  REQUIRE(problem(2, 2, 3, 1.0f) ==
          "queries.dim is 3, must be equal to the dimension of the rows, 4");
  REQUIRE(problem(3, 2, 4, 1.0f) ==
          "queries.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(2, 0, 4, 1.0f) == "queries.count is 0, must be >= 1");
  REQUIRE(problem(4, 1, 4, 1.0f) ==
          "out is of another shape, must be one score for each row of each head");
}

}  // namespace attention_statistic_test
