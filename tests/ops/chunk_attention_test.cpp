// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/chunk_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/chunk_attention.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"

namespace chunk_attention_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::ChunkPadding;
using kvevict::half;
using kvevict::QueriesView;
using kvevict::QueryPositions;
using kvevict::QueryWindow;
using kvevict::RowRange;
using kvevict::RowsView;
using HostPositions = kvevict::Positions<>;

namespace {

struct Chunks {
  std::int64_t chunk = 8;
  ChunkPadding padding = ChunkPadding::none;
  RowRange range = {};
};

// One head: positions of rows are 0, 1, 2, ... and `first_query` is the position of the first
// query.
std::vector<double> expected(const reference::Matrix& keys, const reference::Matrix& queries,
                             std::int64_t first_query, double scale, const Chunks& how) {
  std::vector<double> out(keys.rows, 0.0);
  const auto rows = static_cast<std::int64_t>(keys.rows);
  const std::int64_t begin = how.range.begin(rows);
  const std::int64_t end = how.range.end(rows);
  for (std::int64_t first = begin; first < end; first += how.chunk) {
    const std::int64_t count = std::min(how.chunk, end - first);
    const bool last = first + count == end;
    const auto missing = static_cast<double>(how.chunk - count);
    const bool padded = how.padding == ChunkPadding::zeros;
    for (std::int64_t j = first; padded && j < first + count; ++j) {
      out[static_cast<std::size_t>(j)] = missing / static_cast<double>(how.chunk);
    }
    for (std::size_t i = 0; i < queries.rows; ++i) {
      const std::int64_t position = first_query + static_cast<std::int64_t>(i);
      if (position < first) continue;
      if (last && end < rows && position >= end) continue;
      if (!last && position >= first + count) continue;
      std::vector<double> z;
      for (std::int64_t j = first; j < first + count; ++j) {
        z.push_back(scale * reference::dot(&queries.data[i * keys.cols],
                                           &keys.data[static_cast<std::size_t>(j) * keys.cols],
                                           keys.cols));
      }
      if (padded) z.resize(static_cast<std::size_t>(how.chunk), 0.0);
      const std::vector<double> weights = reference::softmax(z);
      for (std::int64_t j = 0; j < count; ++j) {
        out[static_cast<std::size_t>(first + j)] += weights[static_cast<std::size_t>(j)];
      }
    }
  }
  return out;
}

template <class T>
std::vector<float> attention(const RowsView<const T>& keys, const RowsCase<float>& queries,
                             std::int64_t group, std::int32_t first_query, float scale,
                             const Chunks& how) {
  const std::int64_t count = queries.layout().rows(0);
  const QueryWindow<> window{
      QueriesView<>::packed(queries.view().head(0).data, queries.heads(), count, queries.dim()),
      QueryPositions<>::consecutive(first_query)};
  return scores_of(keys.layout().repeated(group), [&](auto& res, auto scores) {
    chunk_attention(res, keys, HostPositions(), window, how.range, how.chunk, how.padding, scale,
                    scores);
  });
}

}  // namespace

TEMPLATE_TEST_CASE("attention within chunks agrees with a double loop", "[ops][chunk_attention]",
                   float, half, bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        if (rows.heads() == 0) return;
        for (const std::int64_t group : {1, 3}) {
          const std::int64_t count = group == 1 ? 140 : 9;
          const RowsCase<float> queries(
              RowsForm::head_first,
              std::vector<std::int64_t>(static_cast<std::size_t>(rows.heads() * group), count),
              rows.dim(), 7);
          for (const Chunks& how :
               {Chunks{}, Chunks{64}, Chunks{1000}, Chunks{50, ChunkPadding::zeros, {3, 5}}}) {
            const std::int32_t first_query = 5;
            std::vector<double> want;
            for (std::int64_t q = 0; q < queries.heads(); ++q) {
              const std::vector<double> head =
                  expected(rows.exact()[static_cast<std::size_t>(q / group)],
                           queries.exact()[static_cast<std::size_t>(q)], first_query, 0.25, how);
              want.insert(want.end(), head.begin(), head.end());
            }
            INFO(rows.describe() << ", group " << group << ", chunk " << how.chunk);
            // Exponentials of logits up to about 30, whose error 30 * 2^-24 is relative.
            require_close(attention(rows.view(), queries, group, first_query, 0.25f, how), want,
                          {1e-5, 1e-6});
          }
        }
      },
      {1, 17, 64});
}

