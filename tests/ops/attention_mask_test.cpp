// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "ops/attention_case.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"

namespace attention_mask_test {

using namespace kvevict_test;
using kvevict::AttentionStatistic;
using kvevict::ProbeMask;
using kvevict::ProbeQueries;
using kvevict::QueryPositions;
using HostPositions = kvevict::Positions<>;

namespace {

constexpr Tolerance attention_tolerance{3e-5, 1e-12};
constexpr std::int64_t dim = 8;

template <class T>
std::vector<float> run(const RowsCase<T>& rows, const HostPositions& positions,
                       const QueriesCase<float>& queries, const QueryPositions<>& at,
                       AttentionStatistic statistic) {
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  return scores_of(rows.layout().repeated(queries.heads / rows.heads()),
                   [&](auto& res, auto scores) {
                     attention_statistic(res, rows.view(), positions,
                                         ProbeQueries<>{queries.view(), at, ProbeMask::by_position},
                                         scale, statistic, scores);
                   });
}

// From the positions of each head's rows and of each head's queries.
template <class T>
std::vector<double> expected(const RowsCase<T>& rows,
                             const std::vector<reference::Positions>& row_positions,
                             const QueriesCase<float>& queries,
                             const std::vector<reference::Positions>& query_positions,
                             AttentionStatistic statistic) {
  std::vector<double> want;
  const std::size_t group = queries.exact.size() / rows.exact().size();
  for (std::size_t q = 0; q < queries.exact.size(); ++q) {
    const std::size_t h = q / group;
    if (rows.exact()[h].rows == 0) continue;
    const std::vector<double> one =
        statistic_of(reference::causal_attention(queries.exact[q], query_positions[h],
                                                 rows.exact()[h], row_positions[h]),
                     statistic, 1.0);
    want.insert(want.end(), one.begin(), one.end());
  }
  return want;
}

}  // namespace

TEST_CASE("a query sees the rows at its position and below, holes or not", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::packed, {6, 0, 140}, dim, 2);
  const QueriesCase<float> queries(6, 5, dim, 41);
  // Rows before and behind all queries, gaps where rows were evicted.
  std::vector<std::int32_t> stored = {0, 1, 40, 41, 42, 300};
  for (std::int32_t i = 0; i < 140; ++i) stored.push_back(3 * i + (i > 50 ? 100 : 0));
  const std::vector<std::int32_t> at = {1, 30, 41, 99, 250};
  std::vector<reference::Positions> row_positions(3);
  row_positions[0].assign(stored.begin(), stored.begin() + 6);
  row_positions[2].assign(stored.begin() + 6, stored.end());
  const reference::Positions query_positions(at.begin(), at.end());
  for (const AttentionStatistic statistic : all_statistics) {
    INFO("statistic " << static_cast<int>(statistic));
    require_close(run(rows, HostPositions::packed(stored.data()), queries,
                      QueryPositions<>::shared(at.data()), statistic),
                  expected(rows, row_positions, queries,
                           {query_positions, query_positions, query_positions}, statistic),
                  attention_tolerance);
  }
}

TEST_CASE("a query before all rows contributes nothing", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::head_first, {5}, dim, 3);
  const QueriesCase<float> queries(1, 4, dim, 42);
  const auto from_ten = HostPositions::consecutive(10);
  for (const AttentionStatistic statistic : all_statistics) {
    // All of them before the first row: zero, not NaN.
    REQUIRE(run(rows, from_ten, queries, QueryPositions<>::consecutive(0), statistic) ==
            std::vector<float>(5, 0.0f));
    // Queries at 8, 9, 10, 11: two of the four see one and two rows. They count in the mean.
    require_close(run(rows, from_ten, queries, QueryPositions<>::consecutive(8), statistic),
                  expected(rows, {{10, 11, 12, 13, 14}}, queries, {{8, 9, 10, 11}}, statistic),
                  attention_tolerance);
  }
}

TEST_CASE("a mask misaligned with row numbers would show", "[ops][attention]") {
  // The query at 30 sees positions 0, 1, 28 and 29 but not 31.
  const RowsCase<float> rows(RowsForm::head_first, {5}, dim, 4);
  const std::vector<std::int32_t> stored = {0, 1, 28, 29, 31};
  const QueriesCase<float> queries(1, 1, dim, 43);
  const std::vector<float> got = run(rows, HostPositions::shared(stored.data()), queries,
                                     QueryPositions<>::consecutive(30), AttentionStatistic::sum);
  for (std::size_t j = 0; j < 4; ++j) REQUIRE(got[j] > 0.0f);
  REQUIRE(got[4] == 0.0f);
  REQUIRE(got[0] + got[1] + got[2] + got[3] == Approx(1.0).epsilon(1e-6));
}

