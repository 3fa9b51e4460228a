// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/gather.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/gather.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

namespace gather_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::RowLayout;
using kvevict::Selection;
using HostPositions = kvevict::Positions<>;
using WritablePositions = kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>;

namespace {

// Every subset of the rows with the given probability, one per head.
Selection random_selection(const RowLayout<>& layout, double probability, std::uint64_t seed) {
  const Random random(seed);
  std::vector<std::int32_t> all;
  std::vector<std::int64_t> counts;
  std::uint64_t next = 0;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    counts.push_back(0);
    for (std::int64_t i = 0; i < layout.rows(h); ++i) {
      if (random.uniform(next++) >= probability) continue;
      all.push_back(static_cast<std::int32_t>(i));
      ++counts.back();
    }
  }
  Selection selection;
  std::copy(all.begin(), all.end(), selection.reshape(counts));
  return selection;
}

template <class T>
std::vector<unsigned char> bytes_of(const std::vector<T>& memory) {
  std::vector<unsigned char> bytes(memory.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), memory.data(), bytes.size());
  return bytes;
}

bool same_bytes(const void* a, const void* b, std::size_t count) {
  return std::memcmp(a, b, count) == 0;
}

}  // namespace

TEMPLATE_TEST_CASE("compaction in place moves the kept rows and nothing else", "[ops][gather]",
                   float, half, bfloat16) {
  for_each_rows_case<TestType>(
      [](const RowsCase<TestType>& rows) {
        for (const double probability : {0.0, 0.1, 0.5, 0.9, 1.0}) {
          const Selection kept = random_selection(rows.layout(), probability, 5);
          // What must come out, byte by byte: kept rows in front, everything else as it was.
          RowsCase<TestType> want = rows.copy();
          for (std::int64_t h = 0; h < rows.heads(); ++h) {
            for (std::int64_t j = 0; j < kept.count(h); ++j) {
              for (std::int64_t c = 0; c < rows.dim(); ++c) {
                want.writable().head(h)(j, c) =
                    rows.view().head(h)(kept.head(h)[static_cast<std::size_t>(j)], c);
              }
            }
          }
          for (const int threads : {1, 3}) {
            RowsCase<TestType> once = rows.copy();
            TestResources res({.threads = threads});
            compact_rows(res, kept.view(), once.writable());
            INFO(rows.describe() << ", probability " << probability << ", threads " << threads);
            REQUIRE(bytes_of(once.memory()) == bytes_of(want.memory()));
          }
        }
      },
      {1, 3, 64});
}

TEMPLATE_TEST_CASE("gathering writes the kept rows of another layout and nothing else",
                   "[ops][gather]", float, half, bfloat16) {
  for_each_rows_case<TestType>(
      [](const RowsCase<TestType>& rows) {
        const Selection kept = random_selection(rows.layout(), 0.4, 6);
        std::vector<std::int64_t> counts;
        for (std::int64_t h = 0; h < kept.heads(); ++h) counts.push_back(kept.count(h));
        for (const RowsForm form : ragged_forms) {
          RowsCase<TestType> target(form, counts, rows.dim(), 77);
          RowsCase<TestType> want = target.copy();
          const auto before = bytes_of(rows.memory());
          for (std::int64_t h = 0; h < rows.heads(); ++h) {
            for (std::int64_t j = 0; j < kept.count(h); ++j) {
              for (std::int64_t c = 0; c < rows.dim(); ++c) {
                want.writable().head(h)(j, c) =
                    rows.view().head(h)(kept.head(h)[static_cast<std::size_t>(j)], c);
              }
            }
          }
          TestResources res({.threads = 2});
          gather_rows(res, kept.view(), rows.view(), target.writable());
          INFO(rows.describe() << ", to form " << static_cast<int>(form));
          REQUIRE(bytes_of(target.memory()) == bytes_of(want.memory()));
          REQUIRE(bytes_of(rows.memory()) == before);
        }
      },
      {1, 17, 64});
}

