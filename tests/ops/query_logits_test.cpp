// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/query_logits.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/query_logits.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

namespace query_logits_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::Covariance;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;
using kvevict::QueryStatsView;

namespace {

// Random statistics of query heads, in fp32 and with symmetric covariances.
struct Stats {
  std::int64_t heads;
  std::int64_t dim;
  std::vector<float> mean;
  std::vector<float> diagonal;
  std::vector<float> full;

  Stats(std::int64_t query_heads, std::int64_t d)
      : heads(query_heads),
        dim(d),
        mean(random_values(Shape::normal, heads * dim, 21)),
        // One more than needed: without heads the views are still given.
        diagonal(random_values(Shape::uniform, heads * dim + 1, 22)),
        full(random_values(Shape::normal, heads * dim * dim + 1, 23)) {
    for (std::int64_t q = 0; q < heads; ++q) {
      for (std::int64_t r = 0; r < dim; ++r) {
        for (std::int64_t c = 0; c < r; ++c) at(q, r, c) = at(q, c, r);
      }
    }
  }
  float& at(std::int64_t q, std::int64_t r, std::int64_t c) {
    return full[static_cast<std::size_t>((q * dim + r) * dim + c)];
  }
  double mean_of(std::int64_t q, std::int64_t c) const {
    return static_cast<double>(mean[static_cast<std::size_t>(q * dim + c)]);
  }
  double diagonal_of(std::int64_t q, std::int64_t c) const {
    return static_cast<double>(diagonal[static_cast<std::size_t>(q * dim + c)]);
  }
  MatrixView<const float> mean_view() const {
    return MatrixView<const float>::packed(mean.data(), heads, dim);
  }
  MatrixView<const float> diagonal_view() const {
    return MatrixView<const float>::packed(diagonal.data(), heads, dim);
  }
  MatrixBatchView<const float> full_view() const {
    return MatrixBatchView<const float>::packed(full.data(), heads, dim, dim);
  }
};

template <class T, class Value>
std::vector<Expected> expected(const RowsCase<T>& rows, std::int64_t group, Value&& value) {
  std::vector<Expected> want;
  for (std::int64_t q = 0; q < rows.heads() * group; ++q) {
    const reference::Matrix& head = rows.exact()[static_cast<std::size_t>(q / group)];
    for (std::size_t i = 0; i < head.rows; ++i) want.push_back(value(q, &head.data[i * head.cols]));
  }
  return want;
}

constexpr float scale = 0.37f;
constexpr double wide_scale = static_cast<double>(scale);

}  // namespace

TEMPLATE_TEST_CASE("logits agree with a double loop", "[ops][query_logits]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>([](const auto& rows) {
    for (const std::int64_t group : {1, 4}) {
      const Stats stats(rows.heads() * group, rows.dim());
      const auto want = expected(rows, group, [&](std::int64_t q, const double* row) {
        ExpectedSum sum;
        for (std::int64_t c = 0; c < rows.dim(); ++c) {
          sum.add(wide_scale * stats.mean_of(q, c) * row[c]);
        }
        return sum.result();
      });
      INFO(rows.describe() << ", group " << group);
      require_close(scores_of(rows.layout().repeated(group),
                              [&](auto& res, auto scores) {
                                query_logits(res, rows.view(), stats.mean_view(), scale, scores);
                              }),
                    want);
    }
  });
}

