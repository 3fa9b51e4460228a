// SPDX-License-Identifier: Apache-2.0
// Running query statistics over long sequences: forgetting, drift, blobs.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/cpu/query_stats.hpp"
#include "kvevict/query_stats.hpp"
#include "support/allocation_counter.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace running_stats_test {

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::ErrorKind;
using kvevict::QueriesView;
using kvevict::QueryStats;
using kvevict::Rope;
using kvevict::RunningQueryStats;

namespace {

constexpr std::int64_t heads = 2;
constexpr std::int64_t dim = 6;

// Queries with a mean far from zero, [head][query][dim].
std::vector<float> some_queries(std::int64_t count, std::uint64_t seed) {
  std::vector<float> queries = random_values(Shape::normal, heads * count * dim, seed);
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] += static_cast<float>(i % 3) * 10.0f;
  return queries;
}

QueriesView<> part(const std::vector<float>& queries, std::int64_t all, std::int64_t first,
                   std::int64_t count) {
  return QueriesView<>::strided(queries.data() + first * dim, heads, count, dim, all * dim, dim);
}

// Weighted mean and covariance by two passes in double, weights decay^(16 blocks of age).
struct Weighted {
  std::vector<double> mean;        // [head][dim]
  std::vector<double> covariance;  // [head][dim][dim]

  Weighted(const std::vector<float>& queries, std::int64_t all, std::int64_t count, double decay)
      : mean(heads * dim), covariance(heads * dim * dim) {
    const std::int64_t last = (count - 1) / 16;
    const auto at = [&](std::int64_t h, std::int64_t i, std::int64_t c) {
      return static_cast<double>(queries[static_cast<std::size_t>((h * all + i) * dim + c)]);
    };
    for (std::int64_t h = 0; h < heads; ++h) {
      double total = 0.0;
      for (std::int64_t i = 0; i < count; ++i) {
        const double weight = std::pow(decay, static_cast<double>(16 * (last - i / 16)));
        total += weight;
        for (std::int64_t c = 0; c < dim; ++c) {
          mean[static_cast<std::size_t>(h * dim + c)] += weight * at(h, i, c);
        }
      }
      for (std::int64_t c = 0; c < dim; ++c) mean[static_cast<std::size_t>(h * dim + c)] /= total;
      for (std::int64_t i = 0; i < count; ++i) {
        const double weight = std::pow(decay, static_cast<double>(16 * (last - i / 16))) / total;
        for (std::int64_t r = 0; r < dim; ++r) {
          for (std::int64_t c = 0; c < dim; ++c) {
            covariance[static_cast<std::size_t>((h * dim + r) * dim + c)] +=
                weight * (at(h, i, r) - mean[static_cast<std::size_t>(h * dim + r)]) *
                (at(h, i, c) - mean[static_cast<std::size_t>(h * dim + c)]);
          }
        }
      }
    }
  }
};

// Doubles rounded to fp32 once; entries of a covariance cancel from terms of size one.
constexpr Tolerance stats_tolerance{0x1p-22, 1e-6};

void require_same(QueryStats got, const Weighted& want) {
  Comparison comparison;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t r = 0; r < dim; ++r) {
      add(comparison, got.mean(h)[r], want.mean[static_cast<std::size_t>(h * dim + r)],
          stats_tolerance);
      for (std::int64_t c = 0; c < dim; ++c) {
        const double entry = want.covariance[static_cast<std::size_t>((h * dim + r) * dim + c)];
        if (got.covariance() == Covariance::full) {
          add(comparison, got.second(h)[r * dim + c], entry, stats_tolerance);
        } else if (got.covariance() == Covariance::diagonal && r == c) {
          add(comparison, got.second(h)[r], entry, stats_tolerance);
        }
      }
    }
  }
  INFO(comparison.describe());
  REQUIRE(comparison.within());
}

