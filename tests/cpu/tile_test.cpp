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

TEMPLATE_TEST_CASE("every pattern of 16 bits widens as it does alone, wherever it stands",
                   "[cpu][tile]", half, bfloat16) {
  constexpr std::int64_t longest = 41;  // whole registers of 16, of 8, and a rest
  std::vector<TestType> from(longest);
  std::vector<float> to(longest + 1);
  std::uint32_t next = 0;
  int wrong = 0;
  for (std::int64_t count = 0; next < 3 * 65536; count = (count + 1) % (longest + 1)) {
    for (std::int64_t i = 0; i < count; ++i) {
      from[static_cast<std::size_t>(i)] =
          TestType::from_bits(static_cast<std::uint16_t>(next++ & 0xffffu));
    }
    to[static_cast<std::size_t>(count)] = 42.0f;
    cpu::widen(from.data(), count, to.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto alone = static_cast<float>(from[i]);
      const bool equal = std::isnan(alone)
                             ? std::isnan(to[i])
                             : alone == to[i] && std::signbit(alone) == std::signbit(to[i]);
      wrong += equal ? 0 : 1;
    }
    REQUIRE(to[static_cast<std::size_t>(count)] == 42.0f);
  }
  REQUIRE(wrong == 0);
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
