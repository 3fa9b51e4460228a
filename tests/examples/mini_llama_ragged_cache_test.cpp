// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "error.hpp"
#include "mini_llama_errors.hpp"
#include "ragged_cache.hpp"

namespace mini_llama_ragged_cache_test {

namespace {

using namespace mini_llama;
using namespace mini_llama_test;

constexpr Index key_dim = 3;
constexpr Index value_dim = 5;

RaggedCache make_cache(RowType type) { return RaggedCache({2, 2, key_dim, value_dim, type}); }

// A value that tells layer, head, position and column apart, exact in half.
float marker(Index layer, Index head, std::int32_t position, Index column) {
  return static_cast<float>(layer * 512 + head * 256 + position * 8 + column);
}

void append(RaggedCache& cache, Index layer, Index head,
            const std::vector<std::int32_t>& positions) {
  const Index rows = std::ssize(positions);
  // Wider than the rows, so that strides count.
  Matrix keys = Matrix::Constant(rows, key_dim + 2, -1.0f);
  Matrix values = Matrix::Constant(rows, value_dim + 4, -1.0f);
  for (Index r = 0; r < rows; ++r) {
    const std::int32_t position = positions[to_size(r)];
    for (Index c = 0; c < key_dim; ++c) keys(r, 1 + c) = marker(layer, head, position, c);
    for (Index c = 0; c < value_dim; ++c) values(r, 2 + c) = -marker(layer, head, position, c);
  }
  cache.append(layer, head, positions, keys.middleCols(1, key_dim),
               values.middleCols(2, value_dim));
}

void require_rows(const RaggedCache& cache, Index layer, Index head,
                  const std::vector<std::int32_t>& positions) {
  INFO("layer " << layer << ", head " << head);
  const auto held = cache.positions(layer, head);
  REQUIRE(std::vector<std::int32_t>(held.begin(), held.end()) == positions);
  REQUIRE(cache.rows(layer, head) == std::ssize(positions));
  std::vector<float> key_scratch;
  std::vector<float> value_scratch;
  const auto keys = cache.float_keys(layer, head, 0, std::ssize(positions), key_scratch);
  const auto values = cache.float_values(layer, head, 0, std::ssize(positions), value_scratch);
  for (Index r = 0; r < std::ssize(positions); ++r) {
    const std::int32_t position = positions[to_size(r)];
    for (Index c = 0; c < key_dim; ++c) REQUIRE(keys(r, c) == marker(layer, head, position, c));
    for (Index c = 0; c < value_dim; ++c) {
      REQUIRE(values(r, c) == -marker(layer, head, position, c));
    }
  }
}

RaggedCache filled(RowType type) {
  RaggedCache cache = make_cache(type);
  append(cache, 0, 0, {0, 1, 2, 3, 4});
  append(cache, 0, 1, {1, 4});
  append(cache, 1, 1, {0, 2, 3});
  append(cache, 0, 1, {7});
  cache.advance(8);
  return cache;
}

TEST_CASE("mini_llama cache: heads hold rows of their own", "[mini_llama]") {
  const RowType type = GENERATE(RowType::float32, RowType::float16);
  const RaggedCache cache = filled(type);
  require_rows(cache, 0, 0, {0, 1, 2, 3, 4});
  require_rows(cache, 0, 1, {1, 4, 7});
  require_rows(cache, 1, 0, {});
  require_rows(cache, 1, 1, {0, 2, 3});
  CHECK(cache.next_position() == 8);
  CHECK(cache.total_rows() == 11);
  CHECK(cache.bytes() == 11 * ((key_dim + value_dim) * element_bytes(type) + 4));
  CHECK(cache.capacity_bytes() >= cache.bytes());
  CHECK_NOTHROW(cache.check());
}

TEST_CASE("mini_llama cache: part of the rows", "[mini_llama]") {
  const RaggedCache cache = filled(GENERATE(RowType::float32, RowType::float16));
  std::vector<float> scratch;
  const auto keys = cache.float_keys(0, 0, 3, 2, scratch);
  CHECK(keys(0, 0) == marker(0, 0, 3, 0));
  CHECK(keys(1, 2) == marker(0, 0, 4, 2));
  CHECK(throws_with<ArgumentError>([&] { cache.float_keys(0, 0, 4, 2, scratch); }, {"has 5"}));
  CHECK(throws_with<ArgumentError>([&] { cache.float_values(0, 0, -1, 2, scratch); }, {"has 5"}));
}

TEST_CASE("mini_llama cache: eviction by moving rows and shrinking gives memory back",
          "[mini_llama]") {
  RaggedCache cache = filled(RowType::float32);
  // Keep rows 1 and 4 of head (0, 0).
  float* keys = cache.keys<float>(0, 0);
  float* values = cache.values<float>(0, 0);
  std::int32_t* positions = cache.positions(0, 0);
  Index to = 0;
  for (const Index from : {1, 4}) {
    std::copy_n(keys + from * key_dim, key_dim, keys + to * key_dim);
    std::copy_n(values + from * value_dim, value_dim, values + to * value_dim);
    positions[to++] = positions[from];
  }
  cache.shrink(0, 0, 2);
  require_rows(cache, 0, 0, {1, 4});
  require_rows(cache, 0, 1, {1, 4, 7});
  CHECK(cache.next_position() == 8);
  CHECK_NOTHROW(cache.check());

  for (Index layer = 0; layer < 2; ++layer) {
    for (Index head = 0; head < 2; ++head) cache.shrink(layer, head, cache.rows(layer, head));
  }
  CHECK(cache.capacity_bytes() == cache.bytes());
  append(cache, 0, 0, {8});
  require_rows(cache, 0, 0, {1, 4, 8});
  cache.shrink(0, 0, 0);
  require_rows(cache, 0, 0, {});
}

TEST_CASE("mini_llama cache: growing keeps an eighth in reserve, not the double", "[mini_llama]") {
  RaggedCache cache = make_cache(RowType::float16);
  for (std::int32_t position = 0; position < 5000; ++position) append(cache, 0, 0, {position});
  // An eighth of the needed bytes, rounded down, at the last growth.
  CHECK(cache.capacity_bytes() <= cache.bytes() + cache.bytes() / 8);
}

TEST_CASE("mini_llama cache: copies are deep", "[mini_llama]") {
  const RaggedCache original = filled(RowType::float16);
  RaggedCache copy = original;
  append(copy, 1, 0, {5});
  copy.shrink(0, 0, 1);
  copy.positions(1, 1)[0] = 1;
  copy.advance(3);
  require_rows(original, 0, 0, {0, 1, 2, 3, 4});
  require_rows(original, 1, 0, {});
  require_rows(original, 1, 1, {0, 2, 3});
  CHECK(original.next_position() == 8);
  require_rows(copy, 1, 0, {5});
  CHECK(copy.next_position() == 11);
}

TEST_CASE("mini_llama cache: rewind removes what came at or after a position", "[mini_llama]") {
  RaggedCache cache = filled(RowType::float32);
  cache.rewind(3);
  require_rows(cache, 0, 0, {0, 1, 2});
  require_rows(cache, 0, 1, {1});
  require_rows(cache, 1, 1, {0, 2});
  CHECK(cache.next_position() == 3);
}

TEST_CASE("mini_llama cache: rows in half are rounded to nearest", "[mini_llama]") {
  RaggedCache cache({1, 1, 2, 1, RowType::float16});
  Matrix keys(1, 2);
  keys << 1.0f + 0x1p-11f, 65504.0f;
  cache.append(0, 0, std::vector<std::int32_t>{0}, keys, Matrix::Constant(1, 1, 0x1p-24f));
  std::vector<float> scratch;
  CHECK(cache.float_keys(0, 0, 0, 1, scratch)(0, 0) == 1.0f);
  CHECK(cache.float_keys(0, 0, 0, 1, scratch)(0, 1) == 65504.0f);
  CHECK(cache.float_values(0, 0, 0, 1, scratch)(0, 0) == 0x1p-24f);

  // A caller's own 16-bit type.
  struct Half {
    std::uint16_t bits;
  };
  CHECK(cache.keys<Half>(0, 0)->bits == 0x3c00);
}

TEST_CASE("mini_llama cache: errors name what is wrong and change nothing", "[mini_llama]") {
  RaggedCache cache = filled(RowType::float16);
  SECTION("shape") {
    CHECK(throws_with<ArgumentError>(
        [] {
          RaggedCache({1, 0, 2, 2, RowType::float32});
        },
        {"0 heads", "positive"}));
  }
  SECTION("head out of range") {
    CHECK(throws_with<ArgumentError>([&] { cache.rows(0, 2); }, {"head 2", "2 heads"}));
    CHECK(throws_with<ArgumentError>([&] { cache.shrink(-1, 0, 0); }, {"layer -1"}));
  }
  SECTION("elements of another size") {
    CHECK(throws_with<ArgumentError>([&] { cache.keys<float>(0, 0); }, {"4 bytes", "of 2"}));
  }
  SECTION("positions that do not ascend") {
    CHECK(throws_with<ArgumentError>([&] { append(cache, 0, 0, {4}); }, {"position 4 of row 0"}));
    CHECK(throws_with<ArgumentError>(
        [&] {
          append(cache, 0, 0, {9, 9});
        },
        {"position 9 of row 1"}));
    CHECK(throws_with<ArgumentError>([&] { append(cache, 1, 0, {-1}); }, {"position -1 of row 0"}));
  }
  SECTION("rows of another shape") {
    const std::vector<std::int32_t> positions{9};
    const Matrix keys = Matrix::Zero(1, key_dim);
    const Matrix values = Matrix::Zero(1, value_dim + 1);
    CHECK(throws_with<ArgumentError>([&] { cache.append(0, 0, positions, keys, values); },
                                     {"values [1, 6]", "[1, 5]"}));
  }
  SECTION("shrink to more") {
    CHECK(throws_with<ArgumentError>([&] { cache.shrink(0, 0, 6); }, {"rows is 6", "0 to 5"}));
  }
  SECTION("advance by less than nothing") {
    CHECK(throws_with<ArgumentError>([&] { cache.advance(-1); }, {"tokens is -1"}));
  }
  require_rows(cache, 0, 0, {0, 1, 2, 3, 4});
  require_rows(cache, 0, 1, {1, 4, 7});
  CHECK(cache.next_position() == 8);
}

TEST_CASE("mini_llama cache: check finds what a wrong eviction leaves behind", "[mini_llama]") {
  RaggedCache cache = filled(RowType::float32);
  SECTION("order") {
    std::swap(cache.positions(1, 1)[1], cache.positions(1, 1)[2]);
    CHECK(throws_with<ArgumentError>([&] { cache.check(); },
                                     {"layer 1, head 1", "position 2 of row 2"}));
  }
  SECTION("negative") {
    cache.positions(1, 1)[0] = -1;
    CHECK(throws_with<ArgumentError>([&] { cache.check(); }, {"position -1 of row 0"}));
  }
  SECTION("a position that has not been") {
    cache.positions(0, 1)[2] = 8;
    CHECK(throws_with<ArgumentError>([&] { cache.check(); },
                                     {"layer 0, head 1", "position is 8", "is 8"}));
  }
}

}  // namespace

}  // namespace mini_llama_ragged_cache_test
