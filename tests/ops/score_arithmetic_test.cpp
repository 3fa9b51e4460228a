// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/score_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/score_arithmetic.hpp"
#include "ops/op_runs.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

using namespace kvevict_test;
using kvevict::ReductionDomain;
using kvevict::RowLayout;
using kvevict::ScoreView;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> shares(const RowLayout<>& layout, const std::vector<float>& values,
                          std::int64_t window, ReductionDomain domain) {
  return scores_of(
      layout, [&](auto& res, auto scores) { window_shares(res, scores, window, domain); }, values);
}

std::vector<float> shares(const std::vector<float>& values, std::int64_t window,
                          ReductionDomain domain = ReductionDomain::linear) {
  return shares(RowLayout<>::uniform(1, static_cast<std::int64_t>(values.size())), values, window,
                domain);
}

}  // namespace

TEST_CASE("shares agree with a double loop", "[ops][score_arithmetic]") {
  const std::vector<std::int64_t> offsets = {0, 1, 1, 40, 1400};
  const auto layout = RowLayout<>::ragged(offsets.data(), 4);
  for (const ReductionDomain domain : {ReductionDomain::linear, ReductionDomain::square_root}) {
    std::vector<float> values = random_values(Shape::normal, layout.total(), 3);
    for (float& value : values) value = std::abs(value);
    for (const std::int64_t window : {0, 1, 7, 16, 256, 257, 1000, 5000}) {
      std::vector<double> want;
      for (std::int64_t h = 0; h < layout.heads(); ++h) {
        const float* head = values.data() + layout.offset(h);
        const std::int64_t rows = layout.rows(h);
        const auto amount = [&](std::int64_t i) {
          const auto x = static_cast<double>(head[i]);
          return domain == ReductionDomain::linear ? x : x * x;
        };
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t begin = window == 0 ? 0 : i / window * window;
          const std::int64_t end = window == 0 ? rows : std::min(begin + window, rows);
          double sum = 0.0;
          for (std::int64_t j = begin; j < end; ++j) sum += amount(j);
          want.push_back(amount(i) / sum);
        }
      }
      INFO("window " << window << ", domain " << static_cast<int>(domain));
      require_close(shares(layout, values, window, domain), want, {0x1p-23, 0});
    }
  }
}

TEST_CASE("a window that sums to zero has shares of zero", "[ops][score_arithmetic]") {
  REQUIRE(shares({0, 0, 1, 3, 0}, 2) == std::vector<float>{0, 0, 0.25f, 0.75f, 0});
  REQUIRE(shares({0, 0, 0}, 0) == std::vector<float>{0, 0, 0});
}

TEST_CASE("squares that leave fp32 have shares", "[ops][score_arithmetic]") {
  REQUIRE(shares({1e30f, 0, 1e-30f, 1e-30f}, 2, ReductionDomain::square_root) ==
          std::vector<float>{1, 0, 0.5f, 0.5f});
}

TEST_CASE("NaN and infinity make their own window NaN", "[ops][score_arithmetic]") {
  for (const float number : {std::nanf(""), infinity, -infinity}) {
    for (const std::int64_t length : {3, 300}) {
      std::vector<float> values(static_cast<std::size_t>(3 * length), 1.0f);
      values[static_cast<std::size_t>(length)] = number;
      const std::vector<float> got = shares(values, length);
      for (std::int64_t i = 0; i < 3 * length; ++i) {
        REQUIRE(std::isnan(got[static_cast<std::size_t>(i)]) == (i / length == 1));
      }
    }
  }
}

TEST_CASE("a head's shares do not depend on longer heads beside it", "[ops][score_arithmetic]") {
  const std::vector<float> values = random_values(Shape::normal, 5000, 8);
  const std::vector<std::int64_t> offsets = {0, 200, 5000};
  for (const std::int64_t window : {0, 64, 1000}) {
    const std::vector<float> together =
        shares(RowLayout<>::ragged(offsets.data(), 2), values, window, ReductionDomain::linear);
    const std::vector<float> alone =
        shares({values.begin(), values.begin() + 200}, window, ReductionDomain::linear);
    REQUIRE(same_bits(alone, {together.begin(), together.begin() + 200}));
  }
}

TEST_CASE("standardised scores agree with a double loop", "[ops][score_arithmetic]") {
  const std::vector<std::int64_t> offsets = {0, 1, 1, 9, 1300};
  const auto layout = RowLayout<>::ragged(offsets.data(), 4);
  const std::vector<float> values = random_values(Shape::normal, layout.total(), 5);
  for (const kvevict::RowRange& range : {kvevict::RowRange{}, kvevict::RowRange{3, 4}}) {
    std::vector<double> want;
    for (std::int64_t h = 0; h < layout.heads(); ++h) {
      const float* head = values.data() + layout.offset(h);
      const std::int64_t begin = range.begin(layout.rows(h));
      const std::int64_t end = range.end(layout.rows(h));
      const auto count = static_cast<double>(end - begin);
      double mean = 0.0;
      double squares = 0.0;
      for (std::int64_t i = begin; i < end; ++i) mean += static_cast<double>(head[i]) / count;
      for (std::int64_t i = begin; i < end; ++i) {
        squares += std::pow(static_cast<double>(head[i]) - mean, 2);
      }
      const double deviation = count > 1 ? std::sqrt(squares / (count - 1)) : 0.0;
      const double unit = std::max({deviation, 1e-6, 1e-4 * std::abs(mean)});
      for (std::int64_t i = 0; i < layout.rows(h); ++i) {
        want.push_back(i >= begin && i < end ? (static_cast<double>(head[i]) - mean) / unit : 0.0);
      }
    }
    const std::vector<float> got = scores_of(
        layout, [&](auto& res, auto scores) { standardise(res, range, scores); }, values);
    require_close(got, want, {0x1p-22, 1e-7});
  }
}

TEST_CASE("scores that are all alike have no z-scores", "[ops][score_arithmetic]") {
  const auto standardised = [](const std::vector<float>& values) {
    return scores_of(
        RowLayout<>::uniform(1, static_cast<std::int64_t>(values.size())),
        [&](auto& res, auto scores) { standardise(res, kvevict::RowRange{}, scores); }, values);
  };
  REQUIRE(standardised({7, 7, 7}) == std::vector<float>{0, 0, 0});
  // A last bit is no difference.
  for (const float z : standardised({1, 1 + 0x1p-23f, 1})) REQUIRE(std::abs(z) < 1e-2f);
  for (const float z : standardised({1, std::nanf(""), 1})) REQUIRE(std::isnan(z));
}

TEST_CASE("bad arguments of score arithmetic are refused", "[ops][score_arithmetic]") {
  TestResources res({.threads = 1});
  std::vector<float> values(12);
  const auto view = [&](std::int64_t heads, std::int64_t rows) {
    return ScoreView<>{values.data(), RowLayout<>::uniform(heads, rows)};
  };
  REQUIRE(refused([&] { window_shares(res, view(2, 3), -1, ReductionDomain::linear); }) ==
          "window is -1, must be >= 0");
  REQUIRE(refused([&] { window_shares(res, view(2, 3), 4, ReductionDomain::logarithm); }) ==
          "domain is logarithm, must be linear or square_root");
}
