// SPDX-License-Identifier: Apache-2.0
#include "kvevict/query_stats.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/cpu/query_stats.hpp"
#include "ops/attention_case.hpp"
#include "reference/linear.hpp"
#include "reference/query_stats.hpp"
#include "support/backend.hpp"
#include "support/tolerance.hpp"

namespace query_stats_test {

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::QueryStats;
using kvevict::Rope;
using kvevict::RopePairing;
using kvevict::RunningQueryStats;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t dim = 12;

// Everything is computed in double and stored once in fp32; entries of a covariance of unit normal
// queries cancel from terms of size one.
constexpr Tolerance stats_tolerance{0x1p-23, 1e-7};

struct Case {
  std::string name;
  Rope rope;
};

std::vector<double> given_table() { return {1.0, 0.3, 0.01, 0.002}; }

std::vector<Case> cases() {
  static const std::vector<double> table = given_table();
  return {{"half", {.theta = 1e4}},
          {"adjacent", {.theta = 1e5, .pairing = RopePairing::adjacent}},
          {"partial half", {.theta = 1e4, .rotary_dim = 8}},
          {"partial adjacent", {.theta = 1e4, .pairing = RopePairing::adjacent, .rotary_dim = 4}},
          {"table", {.rotary_dim = 8, .frequencies = table}},
          {"attention factor",
           {.pairing = RopePairing::adjacent,
            .rotary_dim = 8,
            .frequencies = table,
            .attention_factor = 1.25}},
          {"none", {.rotary_dim = 0}}};
}

reference::Rope reference_rope(const Rope& rope) {
  reference::Rope out;
  for (std::int64_t j = 0; j < rope.rotated(dim) / 2; ++j) {
    out.frequencies.push_back(rope.frequencies.empty()
                                  ? std::pow(rope.theta, -2.0 * static_cast<double>(j) /
                                                             static_cast<double>(rope.rotated(dim)))
                                  : rope.frequencies[static_cast<std::size_t>(j)]);
  }
  out.pairing =
      rope.pairing == RopePairing::half ? reference::Pairing::half : reference::Pairing::adjacent;
  out.attention_factor = rope.attention_factor;
  return out;
}

void require_same(QueryStats& got, const reference::QueryStats& want, Tolerance tolerance) {
  Comparison comparison;
  for (std::int64_t q = 0; q < got.heads(); ++q) {
    const auto head = static_cast<std::size_t>(q);
    for (std::size_t c = 0; c < dim; ++c) {
      add(comparison, got.mean(q)[c], want.mean[head][c], tolerance);
      if (got.covariance() == Covariance::diagonal) {
        add(comparison, got.second(q)[c], want.covariance[head](c, c), tolerance);
      }
      for (std::size_t r = 0; r < dim && got.covariance() == Covariance::full; ++r) {
        add(comparison, got.second(q)[r * dim + c], want.covariance[head](r, c), tolerance);
      }
    }
  }
  INFO(comparison.describe());
  REQUIRE(comparison.within());
}

std::vector<float> numbers(QueryStats& stats) {
  std::vector<float> out;
  const std::int64_t second = stats.covariance() == Covariance::none   ? 0
                              : stats.covariance() == Covariance::full ? dim * dim
                                                                       : dim;
  for (std::int64_t q = 0; q < stats.heads(); ++q) {
    out.insert(out.end(), stats.mean(q), stats.mean(q) + dim);
    out.insert(out.end(), stats.second(q), stats.second(q) + second);
  }
  return out;
}

constexpr Covariance kinds[] = {Covariance::none, Covariance::diagonal, Covariance::full};

}  // namespace

