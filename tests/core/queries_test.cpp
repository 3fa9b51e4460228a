// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/queries.hpp"

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/far_memory.hpp"

using kvevict::bfloat16;
using kvevict::ElementType;
using kvevict::half;
using kvevict::QueriesView;
using kvevict_test::refused;

TEMPLATE_TEST_CASE("queries of each element type are found", "[core][queries]", float, half,
                   bfloat16) {
  std::vector<TestType> data(400);
  const auto packed = QueriesView<>::packed(data.data(), 3, 5, 4);
  REQUIRE(packed.type() == kvevict::element_type_of<TestType>);
  REQUIRE(packed.heads() == 3);
  REQUIRE(packed.count() == 5);
  REQUIRE(packed.dim() == 4);
  REQUIRE(packed.row(2, 3) == data.data() + (2 * 5 + 3) * 4);

  const auto strided = QueriesView<>::strided(data.data(), 3, 5, 4, 7, 30);
  REQUIRE(strided.row(2, 3) == data.data() + 2 * 7 + 3 * 30);

  const TestType* table[] = {data.data() + 100, data.data()};
  const auto per_head = QueriesView<>::per_head(table, 2, 5, 4, 6);
  REQUIRE(per_head.row(0, 2) == data.data() + 100 + 12);
  REQUIRE(per_head.row(1, 0) == data.data());

  data[(2 * 5 + 3) * 4 + 1] = TestType(-2.5f);
  REQUIRE(packed.at(2, 3, 1) == -2.5f);
  REQUIRE(packed.last(2).at(2, 0, 1) == -2.5f);
}

TEST_CASE("the last queries are a view of the same memory", "[core][queries]") {
  const std::vector<float> data(100);
  const float* table[] = {data.data(), data.data() + 50};
  for (const auto& all : {QueriesView<>::packed(data.data(), 2, 10, 5),
                          QueriesView<>::per_head(table, 2, 10, 5, 5)}) {
    const auto last = all.last(3);
    REQUIRE(last.count() == 3);
    REQUIRE(last.row(1, 0) == all.row(1, 7));
    REQUIRE(last.row(1, 2) == all.row(1, 9));
    REQUIRE(last.last(1).row(0, 0) == all.row(0, 9));
    REQUIRE(all.last(10).row(0, 0) == all.row(0, 0));
    REQUIRE(all.last(0).count() == 0);
  }
}

TEST_CASE("query offsets are 64-bit", "[core][queries]") {
  constexpr std::int64_t head_stride = (std::int64_t{1} << 33) + 8;
  constexpr std::int64_t row_stride = (std::int64_t{1} << 31) + 8;
  kvevict_test::FarMemory<half> far(4 * head_stride);
  const auto queries = QueriesView<>::strided(far.data(), 4, 3, 8, head_stride, row_stride);
  REQUIRE(far.offset(queries.row(3, 2)) == 3 * head_stride + 2 * row_stride);
  REQUIRE(queries.last(1).row(3, 0) == queries.row(3, 2));
}

TEST_CASE("bad query views are refused with their bounds", "[core][queries]") {
  const float one = 0;
  REQUIRE(refused([&] { QueriesView<>::packed(&one, -1, 1, 1); }) ==
          "queries.heads is -1, must be >= 0");
  REQUIRE(refused([&] { QueriesView<>::packed(&one, 1, -1, 1); }) ==
          "queries.count is -1, must be >= 0");
  REQUIRE(refused([&] { QueriesView<>::packed(&one, 1, 1, 0); }) ==
          "queries.dim is 0, must be >= 1");
  REQUIRE(refused([&] { QueriesView<>::strided(&one, 1, 1, 1, 1, 0); }) ==
          "queries.row_stride is 0, must be >= 1");
  REQUIRE(refused([&] { QueriesView<>::packed<float>(nullptr, 1, 1, 1); }) ==
          "queries is null, must be a pointer to the queries");
  REQUIRE(refused([&] { QueriesView<>::per_head<float>(nullptr, 1, 1, 1, 1); }) ==
          "queries is null, must be one pointer for each query head");
  REQUIRE(QueriesView<>::packed<float>(nullptr, 0, 3, 4).heads() == 0);
}
