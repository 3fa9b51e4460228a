// SPDX-License-Identifier: Apache-2.0
#include "reference/h2o.hpp"

#include <algorithm>
#include <utility>

#include "catch.hpp"
#include "reference/attention.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {

Inputs square_inputs(std::size_t rows) {
  return random_inputs({.rows = {rows, rows}, .queries = rows}, 3);
}

Matrix first_rows(const Matrix& a, std::size_t first, std::size_t last) {
  Matrix out(last - first, a.cols);
  for (std::size_t i = first; i < last; ++i) {
    for (std::size_t c = 0; c < a.cols; ++c) out(i - first, c) = a(i, c);
  }
  return out;
}

Positions range(std::int64_t first, std::int64_t last) {
  Positions out;
  for (std::int64_t i = first; i < last; ++i) out.push_back(i);
  return out;
}

const H2O every_form[] = {
    {Accumulation::sum, 1}, {Accumulation::mean, 1}, {Accumulation::decay, 0.9}};

}  // namespace

TEST_CASE("observing in chunks equals observing at once") {
  const Inputs inputs = square_inputs(12);
  for (const H2O& policy : every_form) {
    const std::vector<double> whole = score(policy, inputs)[0];
    H2OHead head(policy);
    for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, 5}, {5, 6}, {6, 12}}) {
      Heads queries;
      for (std::size_t r = 0; r < 2; ++r) {
        queries.push_back(first_rows(inputs.queries[r], first, last));
      }
      const auto begin = static_cast<std::int64_t>(first);
      const auto end = static_cast<std::int64_t>(last);
      head.observe(queries, range(begin, end), first_rows(inputs.keys[0], 0, last), range(0, end));
    }
    const Comparison comparison = compare(head.scores(), whole, tolerance::float64_sum);
    INFO(comparison.describe());
    CHECK(comparison.within());
  }
}

TEST_CASE("the sum is the column sum of the attention, the mean divides by who could see") {
  const Inputs inputs = square_inputs(10);
  const std::vector<double> sum = score(H2O{}, inputs)[1];
  const std::vector<double> mean = score(H2O{Accumulation::mean, 1}, inputs)[1];
  const Matrix a = causal_attention(inputs.queries[2], range(0, 10), inputs.keys[1], range(0, 10));
  const Matrix b = causal_attention(inputs.queries[3], range(0, 10), inputs.keys[1], range(0, 10));
  double total = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    double column = 0;
    for (std::size_t q = 0; q < 10; ++q) column += (a(q, i) + b(q, i)) / 2;
    CHECK(sum[i] == Approx(column));
    CHECK(mean[i] == Approx(column / static_cast<double>(10 - i)));
    total += sum[i];
  }
  CHECK(total == Approx(10.0));
}

TEST_CASE("decay of 1 is the sum, of 0 the last query alone") {
  const Inputs inputs = square_inputs(8);
  CHECK(score(H2O{Accumulation::decay, 1}, inputs) == score(H2O{}, inputs));
  const std::vector<double> last = score(H2O{Accumulation::decay, 0}, inputs)[0];
  const Matrix a = causal_attention(inputs.queries[0], range(0, 8), inputs.keys[0], range(0, 8));
  const Matrix b = causal_attention(inputs.queries[1], range(0, 8), inputs.keys[0], range(0, 8));
  for (std::size_t i = 0; i < 8; ++i) CHECK(last[i] == Approx((a(7, i) + b(7, i)) / 2));
}

TEST_CASE("compaction keeps the mass and the counts of the rows that stay") {
  const Inputs inputs = square_inputs(6);
  for (const H2O& policy : every_form) {
    H2OHead head(policy);
    head.observe({inputs.queries[0], inputs.queries[1]}, range(0, 6), inputs.keys[0], range(0, 6));
    const std::vector<double> before = head.scores();
    head.compact({1, 4});
    CHECK(head.scores() == std::vector<double>{before[1], before[4]});
  }
}

TEST_CASE("the decoding run never exceeds its budget and keeps the latest rows") {
  const Inputs inputs = square_inputs(20);
  const H2ODecode run = h2o_decode(H2O{}, inputs, 20, 3, 2);
  for (const std::vector<Positions>& head : run.kept) {
    REQUIRE(head.size() == 20);
    for (std::size_t t = 0; t < 20; ++t) {
      CHECK(head[t].size() == std::min<std::size_t>(t + 1, 5));
      CHECK(head[t].back() == static_cast<std::int64_t>(t));
      if (t > 0) CHECK(head[t][head[t].size() - 2] == static_cast<std::int64_t>(t) - 1);
    }
  }
}
