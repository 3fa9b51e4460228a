// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "attention.hpp"
#include "catch.hpp"
#include "error.hpp"
#include "mini_llama_errors.hpp"
#include "mini_llama_reference.hpp"
#include "mini_llama_tiny_model.hpp"

namespace mini_llama_attention_test {

namespace {

using namespace mini_llama;
using namespace mini_llama_test;

constexpr Index kv_heads = 2;
constexpr Index key_dim = 10;
constexpr Index value_dim = 7;

// Scores of up to about 10 carry an fp32 error of about 10 * 2^-23 into the exponential; values and
// weights are below 1. Measured: 5.5e-7.
constexpr double fp32_tolerance = 4e-6;

Matrix random_matrix(Index rows, Index columns, float scale, std::mt19937& random) {
  Matrix m(rows, columns);
  for (float& x : m.reshaped()) x = scale * TinyModel::uniform(random);
  return m;
}

// Ascending positions below `end`, each kept with a chance in percent.
std::vector<std::int32_t> some_positions(std::int32_t end, unsigned percent, std::mt19937& random) {
  std::vector<std::int32_t> positions;
  for (std::int32_t position = 0; position < end; ++position) {
    if (random() % 100 < percent) positions.push_back(position);
  }
  return positions;
}

RaggedCache random_cache(RowType type, std::int32_t end, std::mt19937& random) {
  RaggedCache cache({1, kv_heads, key_dim, value_dim, type});
  for (Index head = 0; head < kv_heads; ++head) {
    const auto positions = some_positions(end, head == 0 ? 80 : 30, random);
    const Index rows = std::ssize(positions);
    cache.append(0, head, positions, random_matrix(rows, key_dim, 3.0f, random),
                 random_matrix(rows, value_dim, 1.0f, random));
  }
  cache.advance(end);
  return cache;
}

std::vector<CacheRow> rows_of(const RaggedCache& cache, Index head) {
  std::vector<float> key_scratch;
  std::vector<float> value_scratch;
  const Index count = cache.rows(0, head);
  const auto keys = cache.float_keys(0, head, 0, count, key_scratch);
  const auto values = cache.float_values(0, head, 0, count, value_scratch);
  std::vector<CacheRow> rows;
  for (Index i = 0; i < count; ++i) {
    rows.push_back({cache.positions(0, head)[to_size(i)],
                    Row(keys.row(i).begin(), keys.row(i).end()),
                    Row(values.row(i).begin(), values.row(i).end())});
  }
  return rows;
}

Matrix attend_with(int threads, const RaggedCache& cache, Index query_heads, const Matrix& queries,
                   const std::vector<std::int32_t>& positions) {
  ThreadPool pool(threads);
  std::vector<AttentionScratch> scratch(to_size(threads));
  Matrix out;
  attend(pool, scratch, cache, 0, query_heads, {queries, positions}, out);
  return out;
}

// Token counts on both sides of the limits of vector products and of query tiles; row counts on
// both sides of row blocks.
TEST_CASE("mini_llama attention: rows with holes equal the definition in double", "[mini_llama]") {
  const RowType type = GENERATE(RowType::float32, RowType::float16);
  const Index query_heads = GENERATE(2, 6);
  const Index tokens = GENERATE(1, 3, 32, 75);
  const std::int32_t end = GENERATE(20, 700);
  std::mt19937 random(7);
  const RaggedCache cache = random_cache(type, end, random);
  const Matrix queries = random_matrix(tokens, query_heads * key_dim, 3.0f, random);
  std::vector<std::int32_t> positions;
  for (Index t = 0; t < tokens; ++t) {
    positions.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(end + 5)));
  }
  std::sort(positions.begin(), positions.end());

  const Matrix out = attend_with(2, cache, query_heads, queries, positions);
  REQUIRE(out.rows() == tokens);
  REQUIRE(out.cols() == query_heads * value_dim);
  for (Index h = 0; h < query_heads; ++h) {
    const auto rows = rows_of(cache, h * kv_heads / query_heads);
    for (Index t = 0; t < tokens; ++t) {
      const auto query = queries.row(t).segment(h * key_dim, key_dim);
      const Row expected = reference_attention(Row(query.begin(), query.end()),
                                               positions[to_size(t)], rows, value_dim);
      for (Index i = 0; i < value_dim; ++i) {
        REQUIRE(std::abs(out(t, h * value_dim + i) - expected[to_size(i)]) < fp32_tolerance);
      }
    }
  }
  CHECK(attend_with(1, cache, query_heads, queries, positions) == out);
  CHECK(attend_with(3, cache, query_heads, queries, positions) == out);
}

TEST_CASE("mini_llama attention: a query that sees nothing reads zero", "[mini_llama]") {
  RaggedCache cache({1, kv_heads, key_dim, value_dim, RowType::float32});
  std::mt19937 random(8);
  cache.append(0, 0, std::vector<std::int32_t>{5}, random_matrix(1, key_dim, 1.0f, random),
               Matrix::Ones(1, value_dim));
  cache.advance(6);
  const Matrix queries = random_matrix(2, 2 * key_dim, 1.0f, random);
  const Matrix out = attend_with(1, cache, 2, queries, {4, 5});
  CHECK(out.row(0).isZero(0.0f));
  CHECK(out.row(1).head(value_dim) == Matrix::Ones(1, value_dim).row(0));
  CHECK(out.row(1).tail(value_dim).isZero(0.0f));
}

TEST_CASE("mini_llama attention: large scores do not overflow", "[mini_llama]") {
  RaggedCache cache({1, 1, 1, 1, RowType::float32});
  Matrix keys(2, 1);
  keys << 1e4f, -1e4f;
  Matrix values(2, 1);
  values << 2.0f, 3.0f;
  cache.append(0, 0, std::vector<std::int32_t>{0, 1}, keys, values);
  const Matrix queries = Matrix::Constant(1, 1, 1e4f);
  CHECK(attend_with(1, cache, 1, queries, {1})(0, 0) == 2.0f);
}

TEST_CASE("mini_llama attention: arguments that do not fit", "[mini_llama]") {
  std::mt19937 random(9);
  const RaggedCache cache = random_cache(RowType::float32, 20, random);
  const Matrix queries = Matrix::Zero(2, 2 * key_dim);
  const auto fails = [&](Index query_heads, const std::vector<std::int32_t>& positions,
                         std::string_view part) {
    return throws_with<ArgumentError>(
        [&] { attend_with(1, cache, query_heads, queries, positions); }, {part});
  };
  CHECK(fails(3, {0, 1}, "query_heads is 3"));
  CHECK(fails(4, {0, 1}, "expected [2, 40]"));
  CHECK(fails(2, {0}, "expected [1, 20]"));
  CHECK(fails(2, {1, 0}, "do not ascend"));
}

}  // namespace

}  // namespace mini_llama_attention_test