TEMPLATE_TEST_CASE("quadratic forms agree with a double loop", "[ops][query_logits]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        constexpr std::int64_t group = 2;
        const Stats stats(rows.heads() * group, rows.dim());
        const auto layout = rows.layout().repeated(group);
        const std::vector<float> before = random_values(Shape::normal, layout.total(), 5);
        for (const bool add : {false, true}) {
          for (const Covariance kind : {Covariance::diagonal, Covariance::full}) {
            std::size_t next = 0;
            const auto want = expected(rows, group, [&](std::int64_t q, const double* row) {
              ExpectedSum sum;
              if (add) sum.add(static_cast<double>(before[next++]));
              for (std::int64_t r = 0; r < rows.dim(); ++r) {
                if (kind == Covariance::diagonal) {
                  sum.add(wide_scale * stats.diagonal_of(q, r) * row[r] * row[r]);
                }
                for (std::int64_t c = 0; c < rows.dim() && kind == Covariance::full; ++c) {
                  const auto entry =
                      static_cast<std::size_t>((q * rows.dim() + r) * rows.dim() + c);
                  sum.add(wide_scale * static_cast<double>(stats.full[entry]) * row[r] * row[c]);
                }
              }
              return sum.result(2);
            });
            QueryStatsView<> view;
            view.mean = stats.mean_view();
            if (kind == Covariance::diagonal) view.diagonal = stats.diagonal_view();
            if (kind == Covariance::full) view.covariance = stats.full_view();
            INFO(rows.describe() << ", full " << (kind == Covariance::full) << ", add " << add);
            require_close(scores_of(
                              layout,
                              [&](auto& res, auto scores) {
                                quadratic_form(res, rows.view(), view, kind, scale, add, scores);
                              },
                              before),
                          want);
          }
        }
      },
      {1, 2, 17, 64, 130});
}

TEST_CASE("the diagonal of a full covariance serves where no diagonal is given",
          "[ops][query_logits]") {
  const RowsCase<float> rows(RowsForm::packed, {7, 130}, 12, 3);
  const Stats stats(4, 12);
  std::vector<float> diagonal;
  for (std::int64_t q = 0; q < 4; ++q) {
    for (std::int64_t c = 0; c < 12; ++c) {
      diagonal.push_back(stats.full[static_cast<std::size_t>((q * 12 + c) * 12 + c)]);
    }
  }
  const auto form = [&](const QueryStatsView<>& view) {
    return scores_of(rows.layout().repeated(2), [&](auto& res, auto scores) {
      quadratic_form(res, rows.view(), view, Covariance::diagonal, scale, false, scores);
    });
  };
  QueryStatsView<> full;
  full.covariance = stats.full_view();
  QueryStatsView<> given;
  given.diagonal = MatrixView<const float>::packed(diagonal.data(), 4, 12);
  REQUIRE(same_bits(form(full), form(given)));
  // A given diagonal goes before that of the full covariance.
  full.diagonal = stats.diagonal_view();
  given.diagonal = stats.diagonal_view();
  REQUIRE(same_bits(form(full), form(given)));
}

TEST_CASE("of a matrix that is not symmetric both halves count", "[ops][query_logits]") {
  for (const std::int64_t dim : {3, 16, 70}) {
    const RowsCase<float> rows(RowsForm::packed, {5, 130}, dim, 3);
    const std::vector<float> matrix = random_values(Shape::normal, 2 * dim * dim, 24);
    QueryStatsView<> stats;
    stats.covariance = MatrixBatchView<const float>::packed(matrix.data(), 2, dim, dim);
    std::vector<double> want;
    for (std::size_t h = 0; h < 2; ++h) {
      const reference::Matrix& keys = rows.exact()[h];
      for (std::size_t i = 0; i < keys.rows; ++i) {
        double sum = 0;
        for (std::int64_t r = 0; r < dim; ++r) {
          for (std::int64_t c = 0; c < dim; ++c) {
            sum += keys(i, static_cast<std::size_t>(r)) * keys(i, static_cast<std::size_t>(c)) *
                   static_cast<double>(stats.covariance(static_cast<std::int64_t>(h), r, c));
          }
        }
        want.push_back(sum);
      }
    }
    const std::vector<float> got = scores_of(rows.layout(), [&](auto& res, auto scores) {
      quadratic_form(res, rows.view(), stats, Covariance::full, 1.0f, false, scores);
    });
    INFO("dim " << dim);
    // Up to 4900 terms of both signs and size 1 to 10.
    require_close(got, want, {1e-5, 1e-3});
  }
}