TEST_CASE("heads of a batch may stand at different places", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::per_head, {30, 12, 9}, dim, 5);
  const QueriesCase<float> queries(6, 3, dim, 44);
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> second;
  std::vector<std::int32_t> third;
  for (std::int32_t i = 0; i < 30; ++i) first.push_back(i);
  for (std::int32_t i = 0; i < 12; ++i) second.push_back(2 * i);
  for (std::int32_t i = 0; i < 9; ++i) third.push_back(1000 + i);
  const std::int32_t* row_table[] = {first.data(), second.data(), third.data()};
  const std::vector<std::int32_t> at_first = {10, 20, 29};
  const std::vector<std::int32_t> at_second = {3, 4, 22};
  const std::vector<std::int32_t> at_third = {999, 1000, 1007};
  const std::int32_t* query_table[] = {at_first.data(), at_second.data(), at_third.data()};
  const auto wide = [](const std::vector<std::int32_t>& positions) {
    return reference::Positions(positions.begin(), positions.end());
  };
  for (const AttentionStatistic statistic : all_statistics) {
    require_close(run(rows, HostPositions::per_head(row_table), queries,
                      QueryPositions<>::per_head(query_table), statistic),
                  expected(rows, {wide(first), wide(second), wide(third)}, queries,
                           {wide(at_first), wide(at_second), wide(at_third)}, statistic),
                  attention_tolerance);
  }
}

TEST_CASE("rows behind every query are neither read nor given weight", "[ops][attention]") {
  RowsCase<float> rows(RowsForm::head_first, {200}, dim, 6);
  const QueriesCase<float> queries(1, 70, dim, 45);
  const auto at = QueryPositions<>::consecutive(0);
  const std::vector<float> before = run(rows, {}, queries, at, AttentionStatistic::mean);
  const auto head = rows.writable().head(0);
  for (std::int64_t i = 70; i < 200; ++i) head(i, 3) = std::nanf("");
  const std::vector<float> after = run(rows, {}, queries, at, AttentionStatistic::mean);
  REQUIRE(same_bits(before, after));
  for (std::size_t j = 70; j < 200; ++j) REQUIRE(after[j] == 0.0f);
}

TEST_CASE("a mask by position needs positions", "[ops][attention]") {
  const RowsCase<float> rows(RowsForm::head_first, {5}, dim, 3);
  const QueriesCase<float> queries(1, 4, dim, 42);
  REQUIRE(refused([&] { run(rows, {}, queries, {}, AttentionStatistic::mean); }) ==
          "queries.positions is missing, must be given for a mask by position");
}

TEST_CASE("a NaN row reaches the queries that see it, in the rows that they see",
          "[ops][attention]") {
  // Row 5 is NaN; the first query of each head sees five rows, the others all but one.
  std::vector<float> keys(10 * dim, 0.5f);
  keys[5 * dim] = std::nanf("");
  const auto rows = kvevict::RowsView<const float>::strided(keys.data(), 1, 10, dim, 0, dim);
  const std::vector<std::int32_t> early = {4};
  const std::vector<std::int32_t> both = {4, 8};
  for (const std::int64_t heads : {1, 3}) {
    for (const AttentionStatistic statistic : all_statistics) {
      const auto statistics = [&](const std::vector<std::int32_t>& at) {
        const QueriesCase<float> queries(heads, static_cast<std::int64_t>(at.size()), dim, 43);
        return scores_of(rows.layout().repeated(heads), [&](auto& res, auto scores) {
          attention_statistic(res, rows, {},
                              ProbeQueries<>{queries.view(), QueryPositions<>::shared(at.data()),
                                             ProbeMask::by_position},
                              1.0f, statistic, scores);
        });
      };
      INFO("statistic " << static_cast<int>(statistic) << ", heads " << heads);
      const std::vector<float> clean = statistics(early);
      const std::vector<float> poisoned = statistics(both);
      for (std::size_t j = 0; j < clean.size(); ++j) {
        REQUIRE(std::isfinite(clean[j]));
        REQUIRE((clean[j] == 0.0f) == (j % 10 > 4));
        REQUIRE(std::isnan(poisoned[j]) == (j % 10 <= 8));
      }
    }
  }
}

}  // namespace attention_mask_test
