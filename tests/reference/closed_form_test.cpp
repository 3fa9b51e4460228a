// SPDX-License-Identifier: Apache-2.0
// Inputs given by formulas, 12 rows, and the numbers that NVIDIA kvpress (float32) gives for them:
// small enough to check by hand, with nothing shared with the stored data.
#include <cmath>
#include <numeric>

#include "catch.hpp"
#include "reference/reference.hpp"
#include "support/tolerance.hpp"

namespace closed_form_test {

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {

constexpr std::size_t rows = 12;
constexpr std::size_t dim = 4;
constexpr std::size_t group = 2;

// The expected numbers are printed with six digits and come from float32.
constexpr Tolerance printed{1e-5, 1e-7};
constexpr Tolerance printed_after_solve{1e-4, 1e-7};

Rope rope() { return {rope_frequencies(10000, dim), Pairing::half, 1}; }

Heads queries_pre_rope() {
  Heads out(2 * group, Matrix(rows, dim));
  for (std::size_t h = 0; h < out.size(); ++h) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < dim; ++j) {
        const auto t = static_cast<double>(i + 1);
        const auto head = static_cast<double>(h);
        out[h](i, j) =
            (1 + 0.1 * head) * std::sin(0.37 * t + 1.3 * head + 0.71 * static_cast<double>(j));
      }
    }
  }
  return out;
}

// Queries after RoPE, and statistics of the pre-RoPE queries without the first two, for the eight
// positions to come.
Inputs closed_form_inputs() {
  Inputs inputs;
  for (std::size_t g = 0; g < 2; ++g) {
    Matrix keys(rows, dim);
    Matrix values(rows, dim);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < dim; ++j) {
        const auto t = static_cast<double>(i + 1);
        const auto head = static_cast<double>(g);
        const auto channel = static_cast<double>(j);
        keys(i, j) = std::cos(0.53 * t * (channel + 1) + 0.9 * head) + 0.05 * t * (head + 1) / 12;
        values(i, j) = std::sin(0.29 * t * (channel + 1) + 0.4 * head) + 0.2 * channel;
      }
    }
    inputs.keys.push_back(keys);
    inputs.values.push_back(values);
  }
  const Heads before = queries_pre_rope();
  Positions positions(rows);
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  for (const Matrix& head : before) inputs.queries.push_back(rotated(head, positions, rope()));
  inputs.query_positions = positions;
  inputs.stats = future_query_stats(before, 2, static_cast<std::int64_t>(rows), 8, rope());
  return inputs;
}

// Compares one head from row `first` to before row `last`.
void check(const std::vector<double>& got, const std::vector<double>& want, std::size_t first,
           std::size_t last, Tolerance tolerance) {
  Comparison comparison;
  for (std::size_t i = first; i < last; ++i) add(comparison, got.at(i), want.at(i), tolerance);
  INFO(comparison.describe());
  CHECK(comparison.within());
  CHECK(comparison.size > 0);
}

void check(const Scores& got, const Scores& want, std::size_t first = 0, std::size_t last = rows,
           Tolerance tolerance = printed) {
  REQUIRE(got.size() == want.size());
  for (std::size_t head = 0; head < want.size(); ++head) {
    INFO("head " << head);
    CHECK(got[head].size() == rows);
    check(got[head], want[head], first, last, tolerance);
  }
}

// What stands where the reference writes a sentinel instead of a score.
constexpr double forced = 0;

}  // namespace

TEST_CASE("the inputs are the intended ones") {
  const Inputs inputs = closed_form_inputs();
  const Matrix query = queries_pre_rope()[0];
  check({query(0, 0), query(0, 1), query(0, 2), query(0, 3)}, {.361615, .881958, .976071, .598472},
        0, 4, printed);
  const Matrix& keys = inputs.keys[0];
  check({keys(0, 0), keys(0, 1), keys(0, 2), keys(0, 3)}, {.866974, .493039, -.0150358, -.517842},
        0, 4, printed);
  const Matrix& values = inputs.values[1];
  check({values(11, 0), values(11, 1), values(11, 2), values(11, 3)},
        {-.673111, 1.08045, -.587923, 1.58333}, 0, 4, printed);
}

TEST_CASE("key norms") {
  check(score("KNorm", {}, closed_form_inputs()),
        {{-1.12388, -1.30098, -1.41345, -1.34134, -1.10011, -1.98951, -1.1277, -1.26696, -1.40109,
          -1.33951, -1.19769, -2.05627},
         {-1.322, -1.26495, -1.40203, -1.55084, -1.66049, -1.09031, -1.37227, -1.33974, -1.37796,
          -1.56814, -1.9103, -1.12827}});
}

TEST_CASE("difference from the mean key direction") {
  check(score("KeyDiff", {}, closed_form_inputs()),
        {{-.715136, .0364124, .667435, -.491775, -.0426751, .706078, -.3103, -.352877, .713528,
          -.158501, -.620113, -.141599},
         {.753852, .246523, -.12537, .585933, .087943, -.0619185, .340138, -.519921, -.333903,
          .0490619, -.864171, -.896966}});
}

TEST_CASE("window attention, pooled") {
  const Scores scores = score("SnapKV", {{"window", "3"}, {"kernel", "3"}}, closed_form_inputs());
  const Scores want = {{.0567911, .102556, .109076, .0961205, .0667231, .0500937, .0711164, .099995,
                        .082431, forced, forced, forced},
                       {.0517213, .0685358, .0747114, .120766, .149503, .129178, .0732654, .0553427,
                        .0398648, forced, forced, forced}};
  check(scores, want, 0, rows - 3);
  CHECK(scores[0][9] == Approx(.109076).epsilon(1e-5));
  CHECK(scores[1][11] == Approx(.149503).epsilon(1e-5));
}

