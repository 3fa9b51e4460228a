// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/pooling.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/pooling.hpp"
#include "ops/op_runs.hpp"
#include "reference/attention.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace pooling_test {

using namespace kvevict_test;
using kvevict::Pooling;
using kvevict::PositionBound;
using kvevict::QueryPositions;
using kvevict::RowLayout;
using HostPositions = kvevict::Positions<>;

namespace {

struct Pool {
  std::int64_t kernel = 5;
  Pooling pooling = Pooling::average;
  bool count_padding = true;
};

std::vector<float> pooled(const RowLayout<>& layout, std::int64_t group,
                          const std::vector<float>& values, const Pool& pool,
                          const HostPositions& positions = {}, const PositionBound<>& prefix = {}) {
  return scores_of(
      layout.repeated(group),
      [&](auto& res, auto scores) {
        pool_rows(res, positions, layout, prefix, pool.kernel, pool.pooling, pool.count_padding,
                  scores);
      },
      values);
}

std::vector<float> pooled(const std::vector<float>& values, const Pool& pool) {
  return pooled(RowLayout<>::uniform(1, static_cast<std::int64_t>(values.size())), 1, values, pool);
}

// Pools the first `prefix` values of a block and leaves the others.
void append_expected(std::vector<double>& want, const float* values, std::int64_t rows,
                     std::int64_t prefix, const Pool& pool) {
  if (prefix > 0) {
    const std::vector<double> head(values, values + prefix);
    const std::vector<double> out = reference::pool(
        head, static_cast<std::size_t>(pool.kernel),
        pool.pooling == Pooling::max ? reference::Pooling::max : reference::Pooling::average,
        pool.count_padding);
    want.insert(want.end(), out.begin(), out.end());
  }
  want.insert(want.end(), values + prefix, values + rows);
}

// Sums of up to 65 numbers of either sign and of size 3.
constexpr Tolerance pool_tolerance{65 * 0x1p-24, 65 * 3 * 0x1p-24};

}  // namespace

TEST_CASE("pooling agrees with a double loop", "[ops][pooling]") {
  const std::vector<std::int64_t> offsets = {0, 1, 1, 3, 10, 150};
  const auto layout = RowLayout<>::ragged(offsets.data(), 5);
  for (const std::int64_t group : {1, 2}) {
    const auto blocks = layout.repeated(group);
    const std::vector<float> values = random_values(Shape::normal, blocks.total(), 1);
    for (const std::int64_t kernel : {1, 3, 5, 7, 65}) {
      for (const Pooling pooling : {Pooling::average, Pooling::max}) {
        for (const bool count_padding : {true, false}) {
          const Pool pool{kernel, pooling, count_padding};
          std::vector<double> want;
          for (std::int64_t b = 0; b < blocks.heads(); ++b) {
            append_expected(want, values.data() + blocks.offset(b), blocks.rows(b), blocks.rows(b),
                            pool);
          }
          INFO("kernel " << kernel << ", max " << (pooling == Pooling::max) << ", padding "
                         << count_padding << ", group " << group);
          require_close(pooled(layout, group, values, pool), want, pool_tolerance);
        }
      }
    }
  }
}

TEST_CASE("pooling stops at the bound of each head, named by position", "[ops][pooling]") {
  const std::vector<std::int64_t> offsets = {0, 6, 6, 12, 17};
  const auto layout = RowLayout<>::ragged(offsets.data(), 4);
  const std::vector<std::int32_t> positions = {0,  1,  5,  6,   7,   20,  10,  11, 12,
                                               13, 14, 15, 100, 101, 102, 103, 104};
  // The window of head 0 begins at 6, so two rows with holes before it belong to the prefix, and so
  // on; head 3 lies wholly behind its bound.
  const std::int32_t first[] = {6};
  const std::int32_t second[] = {0};
  const std::int32_t third[] = {15};
  const std::int32_t fourth[] = {100};
  const std::int32_t* table[] = {first, second, third, fourth};
  const auto prefix = PositionBound<>::at_first(QueryPositions<>::per_head(table));
  const std::int64_t prefixes[] = {3, 0, 5, 0};
  for (const std::int64_t group : {1, 3}) {
    const auto blocks = layout.repeated(group);
    const std::vector<float> values = random_values(Shape::normal, blocks.total(), 2);
    const Pool pool{3, Pooling::average, false};
    std::vector<double> want;
    for (std::int64_t b = 0; b < blocks.heads(); ++b) {
      append_expected(want, values.data() + blocks.offset(b), blocks.rows(b), prefixes[b / group],
                      pool);
    }
    require_close(
        pooled(layout, group, values, pool, HostPositions::packed(positions.data()), prefix), want,
        pool_tolerance);
  }
}

TEST_CASE("padding is counted in the divisor, or not", "[ops][pooling]") {
  const std::vector<float> ones(6, 1.0f);
  REQUIRE(pooled(ones, {5, Pooling::average, true}) ==
          std::vector<float>{0.6f, 0.8f, 1, 1, 0.8f, 0.6f});
  REQUIRE(pooled(ones, {5, Pooling::average, false}) == ones);
  // The maximum never sees the padding, also where all values are negative.
  REQUIRE(pooled({-3, -1, -2}, {3, Pooling::max, true}) == std::vector<float>{-1, -1, -1});
}

TEST_CASE("kernel one changes no bit", "[ops][pooling]") {
  const std::vector<float> values = {1e-40f, -0.0f, std::nanf(""), 3e38f};
  REQUIRE(same_bits(pooled(values, {1, Pooling::average, true}), values));
  REQUIRE(same_bits(pooled(values, {1, Pooling::max, true}), values));
}

TEST_CASE("NaN spreads over its neighbourhood and no further", "[ops][pooling]") {
  for (const Pooling pooling : {Pooling::average, Pooling::max}) {
    for (std::size_t at = 0; at < 9; ++at) {
      std::vector<float> values = {4, 8, 1, 7, 3, 9, 2, 6, 5};
      values[at] = std::nanf("");
      const std::vector<float> got = pooled(values, {5, pooling, true});
      for (std::size_t j = 0; j < 9; ++j) {
        const bool near = j + 2 >= at && j <= at + 2;
        INFO("NaN at " << at << ", row " << j);
        REQUIRE(std::isnan(got[j]) == near);
      }
    }
  }
}

TEST_CASE("kernels that have no centre are refused", "[ops][pooling]") {
  TestResources res({.threads = 1});
  std::vector<float> values(12);
  const auto layout = RowLayout<>::uniform(2, 3);
  const auto problem = [&](std::int64_t kernel, const RowLayout<>& scores) {
    return refused([&] {
      pool_rows(res, HostPositions(), layout, {}, kernel, Pooling::max, true,
                kvevict::ScoreView<>{values.data(), scores});
    });
  };
  REQUIRE(problem(0, layout) == "kernel is 0, must be odd and >= 1");
  REQUIRE(problem(4, layout) == "kernel is 4, must be odd and >= 1");
  REQUIRE(problem(-3, layout) == "kernel is -3, must be odd and >= 1");
  REQUIRE(problem(3, RowLayout<>::uniform(3, 3)) ==
          "scores.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(3, RowLayout<>::uniform(4, 2)) ==
          "scores is of another shape, must be one score for each row of each head");
}

}  // namespace pooling_test