std::vector<float> numbers(QueryStats stats) {
  std::vector<float> all;
  for (std::int64_t h = 0; h < heads; ++h) {
    all.insert(all.end(), stats.mean(h), stats.mean(h) + dim);
    all.insert(all.end(), stats.second(h), stats.second(h) + stats.second_size());
  }
  return all;
}

}  // namespace

TEST_CASE("older queries weigh less, whatever the chunks", "[decode][query_stats]") {
  constexpr std::int64_t all = 150;
  const std::vector<float> queries = some_queries(all, 1);
  TestResources res({.threads = 2});
  for (const Covariance kind : {Covariance::none, Covariance::diagonal, Covariance::full}) {
    for (const double decay : {1.0, 0.99, 0.8, 1e-3}) {
      for (const std::int64_t chunk : {1, 5, 16, 33, 150}) {
        INFO("decay " << decay << " chunk " << chunk);
        RunningQueryStats running(heads, dim, Rope{}, kind, decay);
        for (std::int64_t first = 0; first < all; first += chunk) {
          const std::int64_t count = std::min(chunk, all - first);
          running.observe(res, part(queries, all, first, count));
        }
        require_same(running.finish_unrotated(res), Weighted(queries, all, all, decay));
      }
    }
  }
}

TEST_CASE("queries that are skipped are not counted", "[decode][query_stats]") {
  const std::vector<float> queries = some_queries(40, 2);
  TestResources res({.threads = 1});
  RunningQueryStats skipping(heads, dim, Rope{}, Covariance::full, 0.9);
  skipping.observe(res, part(queries, 40, 0, 20), 7);
  skipping.observe(res, part(queries, 40, 20, 20), 20);
  skipping.observe(res, part(queries, 40, 20, 20));
  RunningQueryStats plain(heads, dim, Rope{}, Covariance::full, 0.9);
  plain.observe(res, part(queries, 40, 7, 33));
  CHECK(skipping.count() == 33);
  // The same queries in the same blocks, added up in other tiles.
  const auto got = numbers(skipping.finish_unrotated(res));
  const Comparison comparison = compare(
      got,
      [&] {
        const auto want = numbers(plain.finish_unrotated(res));
        return std::vector<double>(want.begin(), want.end());
      }(),
      stats_tolerance);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("a hundred thousand steps do not drift", "[decode][query_stats]") {
  constexpr std::int64_t period = 64;
  const std::vector<float> queries = some_queries(period, 3);
  TestResources res({.threads = 1});
  RunningQueryStats everything(heads, dim, Rope{}, Covariance::full);
  RunningQueryStats forgetting(heads, dim, Rope{}, Covariance::full, 0.99);
  for (std::int64_t step = 0; step < 100000 / period * period; ++step) {
    const QueriesView<> query = part(queries, period, step % period, 1);
    everything.observe(res, query);
    forgetting.observe(res, query);
  }
  // The same queries over and over: their own mean and covariance.
  require_same(everything.finish_unrotated(res), Weighted(queries, period, period, 1.0));
  // What is older than 4000 queries weighs less than 1e-17: a sequence of that length is the same.
  constexpr std::int64_t enough = 4096;
  std::vector<float> repeated;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < enough; ++i) {
      const auto* from = queries.data() + (h * period + i % period) * dim;
      repeated.insert(repeated.end(), from, from + dim);
    }
  }
  require_same(forgetting.finish_unrotated(res), Weighted(repeated, enough, enough, 0.99));
}

TEST_CASE("statistics go on from their blob, bit by bit", "[decode][query_stats]") {
  const std::vector<float> queries = some_queries(90, 4);
  TestResources res({.threads = 2});
  const std::vector<double> table = {1.0, 0.3};
  for (const Rope& rope : {Rope{}, Rope{.pairing = kvevict::RopePairing::adjacent,
                                   .rotary_dim = 4,
                                   .frequencies = table,
                                   .attention_factor = 1.25}}) {
    for (const Covariance kind : {Covariance::none, Covariance::diagonal, Covariance::full}) {
      for (const std::int64_t before : {0, 1, 37}) {
        RunningQueryStats one(heads, dim, rope, kind, 0.9);
        one.observe(res, part(queries, 90, 0, before));
        RunningQueryStats other(heads, dim, rope, kind, 0.9);
        other.observe(res, part(queries, 90, 50, 40));
        other.restore(res, one.save(res));
        CHECK(other.count() == before);
        one.observe(res, part(queries, 90, before, 20));
        other.observe(res, part(queries, 90, before, 20));
        CHECK(numbers(one.finish(res, {57, 16})) == numbers(other.finish(res, {57, 16})));
      }
    }
  }
}