TEST_CASE("weights of a query sum to one within its chunk", "[ops][chunk_attention]") {
  const RowsCase<float> keys(RowsForm::head_first, {70}, 8, 1);
  const RowsCase<float> queries(RowsForm::head_first, {70}, 8, 2);
  const std::vector<float> got = attention(keys.view(), queries, 1, 0, 1.0f, {16});
  for (std::size_t first = 0; first < 70; first += 16) {
    const std::size_t end = std::min<std::size_t>(first + 16, 70);
    REQUIRE(std::accumulate(got.begin() + static_cast<std::ptrdiff_t>(first),
                            got.begin() + static_cast<std::ptrdiff_t>(end),
                            0.0) == Approx(static_cast<double>(end - first)).epsilon(1e-5));
  }
}

TEST_CASE("queries outside the range belong to no chunk", "[ops][chunk_attention]") {
  const RowsCase<float> keys(RowsForm::head_first, {40}, 8, 1);
  const RowsCase<float> queries(RowsForm::head_first, {4}, 8, 2);
  const std::vector<float> nothing(40, 0.0f);
  const Chunks how{8, ChunkPadding::none, {6, 6}};
  REQUIRE(attention(keys.view(), queries, 1, 2, 1.0f, how) == nothing);
  REQUIRE(attention(keys.view(), queries, 1, 34, 1.0f, how) == nothing);
  // Behind the last row, where none is skipped: the last chunk.
  const std::vector<float> last = attention(keys.view(), queries, 1, 100, 1.0f, {16});
  REQUIRE(std::count(last.begin(), last.begin() + 32, 0.0f) == 32);
  REQUIRE(std::accumulate(last.begin() + 32, last.end(), 0.0) == Approx(4).epsilon(1e-5));
}

TEST_CASE("chunks are found by position in a cache with holes", "[ops][chunk_attention]") {
  const RowsCase<float> keys(RowsForm::head_first, {6}, 4, 3);
  const RowsCase<float> queries(RowsForm::head_first, {3}, 4, 4);
  const std::vector<std::int32_t> positions = {10, 11, 30, 31, 50, 90};
  const std::vector<std::int32_t> query_positions = {29, 30, 89};
  const QueryWindow<> window{QueriesView<>::packed(queries.view().head(0).data, 1, 3, 4),
                             QueryPositions<>::shared(query_positions.data())};
  const std::vector<float> got = scores_of(keys.layout(), [&](auto& res, auto scores) {
    chunk_attention(res, keys.view(), HostPositions::shared(positions.data()), window, {}, 2,
                    ChunkPadding::none, 1.0f, scores);
  });
  for (std::size_t chunk = 0; chunk < 3; ++chunk) {
    REQUIRE(got[2 * chunk] + got[2 * chunk + 1] == Approx(1).epsilon(1e-6));
  }
}

TEST_CASE("NaN in a key is NaN in its chunk alone", "[ops][chunk_attention]") {
  RowsCase<float> keys(RowsForm::head_first, {24}, 4, 3);
  const RowsCase<float> queries(RowsForm::head_first, {24}, 4, 4);
  keys.writable().head(0)(9, 2) = std::nanf("");
  const std::vector<float> got = attention(keys.view(), queries, 1, 0, 1.0f, {8});
  for (std::size_t i = 0; i < 24; ++i) REQUIRE(std::isnan(got[i]) == (i / 8 == 1));
}

TEST_CASE("bad chunks and queries are refused", "[ops][chunk_attention]") {
  TestResources res({.threads = 1});
  const RowsCase<float> keys(RowsForm::head_first, {3, 3}, 4, 1);
  std::vector<float> out(12);
  const std::vector<float> numbers(64);
  const auto problem = [&](std::int64_t chunk, std::int64_t heads, std::int64_t count,
                           const QueryPositions<>& positions, const RowRange& range = {}) {
    const QueryWindow<> window{QueriesView<>::packed(numbers.data(), heads, count, 4), positions};
    return refused([&] {
      chunk_attention(res, keys.view(), HostPositions(), window, range, chunk, ChunkPadding::none,
                      1.0f, kvevict::ScoreView<>{out.data(), keys.layout().repeated(2)});
    });
  };
  const auto positions = QueryPositions<>::consecutive(0);
  REQUIRE(problem(0, 4, 2, positions) == "chunk is 0, must be >= 1");
  REQUIRE(problem(2, 4, 2, positions, {-1, 0}) == "skip_first is -1, must be >= 0");
  REQUIRE(problem(2, 3, 2, positions) ==
          "query_window.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(2, 4, 0, positions) == "query_window.count is 0, must be >= 1");
  REQUIRE(problem(2, 4, 2, {}) ==
          "query_window.positions is missing, must be given to tell the chunk of each query");
}

}  // namespace chunk_attention_test
