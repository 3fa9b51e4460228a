// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/greedy_log_det.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "kvevict/cpu/greedy_log_det.hpp"
#include "ops/rows_case.hpp"
#include "reference/capacity.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"

namespace greedy_log_det_test {

using namespace kvevict_test;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::Noise;
using kvevict::Protect;
using kvevict::RowLayout;
using kvevict::ScoreView;

namespace {

struct Picks {
  std::vector<reference::Rows> rows;
  std::vector<double> log_dets;
  kvevict::Report report;
};

// `counts` rows of each head; the same with 1 and 3 threads.
template <class T>
Picks pick(const kvevict::RowsView<const T>& values, const std::vector<float>& roots,
           const std::vector<std::int64_t>& counts, Noise noise, const Protect& protect = {},
           const MatrixBatchView<const float>& transforms = {}) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t count : counts) offsets.push_back(offsets.back() + count);
  const auto kept = RowLayout<>::ragged(offsets.data(), static_cast<std::int64_t>(counts.size()));
  Picks first;
  for (const int threads : {1, 3}) {
    kvevict::CpuResources res({.threads = threads});
    std::vector<std::int32_t> indices(static_cast<std::size_t>(offsets.back()));
    std::vector<float> weights = roots;
    Picks picks;
    picks.log_dets.resize(counts.size());
    greedy_log_det(res, values, ScoreView<>{weights.data(), values.layout()}, transforms, noise, {},
                   protect, kept, indices.data(), picks.log_dets.data());
    for (std::size_t h = 0; h < counts.size(); ++h) {
      picks.rows.emplace_back(indices.begin() + offsets[h], indices.begin() + offsets[h + 1]);
    }
    picks.report = res.report();
    if (threads == 1) {
      first = picks;
    } else {
      CHECK(picks.rows == first.rows);
      CHECK(picks.log_dets == first.log_dets);
    }
  }
  return first;
}

std::vector<float> some_roots(std::int64_t count, std::uint64_t seed) {
  std::vector<float> roots = random_values(Shape::normal, count, seed);
  for (float& root : roots) root = std::exp(2.0f * root);
  return roots;
}

std::vector<double> weights_of(const std::vector<float>& roots, std::size_t first,
                               std::size_t count) {
  std::vector<double> weights;
  for (std::size_t i = first; i < first + count; ++i) {
    weights.push_back(static_cast<double>(roots[i]) * static_cast<double>(roots[i]));
  }
  return weights;
}

double trace_over_dim(const reference::Matrix& u, const std::vector<double>& weights) {
  double trace = 0.0;
  for (std::size_t i = 0; i < u.rows; ++i) {
    trace += weights[i] * reference::dot(&u.data[i * u.cols], &u.data[i * u.cols], u.cols);
  }
  return trace / static_cast<double>(u.cols);
}

void check_head(const reference::Matrix& u, const std::vector<double>& weights, Noise noise,
                const reference::Rows& first, std::size_t count, const reference::Rows& got,
                double log_det) {
  const double s2 =
      noise.kind == Noise::Kind::absolute ? noise.value : noise.value * trace_over_dim(u, weights);
  CHECK(got == reference::greedy_log_det(u, weights, s2, first, count));
  CHECK(log_det == Approx(reference::log_det(u, weights, got, s2)).epsilon(1e-9).margin(1e-12));
}

}  // namespace

TEMPLATE_TEST_CASE("greedy picks are those of evaluating every row every time", "[ops][greedy]",
                   float, half, kvevict::bfloat16) {
  std::uint64_t seed = 1;
  for (const RowsForm form : ragged_forms) {
    for (const std::int64_t dim : {1, 5, 8}) {
      const RowsCase<TestType> rows(form, {40, 0, 1, 23}, dim, seed);
      const std::vector<float> roots = some_roots(64, seed + 50);
      for (const Noise noise :
           {Noise::relative(0.1), Noise::relative(1e-5), Noise::absolute(0.5)}) {
        const std::vector<std::int64_t> counts = {13, 0, 1, 20};
        const Picks picks = pick<TestType>(rows.view(), roots, counts, noise);
        INFO(rows.describe() << ", noise " << kvevict::format_parameter(noise));
        check_head(rows.exact()[0], weights_of(roots, 0, 40), noise, {}, 13, picks.rows[0],
                   picks.log_dets[0]);
        check_head(rows.exact()[3], weights_of(roots, 41, 23), noise, {}, 20, picks.rows[3],
                   picks.log_dets[3]);
        CHECK(picks.rows[2] == reference::Rows{0});
        CHECK(picks.report == kvevict::Report{.zero_capacity_heads = 1});  // the one without rows
      }
      ++seed;
    }
  }
}

