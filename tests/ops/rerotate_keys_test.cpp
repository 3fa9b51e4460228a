// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/rerotate_keys.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/rerotate_keys.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/rope.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::Rope;
using kvevict::RopePairing;
using kvevict::RowsView;
using HostPositions = kvevict::Positions<>;

namespace {

// One rounding of a result in double to the element type; what is lost where the two products
// cancel is relative to the larger channel of the pair, hence the absolute part for numbers of
// about 4.
template <class T>
Tolerance stored() {
  if (std::is_same_v<T, float>) return {1.2e-7, 1e-12};
  return std::is_same_v<T, half> ? tolerance::float16_stored : Tolerance{4e-3, 1e-38};
}

reference::Rope reference_rope(const Rope& rope, std::int64_t dim) {
  reference::Rope out;
  for (std::int64_t pair = 0; pair < rope.rotated(dim) / 2; ++pair) {
    out.frequencies.push_back(rope.frequency(pair, dim));
  }
  out.pairing =
      rope.pairing == RopePairing::half ? reference::Pairing::half : reference::Pairing::adjacent;
  return out;
}

// Ascending positions with holes, those of a long text among them.
std::vector<std::int32_t> positions_with_holes(std::int64_t count, std::int32_t first) {
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < count; ++i) {
    positions.push_back(first + static_cast<std::int32_t>(3 * i + i * i % 3));
  }
  return positions;
}

}  // namespace

TEMPLATE_TEST_CASE("keys turn by the distance of their positions", "[ops][rerotate]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>(
      [](const RowsCase<TestType>& rows) {
        const std::int64_t dim = rows.dim();
        const std::vector<std::int32_t> stored_positions =
            positions_with_holes(rows.layout().longest(), 100'000);
        const auto from = HostPositions::shared(stored_positions.data());
        const auto to = HostPositions::consecutive(7);
        const std::vector<double> table = {1.0, 0.125, 0.01};
        std::vector<Rope> ropes = {
            {.theta = 1e4, .rotary_dim = dim / 2 * 2},
            // The factor is in the keys already.
            {.pairing = RopePairing::adjacent, .rotary_dim = dim / 4 * 2, .attention_factor = 3.0},
        };
        if (dim >= 6) ropes.push_back({.rotary_dim = 6, .frequencies = table});
        for (const Rope& rope : ropes) {
          const reference::Rope exact = reference_rope(rope, dim);
          std::vector<double> want;
          for (const reference::Matrix& head : rows.exact()) {
            reference::Positions distances;
            for (std::size_t i = 0; i < head.rows; ++i) {
              distances.push_back(7 + static_cast<std::int64_t>(i) - stored_positions[i]);
            }
            const reference::Matrix turned = reference::rotated(head, distances, exact);
            want.insert(want.end(), turned.data.begin(), turned.data.end());
          }
          std::vector<TestType> first;
          for (const int threads : thread_counts) {
            RowsCase<TestType> now = rows.copy();
            TestResources res({.threads = threads});
            rerotate_keys(res, now.writable(), from, to, rope);
            INFO(rows.describe() << ", rotated " << rope.rotated(dim) << ", threads " << threads);
            const Comparison comparison = compare(numbers_of(now.view()), want, stored<TestType>());
            INFO(comparison.describe());
            REQUIRE(comparison.within());
            // Channels that do not turn, and memory that holds no row, keep their bits: with the
            // others put back everything is as it was.
            RowsCase<TestType> restored = now.copy();
            for (std::int64_t h = 0; h < rows.heads(); ++h) {
              for (std::int64_t i = 0; i < rows.layout().rows(h); ++i) {
                for (std::int64_t c = 0; c < rope.rotated(dim); ++c) {
                  restored.writable().head(h)(i, c) = rows.view().head(h)(i, c);
                }
              }
            }
            REQUIRE(std::memcmp(restored.memory().data(), rows.memory().data(),
                                rows.memory().size() * sizeof(TestType)) == 0);
            if (threads == 1) first = now.memory();
            REQUIRE(std::memcmp(now.memory().data(), first.data(),
                                first.size() * sizeof(TestType)) == 0);
          }
        }
      },
      {1, 3, 8, 64});
}

TEMPLATE_TEST_CASE("the largest keys saturate, infinite ones stay infinite", "[ops][rerotate]",
                   float, half, bfloat16) {
  // A pair of two largest numbers turned by 45 degrees would be longer in one channel by the root
  // of two, and nothing in the other.
  const auto largest = static_cast<TestType>(static_cast<float>(kvevict::largest_finite<TestType>));
  const std::vector<double> frequencies = {0.78539816339744831};
  const Rope rope{.frequencies = frequencies};
  std::vector<TestType> keys = {largest, largest, TestType(1.0f),
                                TestType(std::numeric_limits<float>::infinity())};
  TestResources res({.threads = 1});
  rerotate_keys(res, RowsView<TestType>::strided(keys.data(), 1, 2, 2, 4, 2),
                HostPositions::consecutive(10), HostPositions::consecutive(11), rope);
  REQUIRE(static_cast<double>(static_cast<float>(keys[1])) == kvevict::largest_finite<TestType>);
  REQUIRE(std::abs(static_cast<float>(keys[0])) <= 1e-7 * kvevict::largest_finite<TestType>);
  REQUIRE(static_cast<float>(keys[2]) == -std::numeric_limits<float>::infinity());
  REQUIRE(static_cast<float>(keys[3]) == std::numeric_limits<float>::infinity());
}

