// SPDX-License-Identifier: Apache-2.0
#include "kvevict/query_ring.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "support/allocation_counter.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace query_ring_test {

using namespace kvevict_test;
using kvevict::QueriesView;
using kvevict::QueryRing;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t dim = 5;

float number(std::int64_t head, std::int64_t position, std::int64_t channel) {
  // Exact in 16-bit types.
  return static_cast<float>((position * 7 + head * 3 + channel) % 64);
}

template <class T>
struct Chunk {
  std::vector<T> data;
  std::int64_t count;

  Chunk(std::int64_t first, std::int64_t n) : count(n) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t p = first; p < first + n; ++p) {
        for (std::int64_t c = 0; c < dim; ++c) data.push_back(T(number(h, p, c)));
      }
    }
  }
  QueriesView<> view() const { return QueriesView<>::packed(data.data(), heads, count, dim); }
};

// The ring holds the last min(window, seen) positions before `next`.
int differences(const QueryRing& ring, std::int64_t first, std::int64_t next) {
  int count = 0;
  const std::int64_t held = std::min(ring.window(), next - first);
  count += ring.count() == held ? 0 : 1;
  count += ring.next_position() == next ? 0 : 1;
  const QueriesView<> queries = ring.queries();
  count += queries.count() == held ? 0 : 1;
  for (std::int64_t i = 0; i < held; ++i) {
    const std::int64_t position = next - held + i;
    count += ring.positions().at(0, i) == position ? 0 : 1;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t c = 0; c < dim; ++c) {
        count += queries.at(h, i, c) == number(h, position, c) ? 0 : 1;
      }
    }
  }
  return count;
}

}  // namespace

TEMPLATE_TEST_CASE("the ring holds the last queries", "[decode][query_ring]", float, kvevict::half,
                   kvevict::bfloat16) {
  TestResources res({.threads = 2});
  const Random random(1);
  for (const std::int64_t window : {1, 2, 7, 16}) {
    for (const std::int64_t start : {0, 5, 1000}) {
      QueryRing ring(heads, dim, window);
      std::int64_t next = start;
      for (std::uint64_t step = 0; step < 120; ++step) {
        // Single tokens, chunks, chunks longer than the window.
        const std::int64_t tokens = step % 5 != 0 ? 1 : random.integer(step, 2 * window + 2);
        ring.append(res, Chunk<TestType>(next, tokens).view(), next);
        next += tokens;
        INFO("window " << window << " start " << start << " step " << step);
        REQUIRE(differences(ring, start, next) == 0);
      }
      // A new sequence.
      ring.reset();
      REQUIRE(ring.count() == 0);
      REQUIRE(ring.queries().count() == 0);
      ring.append(res, Chunk<TestType>(3, 2).view(), 3);
      REQUIRE(differences(ring, 3, 5) == 0);
    }
  }
}

TEST_CASE("a ring that is full allocates nothing", "[decode][query_ring]") {
  TestResources res({.threads = 1});
  QueryRing ring(heads, dim, 8);
  const Chunk<float> token(0, 1);
  ring.append(res, token.view(), 0);
  const AllocationScope scope;
  for (std::int64_t p = 1; p < 3000; ++p) ring.append(res, token.view(), p);
  CHECK(scope.count().allocations == 0);
}

TEST_CASE("a ring goes on from its blob", "[decode][query_ring]") {
  TestResources res({.threads = 1});
  for (const std::int64_t seen : {0, 1, 4, 9, 30}) {
    QueryRing ring(heads, dim, 6);
    ring.append(res, Chunk<float>(2, seen).view(), 2);
    const std::vector<std::byte> blob = ring.save(res);
    QueryRing other(heads, dim, 6);
    other.append(res, Chunk<float>(100, 3).view(), 100);
    other.restore(res, blob);
    REQUIRE(differences(other, 2, 2 + seen) == 0);
    other.append(res, Chunk<float>(2 + seen, 4).view(), 2 + seen);
    REQUIRE(differences(other, 2, 6 + seen) == 0);
  }
}

TEST_CASE("a ring refuses what is not its own", "[decode][query_ring]") {
  TestResources res({.threads = 1});
  CHECK(refused([] { QueryRing(0, 1, 1); }) == "heads is 0, must be >= 1");
  CHECK(refused([] { QueryRing(1, 0, 1); }) == "dim is 0, must be >= 1");
  CHECK(refused([] { QueryRing(1, 1, 0); }) == "window is 0, must be >= 1");
  QueryRing ring(heads, dim, 4);
  ring.append(res, Chunk<float>(0, 6).view(), 0);
  const std::vector<float> data(heads * dim * 4);
  CHECK(refused([&] { ring.append(res, Chunk<float>(0, 1).view(), 7); }) ==
        "first_position is 7, must be behind the queries held, 6");
  CHECK(refused([&] { ring.append(res, QueriesView<>::packed(data.data(), 2, 1, dim), 6); }) ==
        "queries.heads is 2, must be equal to 3");
  CHECK(refused([&] { ring.append(res, QueriesView<>::packed(data.data(), heads, 1, 4), 6); }) ==
        "queries.dim is 4, must be equal to 5");
  QueryRing empty(heads, dim, 4);
  CHECK(refused([&] { empty.append(res, Chunk<float>(0, 1).view(), -1); }) ==
        "first_position is -1, must be in [0, 2^31 - 1) with the queries behind it");
  CHECK(refused([&] { empty.append(res, Chunk<float>(0, 1).view(), INT32_MAX); }) ==
        "first_position is 2147483647, must be in [0, 2^31 - 1) with the queries behind it");
  const std::vector<std::byte> blob = ring.save(res);
  for (const QueryRing& shape :
       {QueryRing(2, dim, 4), QueryRing(heads, 4, 4), QueryRing(heads, dim, 5)}) {
    QueryRing other = shape;
    CHECK_THROWS_AS(other.restore(res, blob), kvevict::Error);
    CHECK(other.count() == 0);
  }
  CHECK(differences(ring, 0, 6) == 0);
}

}  // namespace query_ring_test