TEST_CASE("greedy picks start from the protected rows", "[ops][greedy]") {
  const RowsCase<float> rows(RowsForm::packed, {30}, 6, 3);
  const std::vector<float> roots = some_roots(30, 4);
  const kvevict::PositionSpan span{10, 13};
  const Picks picks = pick<float>(rows.view(), roots, {15}, Noise::relative(0.05),
                                  {.sinks = 2, .recent = 3, .spans = {&span, 1}});
  check_head(rows.exact()[0], weights_of(roots, 0, 30), Noise::relative(0.05),
             {0, 1, 10, 11, 12, 27, 28, 29}, 15, picks.rows[0], picks.log_dets[0]);
}

TEST_CASE("greedy picks see values through a transform", "[ops][greedy]") {
  const RowsCase<half> rows(RowsForm::packed, {25, 30}, 6, 5);
  const std::vector<float> roots = some_roots(55, 6);
  const std::vector<float> matrices = random_values(Shape::normal, 2 * 9 * 6, 7);
  const auto transforms = MatrixBatchView<const float>::packed(matrices.data(), 2, 9, 6);
  const Picks picks = pick<half>(rows.view(), roots, {9, 12}, Noise::relative(0.1), {}, transforms);
  for (std::size_t h = 0; h < 2; ++h) {
    reference::Matrix r(9, 6);
    r.data.assign(matrices.begin() + static_cast<std::ptrdiff_t>(54 * h),
                  matrices.begin() + static_cast<std::ptrdiff_t>(54 * (h + 1)));
    const reference::Matrix u = reference::product(rows.exact()[h], reference::transposed(r));
    check_head(u, weights_of(roots, 25 * h, rows.exact()[h].rows), Noise::relative(0.1), {},
               h == 0 ? 9 : 12, picks.rows[h], picks.log_dets[h]);
  }
}

TEST_CASE("greedy picks reach 1 - 1/e of the best set", "[ops][greedy]") {
  for (const std::uint64_t seed : {11u, 12u, 13u, 14u}) {
    const RowsCase<float> rows(RowsForm::packed, {11}, 4, seed);
    const std::vector<float> roots = some_roots(11, seed + 30);
    const std::vector<double> weights = weights_of(roots, 0, 11);
    const double s2 = 0.3;
    double best = 0.0;
    for (unsigned set = 0; set < (1u << 11); ++set) {
      reference::Rows members;
      for (std::size_t i = 0; i < 11; ++i) {
        if ((set >> i & 1u) != 0) members.push_back(i);
      }
      if (members.size() == 4) {
        best = std::max(best, reference::log_det(rows.exact()[0], weights, members, s2));
      }
    }
    const Picks picks = pick<float>(rows.view(), roots, {4}, Noise::absolute(s2));
    CHECK(picks.log_dets[0] >= (1.0 - std::exp(-1.0)) * best);
    CHECK(picks.log_dets[0] <= best * (1.0 + 1e-9));
  }
}

TEST_CASE("of equal rows greedy picks the first, and others before the second", "[ops][greedy]") {
  // Rows 0 and 1 are the same long one; 2 and 3 point elsewhere.
  const std::vector<float> v = {3, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1};
  const auto rows = kvevict::RowsView<const float>::strided(v.data(), 1, 4, 3, 12, 3);
  const std::vector<float> roots(4, 1.0f);
  CHECK(pick<float>(rows, roots, {1}, Noise::absolute(0.01)).rows[0] == reference::Rows{0});
  CHECK(pick<float>(rows, roots, {3}, Noise::absolute(0.01)).rows[0] == reference::Rows{0, 2, 3});
  CHECK(pick<float>(rows, roots, {4}, Noise::absolute(0.01)).rows[0] ==
        reference::Rows{0, 1, 2, 3});
}

