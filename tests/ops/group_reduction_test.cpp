// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/group_reduction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "ops/op_runs.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace group_reduction_test {

using namespace kvevict_test;
using kvevict::GroupReduction;
using kvevict::ReductionDomain;
using kvevict::RowLayout;

namespace {

constexpr GroupReduction reductions[] = {GroupReduction::mean, GroupReduction::max,
                                         GroupReduction::sum};
constexpr ReductionDomain domains[] = {ReductionDomain::linear, ReductionDomain::logarithm,
                                       ReductionDomain::square_root};

// Everything is summed in double and stored once.
constexpr Tolerance reduction_tolerance{0x1p-23, 1e-12};

std::vector<float> reduced(std::vector<float> in, const RowLayout<>& layout, std::int64_t group,
                           GroupReduction reduction, ReductionDomain domain) {
  return scores_of(layout, [&](auto& res, auto out) {
    reduce_group(res, kvevict::ScoreView<>{in.data(), layout.repeated(group)}, reduction, domain,
                 out);
  });
}

// One row: the values of its query heads.
float reduced(const std::vector<float>& values, GroupReduction reduction, ReductionDomain domain) {
  return reduced(values, RowLayout<>::uniform(1, 1), static_cast<std::int64_t>(values.size()),
                 reduction, domain)[0];
}

double expected(const std::vector<double>& values, GroupReduction reduction,
                ReductionDomain domain) {
  double out = reduction == GroupReduction::max ? -1e300 : 0;
  for (const double value : values) {
    const double plain = domain == ReductionDomain::linear      ? value
                         : domain == ReductionDomain::logarithm ? std::exp(value)
                                                                : value * value;
    out = reduction == GroupReduction::max ? std::max(out, plain) : out + plain;
  }
  if (reduction == GroupReduction::mean) out /= static_cast<double>(values.size());
  if (domain == ReductionDomain::logarithm) return std::log(out);
  return domain == ReductionDomain::square_root ? std::sqrt(out) : out;
}

}  // namespace

TEST_CASE("group reductions agree with a double loop in every domain", "[ops][group_reduction]") {
  const std::vector<std::int64_t> offsets = {0, 1, 1, 3, 10, 150};
  const auto layout = RowLayout<>::ragged(offsets.data(), 5);
  for (const std::int64_t group : {1, 2, 3, 8}) {
    const auto blocks = layout.repeated(group);
    for (const ReductionDomain domain : domains) {
      std::vector<float> in = random_values(Shape::normal, blocks.total(), 1);
      if (domain == ReductionDomain::square_root) {
        for (float& value : in) value = std::abs(value);
      }
      for (const GroupReduction reduction : reductions) {
        std::vector<double> want;
        for (std::int64_t h = 0; h < layout.heads(); ++h) {
          for (std::int64_t i = 0; i < layout.rows(h); ++i) {
            std::vector<double> values;
            for (std::int64_t g = 0; g < group; ++g) {
              values.push_back(in[static_cast<std::size_t>(blocks.offset(h * group + g) + i)]);
            }
            want.push_back(expected(values, reduction, domain));
          }
        }
        INFO("group " << group << ", reduction " << static_cast<int>(reduction) << ", domain "
                      << static_cast<int>(domain));
        require_close(reduced(in, layout, group, reduction, domain), want, reduction_tolerance);
      }
    }
  }
}

TEST_CASE("logarithms far below the range of exp are reduced", "[ops][group_reduction]") {
  REQUIRE(reduced({-1000, -1001}, GroupReduction::mean, ReductionDomain::logarithm) ==
          Approx(-1000 + std::log((1 + std::exp(-1.0)) / 2)));
  REQUIRE(reduced({-1000, -1001}, GroupReduction::max, ReductionDomain::logarithm) == -1000.0f);
  REQUIRE(reduced({900, 900}, GroupReduction::sum, ReductionDomain::logarithm) ==
          Approx(900 + std::log(2.0)));
}

TEST_CASE("squares beyond the range of fp32 are reduced", "[ops][group_reduction]") {
  REQUIRE(reduced({3e30f, 4e30f}, GroupReduction::sum, ReductionDomain::square_root) ==
          Approx(5e30));
  REQUIRE(reduced({3e-30f, 4e-30f}, GroupReduction::sum, ReductionDomain::square_root) ==
          Approx(5e-30));
}

TEST_CASE("logarithms of zero", "[ops][group_reduction]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const GroupReduction reduction : reductions) {
    REQUIRE(reduced({-inf, -inf, -inf}, reduction, ReductionDomain::logarithm) == -inf);
  }
  REQUIRE(reduced({-inf, 0.0f}, GroupReduction::sum, ReductionDomain::logarithm) == 0.0f);
  REQUIRE(reduced({-inf, 0.0f}, GroupReduction::mean, ReductionDomain::logarithm) ==
          Approx(-std::log(2.0)));
}

TEST_CASE("NaN anywhere in the group is NaN in the result", "[ops][group_reduction]") {
  for (const GroupReduction reduction : reductions) {
    for (const ReductionDomain domain : domains) {
      for (std::size_t at = 0; at < 4; ++at) {
        std::vector<float> values = {1, 5, 2, 4};
        values[at] = std::nanf("");
        INFO("reduction " << static_cast<int>(reduction) << ", domain " << static_cast<int>(domain)
                          << ", at " << at);
        REQUIRE(std::isnan(reduced(values, reduction, domain)));
      }
    }
  }
}

TEST_CASE("a group of one is copied, also onto itself", "[ops][group_reduction]") {
  const auto layout = RowLayout<>::uniform(2, 3);
  const std::vector<float> values = {1, 2, 0.1f, -4, 3e38f, 1e-45f};
  for (const GroupReduction reduction : reductions) {
    const std::vector<float> got = scores_of(
        layout,
        [&](auto& res, auto scores) {
          reduce_group(res, scores, reduction, ReductionDomain::linear, scores);
        },
        values);
    REQUIRE(same_bits(got, values));
  }
}

TEST_CASE("shapes that do not divide are refused", "[ops][group_reduction]") {
  TestResources res({.threads = 1});
  std::vector<float> data(40);
  const auto problem = [&](std::int64_t in_heads, std::int64_t rows) {
    return refused([&] {
      reduce_group(res, kvevict::ScoreView<>{data.data(), RowLayout<>::uniform(in_heads, rows)},
                   GroupReduction::mean, ReductionDomain::linear,
                   kvevict::ScoreView<>{data.data() + 20, RowLayout<>::uniform(2, 3)});
    });
  };
  REQUIRE(problem(3, 3) == "in.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(1, 3) == "in.heads is 1, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(4, 2) == "in is of another shape, must be one score for each row of each head");
}

}  // namespace group_reduction_test
