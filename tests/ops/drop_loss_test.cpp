// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/drop_loss.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/drop_loss.hpp"
#include "ops/attention_case.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/policies.hpp"
#include "support/backend.hpp"

namespace drop_loss_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::ProbeMask;
using kvevict::ProbeQueries;

namespace {

// Logits of size 5 with up to 130 roundings each, and differences of values and outputs that lose
// as much again.
constexpr Tolerance change_tolerance{3e-5, 1e-6};

// A projection [hidden][query_head * dim], in float and in double.
struct Projection {
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t dim;
  std::vector<float> data;

  Projection(std::int64_t h, std::int64_t query_heads, std::int64_t d, std::uint64_t seed)
      : hidden(h),
        heads(query_heads),
        dim(d),
        data(random_values(Shape::normal, h * query_heads * d, seed)) {}

  MatrixBatchView<const float> view() const {
    MatrixBatchView<const float> view;
    view.data = data.data();
    const std::int64_t shape[] = {heads, hidden, dim};
    const std::int64_t stride[] = {dim, heads * dim, 1};
    for (int d = 0; d < 3; ++d) {
      view.shape[d] = shape[d];
      view.stride[d] = stride[d];
    }
    return view;
  }
  reference::Matrix exact() const {
    reference::Matrix matrix(static_cast<std::size_t>(hidden),
                             static_cast<std::size_t>(heads * dim));
    matrix.data.assign(data.begin(), data.end());
    return matrix;
  }
};

template <class T>
std::vector<float> run(const RowsCase<T>& keys, const RowsCase<T>& values,
                       const ProbeQueries<>& probes, const MatrixBatchView<const float>& transforms,
                       const kvevict::Positions<>& positions = {}) {
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(keys.dim())));
  return scores_of(keys.layout(), [&](auto& res, auto scores) {
    drop_loss(res, keys.view(), values.view(), positions, probes, scale, transforms, scores);
  });
}

template <class T, class Q>
void check(const RowsCase<T>& keys, const RowsCase<T>& values, const QueriesCase<Q>& queries,
           const Projection* projection = nullptr) {
  reference::Inputs inputs;
  inputs.keys = keys.exact();
  inputs.values = values.exact();
  inputs.probes = queries.exact;
  if (projection != nullptr) inputs.output_projection = projection->exact();
  std::vector<double> want;
  for (const std::vector<double>& head :
       reference::score(reference::DropLoss{projection != nullptr}, inputs)) {
    want.insert(want.end(), head.begin(), head.end());
  }
  const std::vector<float> got =
      run(keys, values, {queries.view(), {}, ProbeMask::none},
          projection == nullptr ? MatrixBatchView<const float>{} : projection->view());
  INFO("keys " << keys.describe() << ", values " << values.describe() << ", queries "
               << queries.count << (projection == nullptr ? "" : ", projected"));
  require_close(got, want, change_tolerance);
}

}  // namespace

TEMPLATE_TEST_CASE("changes of outputs agree with double loops", "[ops][drop_loss]", float, half,
                   bfloat16) {
  const std::vector<std::int64_t> ragged = {5, 0, 129, 1, 257};
  std::uint64_t seed = 0;
  for (const std::int64_t dim : {1, 17, 64, 130}) {
    for (const RowsForm form : ragged_forms) {
      if (!case_runs(++seed)) continue;
      const RowsCase<TestType> keys(form, ragged, 24, seed);
      const RowsCase<TestType> values(form, ragged, dim, seed + 100);
      const QueriesCase<float> queries(10, 5, 24, seed + 200);
      check(keys, values, queries);
      const Projection projection(dim + 3, 10, dim, seed + 300);
      check(keys, values, queries, &projection);
    }
  }
  for (const RowsForm form : uniform_forms) {
    if (!case_runs(++seed)) continue;
    const RowsCase<TestType> keys(form, {130, 130}, 32, seed);
    const RowsCase<TestType> values(form, {130, 130}, 20, seed + 100);
    check(keys, values, QueriesCase<TestType>(4, 9, 32, seed + 200));
  }
}

TEST_CASE("changes for more queries than are held at once", "[ops][drop_loss]") {
  const RowsCase<float> keys(RowsForm::packed, {9, 140}, 8, 7);
  const RowsCase<float> values(RowsForm::packed, {9, 140}, 12, 8);
  const Projection projection(40, 4, 12, 9);
  std::uint64_t number = 0;
  for (const std::int64_t count : {130, 65, 64, 63, 1}) {
    if (!case_runs(++number)) continue;
    const QueriesCase<float> queries(4, count, 8, 33);
    check(keys, values, queries);
    check(keys, values, queries, &projection);
  }
}

TEST_CASE("changes at weights near one, seen through a projection", "[ops][drop_loss]") {
  // Queries so long that one row has nearly all of the weight, 1 - p down to 1e-30.
  const RowsCase<float> keys(RowsForm::packed, {40}, 16, 12);
  const RowsCase<float> values(RowsForm::packed, {40}, 12, 13);
  const Projection projection(20, 2, 12, 14);
  for (const double size : {3.0, 10.0, 30.0}) {
    const QueriesCase<float> queries(2, 6, 16, 34, size);
    reference::Inputs inputs;
    inputs.keys = keys.exact();
    inputs.values = values.exact();
    inputs.probes = queries.exact;
    inputs.output_projection = projection.exact();
    const std::vector<double> want = reference::score(reference::DropLoss{true}, inputs)[0];
    INFO("queries of size " << size);
    // Logits up to 100 are off by 2^-18.
    require_close(run(keys, values, {queries.view(), {}, ProbeMask::none}, projection.view()), want,
                  {1e-4, 1e-5});
  }
}