TEST_CASE("attention received, averaged and summed") {
  check(score("H2O", {{"accumulation", "mean"}}, closed_form_inputs()),
        {{.277201, .188381, .145089, .171749, .115438, .0800508, .0772774, .103659, .140605,
          .0828351, .084465, .159094},
         {.230263, .204482, .182683, .119831, .183695, .152755, .0700265, .055587, .0764322,
          .0979736, .083261, .0791215}});
  check(score("H2O", {{"accumulation", "sum"}}, closed_form_inputs()),
        {{3.32641, 2.07219, 1.45089, 1.54574, .923503, .560356, .463664, .518296, .562421, .248505,
          .16893, .159094},
         {2.76315, 2.24931, 1.82683, 1.07848, 1.46956, 1.06929, .420159, .277935, .305729, .293921,
          .166522, .0791215}});
}

TEST_CASE("averaged future rotation and the statistics behind it") {
  const Matrix rotation = mean_rotation(rope(), 12, 8, dim);
  check({rotation(0, 0), rotation(2, 0), rotation(1, 1), rotation(3, 1)},
        {.193069, -.0407402, .987752, .15434}, 0, 4, printed);
  CHECK(rotation(0, 2) == -rotation(2, 0));
  CHECK(rotation(2, 2) == rotation(0, 0));
  const QueryStats stats = closed_form_inputs().stats;
  check(stats.mean[0], {.0176607, -.0946338, -.09532, -.533795}, 0, 4, printed);
  const Matrix& covariance = stats.covariance[0];
  check({covariance(0, 0), covariance(1, 1), covariance(2, 2), covariance(3, 3), covariance(0, 1)},
        {.0231955, .532941, .00700462, .161406, .109297}, 0, 5, printed);
}

TEST_CASE("expected attention") {
  const Inputs inputs = closed_form_inputs();
  check(score("ExpectedAttention", {{"skip_first", "2"}}, inputs),
        {{forced, forced, .182929, .153731, .117846, .128935, .196181, .181154, .176418, .13897,
          .0804174, .138886},
         {forced, forced, .163274, .0935908, .137279, .187346, .130599, .16538, .134032, .0590198,
          .202511, .234503}},
        2);
  check(score("ExpectedAttention", {{"skip_first", "2"}, {"epsilon", "absolute:0.02"}}, inputs),
        {{forced, forced, .216896, .181096, .142202, .161905, .234386, .214496, .209479, .161833,
          .09812, .176199},
         {forced, forced, .193515, .118618, .162197, .222964, .166959, .196911, .163081, .0739821,
          .230823, .276802}},
        2);
  const Scores plain =
      score("ExpectedAttention",
            {{"skip_first", "2"}, {"covariance", "none"}, {"value_norm", "none"}}, inputs);
  check(plain,
        {{forced, forced, .102409, .116335, .100575, .0768027, .106085, .112817, .102281, .122748,
          .0919093, .0680374},
         {forced, forced, .109004, .0766482, .111389, .109335, .073416, .105463, .0979591, .0751328,
          .1294, .112253}},
        2);
  CHECK(plain[1][0] == plain[1][10]);  // the skipped rows get the largest score of their head
}

TEST_CASE("capacity with cosine weights") {
  check(score("CapKV", {{"form", "reference"}, {"noise", "absolute:1"}, {"skip_first", "2"}},
              closed_form_inputs()),
        {{forced, forced, .319162, .302615, .0609687, .00835663, .275022, .287582, .257164, .338528,
          .0149265, .0039414},
         {forced, forced, .36638, .00515109, .133108, .363726, .00374493, .333144, .0621369,
          .00292353, .192699, .399671}},
        2, rows, printed_after_solve);
}

TEST_CASE("kept sets at two budgets") {
  const Inputs inputs = closed_form_inputs();
  const auto kept = [&inputs](const std::string& policy, const Pairs& parameters, std::size_t count,
                              std::size_t head) {
    return select_top(score(policy, parameters, inputs)[head], count, {});
  };
  CHECK(kept("KNorm", {}, 6, 0) == Rows{0, 1, 4, 6, 7, 10});
  CHECK(kept("KNorm", {}, 3, 1) == Rows{1, 5, 11});
  CHECK(kept("KeyDiff", {}, 6, 1) == Rows{0, 1, 3, 4, 6, 9});
  CHECK(kept("KeyDiff", {}, 3, 0) == Rows{2, 5, 8});
  CHECK(kept("StreamingLLM", {{"sinks", "2"}}, 6, 0) == Rows{0, 1, 8, 9, 10, 11});
  CHECK(kept("StreamingLLM", {{"sinks", "2"}}, 3, 1) == Rows{0, 1, 11});
  CHECK(kept("CapKV", {{"form", "reference"}, {"noise", "absolute:1"}, {"skip_first", "2"}}, 6,
             0) == Rows{0, 1, 2, 3, 7, 9});
  CHECK(kept("ExpectedAttention", {{"skip_first", "2"}}, 6, 1) == Rows{0, 1, 5, 7, 10, 11});
  const Scores window = score("SnapKV", {{"window", "3"}, {"kernel", "3"}}, inputs);
  CHECK(select_top(window[0], 6, {9, 10, 11}) == Rows{1, 2, 7, 9, 10, 11});
  CHECK(select_top(window[1], 6, {9, 10, 11}) == Rows{3, 4, 5, 9, 10, 11});
}

}  // namespace closed_form_test
