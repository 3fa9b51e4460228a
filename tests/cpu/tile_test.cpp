// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/tile.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "ops/rows_case.hpp"

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
namespace cpu = kvevict::cpu;

TEMPLATE_TEST_CASE("tiles cover all rows in order, widened exactly", "[cpu][tile]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        std::vector<float> buffer(static_cast<std::size_t>(cpu::tile_size(rows.dim())));
        for (std::int64_t h = 0; h < rows.heads(); ++h) {
          const reference::Matrix& want = rows.exact()[static_cast<std::size_t>(h)];
          std::int64_t next = 0;
          int wrong = 0;
          cpu::for_each_tile(
              rows.view().head(h), buffer.data(), [&](std::int64_t first, const auto& tile) {
                REQUIRE(first == next);
                REQUIRE(tile.rows() <= cpu::tile_rows);
                next += tile.rows();
                for (Eigen::Index i = 0; i < tile.rows(); ++i) {
                  for (Eigen::Index c = 0; c < tile.cols(); ++c) {
                    const double exact =
                        want(static_cast<std::size_t>(first + i), static_cast<std::size_t>(c));
                    wrong += static_cast<double>(tile(i, c)) == exact ? 0 : 1;
                  }
                }
              });
          INFO(rows.describe() << ", head " << h);
          REQUIRE(next == rows.view().rows(h));
          REQUIRE(wrong == 0);
        }
      },
      {1, 5, 130});
}

TEST_CASE("float rows with adjacent channels are used where they lie", "[cpu][tile]") {
  const RowsCase<float> rows(RowsForm::padded, {200}, 6, 1);
  const auto head = rows.view().head(0);
  // No buffer: a copy would crash.
  const auto tile = cpu::load_tile(head, 128, 72, nullptr);
  REQUIRE(tile.data() == &head(128, 0));
  REQUIRE(tile(71, 5) == head(199, 5));
}

TEST_CASE("norms do not overflow or underflow on the way", "[cpu][tile]") {
  const auto norm = [](std::vector<float> row) {
    return cpu::wide_norm(
        Eigen::Map<const Eigen::RowVectorXf>(row.data(), static_cast<Eigen::Index>(row.size())));
  };
  REQUIRE(norm({3e38f, 4e37f}) ==
          Approx(std::hypot(static_cast<double>(3e38f), static_cast<double>(4e37f))));
  REQUIRE(norm({3e-45f, 4e-45f}) ==
          Approx(std::hypot(static_cast<double>(3e-45f), static_cast<double>(4e-45f))));
  REQUIRE(norm({0, 0}) == 0.0);
  REQUIRE(std::isnan(norm({1, std::nanf("")})));
  REQUIRE(std::isinf(norm({1, -std::numeric_limits<float>::infinity()})));
}