TEST_CASE("greedy picks do not depend on the scale of weights and values under relative noise",
          "[ops][greedy]") {
  const RowsCase<float> rows(RowsForm::packed, {60}, 7, 21);
  const std::vector<float> roots = some_roots(60, 22);
  const Picks picks = pick<float>(rows.view(), roots, {20}, Noise::relative(0.1));
  for (const float scale : {0x1p-100f, 0x1p-20f, 0x1p60f}) {
    std::vector<float> scaled = roots;
    for (float& root : scaled) root *= scale;
    const Picks same = pick<float>(rows.view(), scaled, {20}, Noise::relative(0.1));
    CHECK(same.rows == picks.rows);
    CHECK(same.log_dets[0] == Approx(picks.log_dets[0]).epsilon(1e-12));
  }
}

TEST_CASE("greedy picks: rows without weight or number come last", "[ops][greedy]") {
  const RowsCase<float> rows(RowsForm::packed, {6}, 3, 23);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> roots = {nan, 1, 0, 2, std::numeric_limits<float>::infinity(), 0};
  const Picks three = pick<float>(rows.view(), roots, {3}, Noise::relative(0.1));
  CHECK(three.rows[0] == reference::Rows{1, 2, 3});
  CHECK(three.report == kvevict::Report{.nan_scores = 2});
  CHECK(pick<float>(rows.view(), roots, {5}, Noise::relative(0.1)).rows[0] ==
        reference::Rows{0, 1, 2, 3, 5});
  const Picks none =
      pick<float>(rows.view(), std::vector<float>(6, 0.0f), {2}, Noise::relative(0.1));
  CHECK(none.rows[0] == reference::Rows{0, 1});
  CHECK(none.log_dets[0] == 0.0);
  CHECK(none.report == kvevict::Report{.zero_capacity_heads = 1});
}

TEST_CASE("greedy picks at the largest numbers of bfloat16", "[ops][greedy]") {
  RowsCase<kvevict::bfloat16> rows(RowsForm::packed, {20}, 4, 24);
  const std::vector<float> values = random_values(Shape::normal, 80, 25);
  rows.fill([&](std::int64_t) {
    std::vector<float> large = values;
    for (float& v : large) v *= 8e37f;
    return large;
  });
  const std::vector<float> roots = some_roots(20, 26);
  const Picks picks = pick<kvevict::bfloat16>(rows.view(), roots, {8}, Noise::relative(0.1));
  check_head(rows.exact()[0], weights_of(roots, 0, 20), Noise::relative(0.1), {}, 8, picks.rows[0],
             picks.log_dets[0]);
}

TEST_CASE("greedy_log_det refuses what does not fit", "[ops][greedy]") {
  const RowsCase<float> rows(RowsForm::packed, {5, 4}, 3, 27);
  std::vector<float> roots(9, 1.0f);
  const std::vector<float> matrices(32, 1.0f);
  const auto problem = [&](const RowLayout<>& weights, const Noise& noise, const Protect& protect,
                           const RowLayout<>& kept,
                           const MatrixBatchView<const float>& transforms = {},
                           kvevict::ErrorKind kind = kvevict::ErrorKind::invalid_argument) {
    const auto call = [&] {
      kvevict::CpuResources res({.threads = 1});
      std::vector<std::int32_t> indices(16);
      greedy_log_det(res, rows.view(), ScoreView<>{roots.data(), weights}, transforms, noise, {},
                     protect, kept, indices.data(), nullptr);
    };
    return refused(call, kind);
  };
  const RowLayout<> all = rows.layout();
  const auto two = RowLayout<>::uniform(2, 2);
  const Noise noise = Noise::relative(0.1);
  CHECK(problem(RowLayout<>::uniform(2, 4), noise, {}, two) ==
        "root_weights is of another shape, must be one score for each row of each head");
  CHECK(problem(all, Noise::absolute(0), {}, two) == "noise is 0, must be finite and > 0");
  CHECK(problem(all, noise, {.sinks = 3}, two, {}, kvevict::ErrorKind::budget) ==
        "protected rows of head 0 is 3, must be at most the rows that it keeps, 2");
  CHECK(problem(all, noise, {}, RowLayout<>::uniform(2, 5)) ==
        "selection.count of head 1 is 5, must be at most the head's rows, 4");
  CHECK(problem(all, noise, {}, two,
                MatrixBatchView<const float>::packed(matrices.data(), 1, 3, 3)) ==
        "transforms.heads is 1, must be equal to the KV heads, 2");
  CHECK(problem(all, noise, {}, two,
                MatrixBatchView<const float>::packed(matrices.data(), 2, 3, 4)) ==
        "transforms.dim is 4, must be equal to the dimension of the rows, 3");
}

}  // namespace greedy_log_det_test