TEST_CASE("changes under a mask by position", "[ops][drop_loss]") {
  const RowsCase<float> keys(RowsForm::packed, {6, 140}, 8, 2);
  const RowsCase<float> values(RowsForm::packed, {6, 140}, 12, 3);
  const QueriesCase<float> queries(4, 5, 8, 41);
  std::vector<std::int32_t> stored = {0, 1, 40, 41, 42, 300};
  for (std::int32_t i = 0; i < 140; ++i) stored.push_back(3 * i + 2 + (i > 50 ? 100 : 0));
  const std::vector<std::int32_t> at = {1, 30, 41, 99, 250};
  reference::Inputs inputs;
  inputs.keys = keys.exact();
  inputs.values = values.exact();
  inputs.probes = queries.exact;
  inputs.row_positions = {{stored.begin(), stored.begin() + 6}, {stored.begin() + 6, stored.end()}};
  inputs.probe_positions.assign(at.begin(), at.end());
  std::vector<double> want;
  for (const std::vector<double>& head : reference::score(reference::DropLoss{}, inputs)) {
    want.insert(want.end(), head.begin(), head.end());
  }
  require_close(
      run(keys, values,
          {queries.view(), kvevict::QueryPositions<>::shared(at.data()), ProbeMask::by_position},
          {}, kvevict::Positions<>::packed(stored.data())),
      want, change_tolerance);
}

TEST_CASE("changes of a head do not depend on the others", "[ops][drop_loss]") {
  // On the CPU a head so long that fewer queries fit at once; on a device one in several splits.
  const std::int64_t longer = on_cpu ? 30000 : 2500;
  const RowsCase<half> keys(RowsForm::packed, {300, longer}, 8, 9);
  const RowsCase<half> values(RowsForm::packed, {300, longer}, 8, 10);
  const QueriesCase<float> queries(4, 70, 8, 35);
  const auto alone = [](const RowsCase<half>& rows) {
    const auto head = rows.view().head(0);
    return kvevict::RowsView<const half>::strided(head.data, 1, 300, 8, 0, head.row_stride,
                                                  head.channel_stride);
  };
  const std::vector<float> together = run(keys, values, {queries.view(), {}, ProbeMask::none}, {});
  const auto first = alone(keys);
  const std::vector<float> one = scores_of(first.layout(), [&](auto& res, auto scores) {
    drop_loss(res, first, alone(values), {},
              ProbeQueries<>{kvevict::QueriesView<>::packed(queries.data.data(), 2, 70, 8)},
              static_cast<float>(1.0 / std::sqrt(8.0)), {}, scores);
  });
  REQUIRE(same_bits({together.begin(), together.begin() + 300}, one));
}

TEST_CASE("drop_loss refuses shapes that do not fit", "[ops][drop_loss]") {
  const RowsCase<float> keys(RowsForm::packed, {3, 5}, 4, 1);
  const RowsCase<float> values(RowsForm::packed, {3, 5}, 6, 1);
  const RowsCase<float> fewer(RowsForm::packed, {3, 4}, 6, 1);
  const Projection projection(7, 2, 6, 2);
  TestResources res({.threads = 1});
  std::vector<float> out(64);
  const auto problem = [&](int heads, int count, int dim, const RowsCase<float>& of_values,
                           const MatrixBatchView<const float>& transforms, ProbeMask mask) {
    return refused([&] {
      drop_loss(
          res, keys.view(), of_values.view(), {},
          ProbeQueries<>{kvevict::QueriesView<>::packed(out.data(), heads, count, dim), {}, mask},
          1.0f, transforms, kvevict::ScoreView<>{out.data(), keys.layout()});
    });
  };
  const auto none = ProbeMask::none;
  REQUIRE(problem(2, 2, 3, values, {}, none) ==
          "queries.dim is 3, must be equal to the dimension of the rows, 4");
  REQUIRE(problem(3, 2, 4, values, {}, none) ==
          "queries.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(2, 0, 4, values, {}, none) == "queries.count is 0, must be >= 1");
  REQUIRE(problem(2, 2, 4, values, {}, ProbeMask::by_position) ==
          "queries.positions is missing, must be given for a mask by position");
  REQUIRE(problem(2, 2, 4, fewer, {}, none) ==
          "values is of another shape, must be one for each key");
  REQUIRE(problem(4, 2, 4, values, projection.view(), none) ==
          "output_projection.heads is 2, must be equal to the query heads, 4");
  REQUIRE(problem(2, 2, 4, values, Projection(7, 2, 5, 2).view(), none) ==
          "output_projection.dim is 5, must be equal to the dimension of the rows, 6");
  MatrixBatchView<const float> strided = projection.view();
  strided.stride[2] = 2;
  REQUIRE(problem(2, 2, 4, values, strided, none) ==
          "output_projection.stride is 2, must be 1 between columns");
}

}  // namespace drop_loss_test