TEST_CASE("statistics of another kind are refused", "[decode][query_stats]") {
  const std::vector<float> queries = some_queries(9, 5);
  TestResources res({.threads = 1});
  RunningQueryStats one(heads, dim, Rope{}, Covariance::full, 0.9);
  one.observe(res, part(queries, 9, 0, 9));
  const std::vector<std::byte> blob = one.save(res);
  const auto refuses = [&](RunningQueryStats other) {
    other.observe(res, part(queries, 9, 0, 9));
    const auto before = numbers(other.finish_unrotated(res));
    const std::string text = refused([&] { other.restore(res, blob); });
    CHECK(numbers(other.finish_unrotated(res)) == before);
    return text;
  };
  CHECK(refuses(RunningQueryStats(heads, dim, Rope{}, Covariance::full, 0.8)) ==
        "query_stats.decay is 0.9, must be equal to 0.8");
  CHECK(refuses(RunningQueryStats(heads, dim, Rope{}, Covariance::none, 0.9)) ==
        "query_stats.covariance is 'full', must be 'none'");
  CHECK(refuses(RunningQueryStats(heads, dim, Rope{.theta = 2.0}, Covariance::full, 0.9)) ==
        "rope.theta is 10000, must be equal to 2");
  CHECK(refuses(RunningQueryStats(heads, dim, Rope{.rotary_dim = 2}, Covariance::full, 0.9)) ==
        "rope.rotary_dim is -1, must be equal to 2");
  const std::vector<double> table = {1.0, 0.3, 0.1};
  CHECK(refuses(RunningQueryStats(heads, dim, Rope{.frequencies = table}, Covariance::full, 0.9)) ==
        "rope.frequencies is other ones, must be equal to those given");
  RunningQueryStats single(1, dim, Rope{}, Covariance::full, 0.9);
  CHECK(refused([&] { single.restore(res, blob); }) ==
        "query_stats.heads is 2, must be equal to 1");

  CHECK(refused([] { RunningQueryStats(heads, dim, Rope{}, Covariance::full, 0.0); }) ==
        "decay is 0, must be in (0, 1]");
  CHECK(refused([] { RunningQueryStats(heads, dim, Rope{}, Covariance::full, 1.5); }) ==
        "decay is 1.5, must be in (0, 1]");
  RunningQueryStats more(heads, dim, Rope{}, Covariance::full, 0.9);
  CHECK(refused([&] { more.merge(res, one); }, ErrorKind::unsupported) ==
        "decay is 0.9, must be 1");
}

TEST_CASE("finishing again allocates nothing", "[decode][query_stats]") {
  const std::vector<float> queries = some_queries(9, 6);
  TestResources res({.threads = 1});
  RunningQueryStats running(heads, dim, Rope{}, Covariance::full);
  running.observe(res, part(queries, 9, 0, 9));
  kvevict::MeanRotation rotation;
  QueryStats stats(res, heads, dim, Covariance::full);
  running.finish_into(res, {9, 16}, rotation, stats);
  CHECK(numbers(stats) == numbers(running.finish(res, {9, 16})));
  const AllocationScope scope;
  running.finish_into(res, {20, 16}, rotation, stats);
  CHECK(scope.count().allocations == 0);
  QueryStats other(res, heads, dim, Covariance::diagonal);
  CHECK(refused([&] {
          running.finish_into(res, {9, 16}, rotation, other);
        }) == "stats.covariance is diagonal, must be full");
}

}  // namespace running_stats_test