TEST_CASE("strided statistics are read by their strides", "[ops][query_logits]") {
  const RowsCase<float> rows(RowsForm::head_first, {9, 9}, 3, 4);
  const Stats stats(2, 3);
  std::vector<float> spread(2 * 20, std::nanf(""));
  MatrixView<float> strided;
  strided.data = spread.data();
  strided.shape[0] = 2;
  strided.shape[1] = 3;
  strided.stride[0] = 20;
  strided.stride[1] = 5;
  for (std::int64_t q = 0; q < 2; ++q) {
    for (std::int64_t c = 0; c < 3; ++c) strided(q, c) = stats.mean_view()(q, c);
  }
  const auto logits = [&](const MatrixView<const float>& vectors) {
    return scores_of(rows.layout(), [&](auto& res, auto scores) {
      query_logits(res, rows.view(), vectors, 1.0f, scores);
    });
  };
  REQUIRE(same_bits(logits(strided), logits(stats.mean_view())));
}

TEST_CASE("products of fp16 at the end of its range stay finite", "[ops][query_logits]") {
  const std::vector<half> row(128, half(65504.0f));
  const auto rows = kvevict::RowsView<const half>::strided(row.data(), 1, 1, 128, 128, 128);
  const std::vector<float> query(128, 65504.0f);
  const std::vector<float> got = scores_of(rows.layout(), [&](auto& res, auto scores) {
    query_logits(res, rows, MatrixView<const float>::packed(query.data(), 1, 128), 1.0f, scores);
  });
  REQUIRE(got[0] == Approx(128 * 65504.0 * 65504.0));
}

TEST_CASE("what a covariance needs", "[ops][query_logits]") {
  using kvevict::EvidenceKind;
  REQUIRE(kvevict::evidence_for(Covariance::none) ==
          kvevict::EvidenceSet{EvidenceKind::query_stats});
  REQUIRE(kvevict::evidence_for(Covariance::diagonal)
              .contains(EvidenceKind::query_covariance_diagonal));
  REQUIRE(kvevict::evidence_for(Covariance::full).contains(EvidenceKind::query_covariance_full));
}

TEST_CASE("statistics of another shape are refused", "[ops][query_logits]") {
  const RowsCase<float> rows(RowsForm::packed, {3, 5}, 4, 1);
  TestResources res({.threads = 1});
  std::vector<float> out(64);
  const kvevict::ScoreView<> scores{out.data(), rows.layout()};
  const auto vectors = [&](int heads, int dim) {
    return MatrixView<const float>::packed(out.data(), heads, dim);
  };
  REQUIRE(refused([&] { query_logits(res, rows.view(), vectors(2, 3), 1.0f, scores); }) ==
          "query_stats.mean.dim is 3, must be equal to the dimension of the rows, 4");
  REQUIRE(refused([&] { query_logits(res, rows.view(), vectors(3, 4), 1.0f, scores); }) ==
          "query_stats.mean.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(refused([&] { query_logits(res, rows.view(), vectors(4, 4), 1.0f, scores); }) ==
          "logits is of another shape, must be one score for each row of each head");
  QueryStatsView<> view;
  const auto form = [&](Covariance kind) {
    return refused([&] { quadratic_form(res, rows.view(), view, kind, 1.0f, false, scores); });
  };
  REQUIRE(form(Covariance::none) == "covariance is none, must be diagonal or full");
  REQUIRE(form(Covariance::full) ==
          "query_stats.covariance.dim is 0, must be equal to the dimension of the rows, 4");
  view.diagonal = vectors(2, 5);
  REQUIRE(form(Covariance::diagonal) ==
          "query_stats.covariance.dim is 5, must be equal to the dimension of the rows, 4");
  view.diagonal = vectors(3, 4);
  REQUIRE(form(Covariance::diagonal) ==
          "query_stats.covariance.heads is 3, must be a positive multiple of the KV heads, 2");
}

}  // namespace query_logits_test