TEST_CASE("future statistics agree with matrices in double", "[front][query_stats]") {
  for (const Case& c : cases()) {
    for (const std::int64_t count : {5, 127, 128, 300}) {
      const QueriesCase<float> queries(heads, count, dim, 3);
      const reference::QueryStats want =
          reference::future_query_stats(queries.exact, 4, 1000, 37, reference_rope(c.rope));
      for (const Covariance kind : kinds) {
        INFO(c.name << ", " << count << " queries, covariance " << static_cast<int>(kind));
        std::vector<float> first;
        for (const int threads : {1, 3}) {
          TestResources res({.threads = threads});
          QueryStats got = estimate_query_stats(
              res, queries.view(), c.rope,
              {.next_position = 1000, .future = 37, .skip_first = 4, .covariance = kind});
          require_same(got, want, stats_tolerance);
          if (threads == 1) first = numbers(got);
          REQUIRE(numbers(got) == first);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("queries of 16-bit types", "[front][query_stats]", kvevict::half,
                   kvevict::bfloat16) {
  const QueriesCase<TestType> queries(heads, 60, dim, 4);
  TestResources res({.threads = 2});
  const Rope rope{.theta = 1e4};
  QueryStats got = estimate_query_stats(
      res, queries.view(), rope,
      {.next_position = 60, .future = 16, .skip_first = 0, .covariance = Covariance::full});
  require_same(got, reference::future_query_stats(queries.exact, 0, 60, 16, reference_rope(rope)),
               stats_tolerance);
}

TEST_CASE("chunked, merged and whole agree to rounding", "[front][query_stats]") {
  const QueriesCase<float> queries(heads, 500, dim, 5, 3.0);
  TestResources res({.threads = 2});
  const Rope rope{.theta = 1e4};
  const kvevict::FutureSpan span{500, 64};
  const auto chunk = [&](std::int64_t first, std::int64_t count) {
    return kvevict::QueriesView<>::strided(queries.data.data() + first * dim, heads, count, dim,
                                           500 * dim, dim);
  };
  for (const Covariance kind : kinds) {
    RunningQueryStats whole(heads, dim, rope, kind);
    whole.observe(res, queries.view());
    RunningQueryStats chunked(heads, dim, rope, kind);
    RunningQueryStats merged(heads, dim, rope, kind);
    std::int64_t first = 0;
    for (const std::int64_t count : {1, 2, 130, 0, 7, 200, 160}) {
      chunked.observe(res, chunk(first, count));
      RunningQueryStats part(heads, dim, rope, kind);
      part.observe(res, chunk(first, count));
      merged.merge(res, part);
      first += count;
    }
    REQUIRE(first == 500);
    REQUIRE(chunked.count() == 500);
    REQUIRE(merged.count() == 500);
    QueryStats of_whole = whole.finish(res, span);
    const std::vector<float> want = numbers(of_whole);
    const std::vector<double> wide(want.begin(), want.end());
    for (const RunningQueryStats* other : {&chunked, &merged}) {
      QueryStats of_other = other->finish(res, span);
      const Comparison comparison = compare(numbers(of_other), wide, Tolerance{0x1p-22, 1e-7});
      INFO("covariance " << static_cast<int>(kind) << ": " << comparison.describe());
      REQUIRE(comparison.within());
    }
  }
}

TEST_CASE("statistics are stable far from zero", "[front][query_stats]") {
  // Queries at 1,000 with a spread of 1e-2: sums of squares would lose the variance in fp32.
  std::vector<float> data;
  const std::vector<float> noise = random_values(Shape::normal, 400 * dim, 6);
  for (const float x : noise) data.push_back(1000.0f + 0.01f * x);
  TestResources res({.threads = 1});
  RunningQueryStats running(1, dim, Rope{}, Covariance::diagonal);
  for (std::int64_t i = 0; i < 400; i += 10) {
    running.observe(res, kvevict::QueriesView<>::packed(data.data() + i * dim, 1, 10, dim));
  }
  QueryStats got = running.finish_unrotated(res);
  for (std::size_t c = 0; c < dim; ++c) {
    double mean = 0;
    double variance = 0;
    for (std::size_t i = 0; i < 400; ++i) mean += static_cast<double>(data[i * dim + c]) / 400;
    for (std::size_t i = 0; i < 400; ++i) {
      const double distance = static_cast<double>(data[i * dim + c]) - mean;
      variance += distance * distance / 400;
    }
    REQUIRE(got.second(0)[c] == Approx(variance).epsilon(1e-6));
  }
}

TEST_CASE("the diagonal is that of the full covariance, after the rotation",
          "[front][query_stats]") {
  const QueriesCase<float> queries(heads, 90, dim, 7);
  TestResources res({.threads = 1});
  for (const Case& c : cases()) {
    kvevict::QueryStatsOptions options{.next_position = 90, .future = 300};
    options.covariance = Covariance::diagonal;
    QueryStats diagonal = estimate_query_stats(res, queries.view(), c.rope, options);
    options.covariance = Covariance::full;
    QueryStats full = estimate_query_stats(res, queries.view(), c.rope, options);
    for (std::int64_t q = 0; q < heads; ++q) {
      for (std::size_t i = 0; i < dim; ++i) {
        INFO(c.name << ", head " << q << ", channel " << i);
        REQUIRE(diagonal.second(q)[i] == Approx(full.second(q)[i * dim + i]).epsilon(1e-6));
        for (std::size_t j = 0; j < dim; ++j) {
          REQUIRE(full.second(q)[i * dim + j] ==
                  Approx(full.second(q)[j * dim + i]).epsilon(1e-6).margin(1e-7));
        }
      }
    }
  }
}

TEST_CASE("one query has zero covariance", "[front][query_stats]") {
  const QueriesCase<float> queries(heads, 5, dim, 8);
  TestResources res({.threads = 1});
  for (const Covariance kind : {Covariance::diagonal, Covariance::full}) {
    QueryStats got = estimate_query_stats(
        res, queries.view(), Rope{},
        {.next_position = 5, .future = 8, .skip_first = 4, .covariance = kind});
    const std::int64_t size = kind == Covariance::full ? dim * dim : dim;
    for (std::int64_t q = 0; q < heads; ++q) {
      for (std::int64_t i = 0; i < size; ++i) REQUIRE(got.second(q)[i] == 0.0f);
    }
  }
}

TEST_CASE("skipped queries are not read", "[front][query_stats]") {
  QueriesCase<float> queries(heads, 40, dim, 9);
  TestResources res({.threads = 1});
  const kvevict::QueryStatsOptions options{
      .next_position = 40, .skip_first = 4, .covariance = Covariance::full};
  QueryStats before = estimate_query_stats(res, queries.view(), Rope{}, options);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < 4; ++i) queries.data[(h * 40 + i) * dim + i] = std::nanf("");
  }
  QueryStats after = estimate_query_stats(res, queries.view(), Rope{}, options);
  REQUIRE(numbers(before) == numbers(after));
}

TEST_CASE("post-RoPE queries are taken as they are", "[front][query_stats]") {
  TestResources res({.threads = 1});
  const QueriesCase<float> queries(heads, 40, dim, 10);
  for (const Covariance kind : kinds) {
    QueryStats got = window_query_stats(res, queries.view(), kind);
    require_same(got, reference::query_stats(queries.exact, 0), stats_tolerance);
    // The last 16 of them.
    QueryStats last = window_query_stats(res, queries.view().last(16), kind);
    require_same(last, reference::query_stats(queries.exact, 24), stats_tolerance);
  }
  // An odd dimension has no pairing of all channels, and needs none here.
  const QueriesCase<float> odd(1, 9, 7, 11);
  QueryStats of_odd = window_query_stats(res, odd.view(), Covariance::diagonal);
  double mean = 0;
  for (std::size_t i = 0; i < 9; ++i) mean += odd.exact[0](i, 6) / 9;
  REQUIRE(of_odd.mean(0)[6] == Approx(mean).epsilon(1e-6));
}

TEST_CASE("views give what was computed", "[front][query_stats]") {
  TestResources res({.threads = 1});
  const QueriesCase<float> queries(heads, 10, dim, 12);
  QueryStats none = window_query_stats(res, queries.view(), Covariance::none);
  REQUIRE(none.view().diagonal.empty());
  REQUIRE(none.view().covariance.empty());
  REQUIRE(none.view().mean(2, 3) == none.mean(2)[3]);
  QueryStats diagonal = window_query_stats(res, queries.view(), Covariance::diagonal);
  REQUIRE(diagonal.view().diagonal(1, 4) == diagonal.second(1)[4]);
  REQUIRE(diagonal.view().covariance.empty());
  QueryStats full = window_query_stats(res, queries.view(), Covariance::full);
  REQUIRE(full.view().covariance(2, 3, 5) == full.second(2)[3 * dim + 5]);
  REQUIRE(full.view().diagonal.empty());
}

TEST_CASE("reset forgets everything", "[front][query_stats]") {
  TestResources res({.threads = 1});
  const QueriesCase<float> one(heads, 30, dim, 13);
  const QueriesCase<float> two(heads, 20, dim, 14);
  RunningQueryStats again(heads, dim, Rope{}, Covariance::full);
  again.observe(res, one.view());
  again.reset();
  REQUIRE(again.count() == 0);
  again.observe(res, two.view());
  RunningQueryStats fresh(heads, dim, Rope{}, Covariance::full);
  fresh.observe(res, two.view());
  QueryStats a = again.finish(res, {100, 10});
  QueryStats b = fresh.finish(res, {100, 10});
  REQUIRE(numbers(a) == numbers(b));
}

}  // namespace query_stats_test
