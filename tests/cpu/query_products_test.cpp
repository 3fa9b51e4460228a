// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/query_products.hpp"

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "ops/op_runs.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace query_products_test {

using namespace kvevict_test;
namespace cpu = kvevict::cpu;

namespace {

// Keys [rows][dim] at a distance of `stride` and queries [queries][dim], all pairs by a double loop
// and by the product; lanes without a query must come out as 0.
void check(std::int64_t rows, std::int64_t queries, std::int64_t dim, std::int64_t stride) {
  const float scale = 0.25f;
  const std::vector<float> keys = random_values(Shape::normal, rows * stride, 1);
  const std::vector<float> query_rows = random_values(Shape::normal, queries * dim, 2);
  const std::int64_t padded = cpu::padded_queries(queries);
  std::vector<float> packed(static_cast<std::size_t>(dim * padded), 0.0f);
  for (std::int64_t q = 0; q < queries; ++q) {
    cpu::pack_query(query_rows.data() + q * dim, dim, scale, q, padded, packed.data());
  }
  std::vector<float> got(static_cast<std::size_t>(rows * padded), -1.0f);
  cpu::multiply_queries(cpu::map_matrix<const float>(keys.data(), rows, dim, stride), packed.data(),
                        padded, got.data());
  std::vector<double> want;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t q = 0; q < padded; ++q) {
      double sum = 0;
      for (std::int64_t c = 0; c < dim && q < queries; ++c) {
        sum += static_cast<double>(keys[static_cast<std::size_t>(i * stride + c)]) *
               static_cast<double>(scale * query_rows[static_cast<std::size_t>(q * dim + c)]);
      }
      want.push_back(sum);
    }
  }
  INFO(rows << " rows, " << queries << " queries, dim " << dim << ", stride " << stride);
  require_close(got, want, tolerance::float32_sum);
}

}  // namespace

TEST_CASE("products with a block of queries agree with double loops", "[cpu][query_products]") {
  for (const std::int64_t rows : {1, 2, 3, 4, 7, 8, 9, 128}) {
    for (const std::int64_t queries : {1, 4, 5, 8, 16, 17, 33, 48, 64}) {
      check(rows, queries, 24, 24);
    }
  }
  for (const std::int64_t dim : {1, 2, 65, 128, 256}) {
    check(13, 20, dim, dim);
    check(13, 20, dim, dim + 3);
  }
}

TEST_CASE("queries are padded to whole registers", "[cpu][query_products]") {
  for (const std::int64_t queries : {1, 15, 16, 17, 64}) {
    const std::int64_t padded = cpu::padded_queries(queries);
    REQUIRE(padded % cpu::lane_count == 0);
    REQUIRE(padded >= queries);
    REQUIRE(padded < queries + cpu::lane_count);
  }
}

TEST_CASE("products with a triangle are those with the whole matrix", "[cpu][query_products]") {
  for (const std::int64_t dim : {1, 3, 16, 17, 65, 100, 128, 200}) {
    const std::int64_t padded = cpu::padded_queries(dim);
    const std::vector<float> keys = random_values(Shape::normal, 9 * dim, 3);
    const auto rows = cpu::map_matrix<const float>(keys.data(), 9, dim);
    for (const cpu::PackedShape shape : {cpu::PackedShape::lower, cpu::PackedShape::upper}) {
      std::vector<float> packed = random_values(Shape::normal, dim * padded, 4);
      for (std::int64_t c = 0; c < dim; ++c) {
        for (std::int64_t j = 0; j < padded; ++j) {
          const bool zero = shape == cpu::PackedShape::lower ? c < j : c > j;
          if (zero) packed[static_cast<std::size_t>(c * padded + j)] = 0.0f;
        }
      }
      std::vector<float> want(static_cast<std::size_t>(9 * padded), -1.0f);
      std::vector<float> got(static_cast<std::size_t>(9 * padded), -2.0f);
      cpu::multiply_packed(rows, packed.data(), padded, cpu::PackedShape::full, want.data());
      cpu::multiply_packed(rows, packed.data(), padded, shape, got.data());
      INFO("dim " << dim);
      REQUIRE(got == want);  // adding zeros changes nothing
    }
  }
}

}  // namespace query_products_test
