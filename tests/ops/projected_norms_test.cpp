// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/projected_norms.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace projected_norms_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::ProjectedNorm;
using kvevict::ScoreView;

namespace {

// [query_head][outputs][dim] as columns of one matrix [outputs][query_heads * dim], as an output
// projection is stored.
struct Projection {
  std::vector<float> memory;
  MatrixBatchView<const float> view;

  Projection(std::int64_t heads, std::int64_t outputs, std::int64_t dim)
      : memory(random_values(Shape::normal, outputs * heads * dim, 7)) {
    view.data = memory.data();
    const std::int64_t shape[] = {heads, outputs, dim};
    const std::int64_t stride[] = {dim, heads * dim, 1};
    for (int d = 0; d < 3; ++d) {
      view.shape[d] = shape[d];
      view.stride[d] = stride[d];
    }
  }
};

template <class T>
void check(const RowsCase<T>& rows, std::int64_t group, std::int64_t outputs, ProjectedNorm norm) {
  const Projection projection(rows.heads() * group, outputs, rows.dim());
  std::vector<Expected> want;
  for (std::int64_t q = 0; q < rows.heads() * group; ++q) {
    const reference::Matrix& head = rows.exact()[static_cast<std::size_t>(q / group)];
    for (std::size_t i = 0; i < head.rows; ++i) {
      double sum = 0.0;
      double error = 0.0;
      for (std::int64_t o = 0; o < outputs; ++o) {
        ExpectedSum product;
        for (std::int64_t c = 0; c < rows.dim(); ++c) {
          product.add(head(i, static_cast<std::size_t>(c)) *
                      static_cast<double>(projection.view(q, o, c)));
        }
        const auto [value, bound] = product.result();
        sum += norm == ProjectedNorm::euclidean ? value * value : std::abs(value);
        error += norm == ProjectedNorm::euclidean ? bound * bound : bound;
      }
      // The norm of the errors, and one rounding; sums in fp32 of up to 128 squares of one sign.
      want.push_back(
          norm == ProjectedNorm::euclidean
              ? Expected{std::sqrt(sum), std::sqrt(error) + 66 * 0x1p-24 * std::sqrt(sum)}
              : Expected{sum, error + 0x1p-23 * sum});
    }
  }
  const std::vector<float> got =
      scores_of(rows.layout().repeated(group), [&](auto& res, ScoreView<> out) {
        projected_norms(res, rows.view(), projection.view, norm, out);
      });
  INFO(rows.describe() << ", group " << group << ", " << outputs << " outputs");
  require_close(got, want);
}

}  // namespace

TEMPLATE_TEST_CASE("norms of projected rows agree with double loops", "[ops][projected_norms]",
                   float, half, bfloat16) {
  for (const auto norm : {ProjectedNorm::euclidean, ProjectedNorm::absolute_sum}) {
    const RowsCase<TestType> ragged(RowsForm::packed, {150, 0, 1, 37}, 12, 3);
    check(ragged, 2, 5, norm);
    check(ragged, 1, 12, norm);
    check(ragged, 1, for_backend(300, 140), norm);
    check(RowsCase<TestType>(RowsForm::channels_strided, {40, 40}, 64, 4), 3, 64, norm);
    check(RowsCase<TestType>(RowsForm::per_head, {9, 70}, 33, 5), 1, 130, norm);
  }
}

TEST_CASE("projections that do not fit the rows are refused", "[ops][projected_norms]") {
  const RowsCase<float> rows(RowsForm::packed, {4, 5}, 6, 3);
  TestResources res({.threads = 1});
  std::vector<float> out(18);
  const auto problem = [&](MatrixBatchView<const float> view) {
    return refused([&] {
      projected_norms(res, rows.view(), view, ProjectedNorm::euclidean,
                      ScoreView<>{out.data(), rows.layout().repeated(2)});
    });
  };
  REQUIRE(problem(Projection(3, 4, 6).view) ==
          "output_projection.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(problem(Projection(4, 4, 5).view) ==
          "output_projection.dim is 5, must be equal to the dimension of the rows, 6");
  REQUIRE(problem(Projection(6, 4, 6).view) ==
          "out is of another shape, must be one score for each row of each head");
  MatrixBatchView<const float> strided = Projection(4, 4, 6).view;
  strided.stride[2] = 2;
  REQUIRE(problem(strided) == "output_projection.stride is 2, must be 1 between columns");
}

}  // namespace projected_norms_test