TEST_CASE("rows are copied bit by bit, whatever they hold", "[ops][gather]") {
  // All bit patterns of 16 bits, signalling NaN among them.
  std::vector<half> data;
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    data.push_back(half::from_bits(static_cast<std::uint16_t>(bits)));
  }
  std::vector<half> copy = data;
  Selection kept;
  const std::vector<std::int64_t> counts = {4095};
  std::int32_t* out = kept.reshape(counts);
  for (std::int32_t i = 0; i < 4095; ++i) out[i] = i + 1;
  TestResources res({.threads = 1});
  compact_rows(res, kept.view(),
               kvevict::RowsView<half>::strided(copy.data(), 1, 4096, 16, 65536, 16));
  REQUIRE(same_bytes(copy.data(), data.data() + 16, 4095 * 16 * sizeof(half)));
  REQUIRE(same_bytes(copy.data() + 4095 * 16, data.data() + 4095 * 16, 16 * sizeof(half)));
}

TEST_CASE("positions are gathered in every form", "[ops][gather]") {
  const std::vector<std::int64_t> offsets = {0, 4, 4, 9};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  Selection kept;
  const std::vector<std::int64_t> counts = {2, 0, 3};
  std::int32_t* indices = kept.reshape(counts);
  for (const std::int32_t i : {1, 3, 0, 2, 4}) *indices++ = i;
  const std::vector<std::int32_t> stored = {10, 20, 30, 40, 5, 6, 7, 8, 9};
  const std::vector<std::int32_t> shared = {2, 4, 8, 16, 32};
  const std::int32_t* table[] = {stored.data() + 5, nullptr, stored.data()};
  TestResources res({.threads = 2});

  const auto gathered = [&](const HostPositions& from) {
    std::vector<std::int32_t> out(5 + 2, -7);
    gather_positions(res, kept.view(), from, layout, WritablePositions::packed(out.data()),
                     kept.layout());
    REQUIRE(out[5] == -7);
    return std::vector<std::int32_t>(out.begin(), out.begin() + 5);
  };
  using V = std::vector<std::int32_t>;
  REQUIRE(gathered(HostPositions::consecutive(100)) == V{101, 103, 100, 102, 104});
  REQUIRE(gathered(HostPositions::shared(shared.data())) == V{4, 16, 2, 8, 32});
  REQUIRE(gathered(HostPositions::packed(stored.data())) == V{20, 40, 5, 7, 9});
  REQUIRE(gathered(HostPositions::per_head(table)) == V{7, 9, 10, 30, 5});

  // In place, by the layout of the cache that keeps its places.
  std::vector<std::int32_t> in_place = stored;
  gather_positions(res, kept.view(), HostPositions::packed(in_place.data()), layout,
                   WritablePositions::packed(in_place.data()), layout);
  REQUIRE(in_place == V{20, 40, 30, 40, 5, 7, 9, 8, 9});

  // To one array for each head.
  V first(2, -7);
  V third(3, -7);
  std::int32_t* to[] = {first.data(), nullptr, third.data()};
  gather_positions(res, kept.view(), HostPositions::packed(stored.data()), layout,
                   WritablePositions::per_head(to), kept.layout());
  REQUIRE(first == V{20, 40});
  REQUIRE(third == V{5, 7, 9});
}

TEST_CASE("rows of another dimension are refused", "[ops][gather]") {
  RowsCase<float> from(RowsForm::packed, {3}, 4, 1);
  RowsCase<float> to(RowsForm::packed, {3}, 5, 1);
  TestResources res({.threads = 1});
  const Selection kept = random_selection(from.layout(), 1.0, 1);
  REQUIRE(refused([&] { gather_rows(res, kept.view(), from.view(), to.writable()); }) ==
          "to.dim is 5, must be equal to 4");
}

}  // namespace gather_test