TEST_CASE("a key that stays keeps its bits", "[ops][rerotate]") {
  const RowsCase<half> rows(RowsForm::padded, {40, 40}, 16, 3);
  RowsCase<half> now = rows.copy();
  TestResources res({.threads = 1});
  rerotate_keys(res, now.writable(), HostPositions::consecutive(9), HostPositions::consecutive(9),
                {});
  REQUIRE(std::memcmp(now.memory().data(), rows.memory().data(),
                      rows.memory().size() * sizeof(half)) == 0);
}

TEMPLATE_TEST_CASE("pruning and turning commute", "[ops][rerotate]", float, half, bfloat16) {
  constexpr std::int64_t dim = 32;
  const Rope rope{.theta = 1e5};
  const RowsCase<TestType> rows(RowsForm::packed, {90, 41}, dim, 8);
  std::vector<std::vector<std::int32_t>> kept_rows(2);
  for (std::int32_t i = 0; i < 90; i += 1 + i % 4) {
    for (std::size_t h = 0; h < 2; ++h) {
      if (i < rows.view().rows(static_cast<std::int64_t>(h))) kept_rows[h].push_back(i);
    }
  }
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> indices;
  for (const auto& head : kept_rows) {
    counts.push_back(static_cast<std::int64_t>(head.size()));
    indices.insert(indices.end(), head.begin(), head.end());
  }
  kvevict::Selection kept;
  std::copy(indices.begin(), indices.end(), kept.reshape(counts));
  // Where a row turns to: the j-th kept one to 50 + j, the others to anywhere.
  std::vector<std::int32_t> targets(131, 3);
  for (std::int64_t h = 0; h < 2; ++h) {
    std::int32_t next = 50;
    for (const std::int32_t i : kept_rows[static_cast<std::size_t>(h)]) {
      targets[static_cast<std::size_t>(rows.layout().offset(h) + i)] = next++;
    }
  }
  const auto from = HostPositions::consecutive(1000);
  TestResources res({.threads = 2});
  RowsCase<TestType> turned_first = rows.copy();
  rerotate_keys(res, turned_first.writable(), from, HostPositions::packed(targets.data()), rope);
  compact_rows(res, kept.view(), turned_first.writable());

  RowsCase<TestType> pruned_first = rows.copy();
  compact_rows(res, kept.view(), pruned_first.writable());
  std::vector<std::int32_t> old_positions;
  for (const std::int32_t i : indices) old_positions.push_back(1000 + i);
  // The kept rows lie at the fronts of the heads, whose places did not change.
  TestType* table[] = {pruned_first.writable().head(0).data, pruned_first.writable().head(1).data};
  const auto front = RowsView<TestType>::per_head(table, kept.layout(), dim, dim + 1);
  rerotate_keys(res, front, HostPositions::packed(old_positions.data()),
                HostPositions::consecutive(50), rope);
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      REQUIRE(std::memcmp(front.head(h).row(j), turned_first.view().head(h).row(j),
                          dim * sizeof(TestType)) == 0);
    }
  }
}

TEMPLATE_TEST_CASE("one turn is exact, a hundred small ones drift", "[ops][rerotate]", float,
                   half) {
  constexpr std::int64_t dim = 64;
  const Rope rope{.theta = 1e5};
  const RowsCase<TestType> rows(RowsForm::head_first, {30, 30}, dim, 2);
  TestResources res({.threads = 1});
  RowsCase<TestType> once = rows.copy();
  rerotate_keys(res, once.writable(), HostPositions::consecutive(100),
                HostPositions::consecutive(0), rope);
  RowsCase<TestType> stepwise = rows.copy();
  for (std::int32_t position = 100; position > 0; --position) {
    rerotate_keys(res, stepwise.writable(), HostPositions::consecutive(position),
                  HostPositions::consecutive(position - 1), rope);
  }
  std::vector<double> want;
  for (const reference::Matrix& head : rows.exact()) {
    const reference::Matrix turned =
        reference::rotated(head, reference::Positions(head.rows, -100), reference_rope(rope, dim));
    want.insert(want.end(), turned.data.begin(), turned.data.end());
  }
  const auto worst = [&](const RowsCase<TestType>& got) {
    const std::vector<double> numbers = numbers_of(got.view());
    double error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error = std::max(error, std::abs(numbers[i] - want[i]));
    }
    return error;
  };
  // Numbers below 8: half a unit in their last place, once and a hundred times; half is rounded by
  // way of float.
  const double unit = std::is_same_v<TestType, float> ? 4 * 0x1p-24 : 4 * (0x1p-11 + 0x1p-24);
  REQUIRE(worst(once) <= unit);
  REQUIRE(worst(stepwise) <= 100 * unit);
  REQUIRE(worst(stepwise) > 3 * worst(once));
}

TEST_CASE("a rotation that does not fit is refused and keys stay", "[ops][rerotate]") {
  const RowsCase<float> rows(RowsForm::head_first, {4}, 8, 2);
  RowsCase<float> now = rows.copy();
  TestResources res({.threads = 1});
  const auto problem = [&](const Rope& rope) {
    return refused([&] {
      rerotate_keys(res, now.writable(), HostPositions::consecutive(5),
                    HostPositions::consecutive(), rope);
    });
  };
  REQUIRE(problem({.rotary_dim = 10}) ==
          "rope.rotary_dim is 10, must be -1 or in [0, dim], dim = 8");
  REQUIRE(problem({.rotary_dim = 3}) == "rope.rotary_dim is 3, must be even");
  REQUIRE(problem({.theta = -1}) == "rope.theta is -1, must be finite and > 0");
  REQUIRE(same_bits(now.memory(), rows.memory()));
  // Nothing turns.
  rerotate_keys(res, now.writable(), HostPositions::consecutive(5), HostPositions::consecutive(),
                {.rotary_dim = 0});
  REQUIRE(same_bits(now.memory(), rows.memory()));
}
