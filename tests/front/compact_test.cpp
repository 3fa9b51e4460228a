// SPDX-License-Identifier: Apache-2.0
#include "kvevict/compact.hpp"

#include <vector>

#include "catch.hpp"
#include "core/selections.hpp"
#include "kvevict/cpu/gather.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::half;
using kvevict::KvView;
using kvevict::RowLayout;
using kvevict::Selection;
using HostPositions = kvevict::Positions<>;
using WritablePositions = kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>;

namespace {

template <class T>
void require_moved(const kvevict::RowsView<const T>& now, const RowsCase<T>& before,
                   const Selection& kept) {
  for (std::int64_t h = 0; h < now.heads(); ++h) {
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      for (std::int64_t c = 0; c < now.dim(); ++c) {
        const float got = now.head(h)(j, c);
        const float want = before.view().head(h)(kept.head(h)[static_cast<std::size_t>(j)], c);
        REQUIRE(got == want);
      }
    }
  }
}

const std::vector<std::vector<std::int32_t>> rows_to_keep = {
    {0, 1, 5, 129}, {}, {0, 2, 4, 5, 6}, {7}};

}  // namespace

TEMPLATE_TEST_CASE("keys, values and positions move together", "[front][compact]", float, half,
                   kvevict::bfloat16) {
  // Keys and values of different dimensions, strides and forms.
  const RowsCase<TestType> keys(RowsForm::per_head, {130, 4, 7, 8}, 24, 1);
  const RowsCase<TestType> values(RowsForm::packed, {130, 4, 7, 8}, 9, 2);
  const Selection kept = selection_of(rows_to_keep);
  RowsCase<TestType> k = keys.copy();
  RowsCase<TestType> v = values.copy();
  std::vector<std::int32_t> positions;
  for (std::int32_t i = 0; i < 149; ++i) positions.push_back(1000 + 3 * i);
  const std::vector<std::int32_t> before = positions;
  TestResources res({.threads = 2});
  const KvView<TestType> cache(k.writable(), v.writable(),
                               WritablePositions::packed(positions.data()));
  compact(res, kept, cache);
  require_moved<TestType>(k.view(), keys, kept);
  require_moved<TestType>(v.view(), values, kept);
  for (std::int64_t h = 0; h < 4; ++h) {
    const std::int64_t offset = keys.layout().offset(h);
    for (std::int64_t j = 0; j < keys.layout().rows(h); ++j) {
      const std::int64_t source = j < kept.count(h) ? kept.head(h)[static_cast<std::size_t>(j)] : j;
      REQUIRE(positions[static_cast<std::size_t>(offset + j)] ==
              before[static_cast<std::size_t>(offset + source)]);
    }
  }
}

TEST_CASE("a compacted cache is seen through the selection's counts", "[front][compact]") {
  const RowsCase<float> rows(RowsForm::padded, {6, 6}, 3, 1);
  RowsCase<float> now = rows.copy();
  const Selection kept = selection_of({{1, 4}, {0, 2, 5}});
  TestResources res({.threads = 1});
  const KvView<float> cache(now.writable(), now.writable());
  compact(res, kept, cache);
  // Positions were consecutive and are the kept row numbers from now on.
  const auto compacted = KvView<const float>(cache).with_layout(
      kept.layout(), HostPositions::packed(kept.indices().data()));
  REQUIRE(compacted.rows(0) == 2);
  REQUIRE(compacted.rows(1) == 3);
  REQUIRE(compacted.positions().row(1, compacted.layout())[2] == 5);
  REQUIRE(compacted.keys().head(1)(2, 1) == rows.view().head(1)(5, 1));
}

TEST_CASE("keeping everything or nothing", "[front][compact]") {
  const RowsCase<float> rows(RowsForm::head_first, {5, 5}, 3, 1);
  TestResources res({.threads = 1});
  for (const bool everything : {true, false}) {
    RowsCase<float> now = rows.copy();
    std::vector<std::int32_t> positions = {0, 1, 2, 3, 9, 4, 5, 6, 7, 8};
    const std::vector<std::int32_t> before = positions;
    const KvView<float> cache(now.writable(), now.writable(),
                              WritablePositions::packed(positions.data()));
    compact(res,
            everything ? selection_of({{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}}) : selection_of({{}, {}}),
            cache);
    REQUIRE(same_bits(now.memory(), rows.memory()));
    REQUIRE(positions == before);
  }
}

TEST_CASE("compaction into another cache", "[front][compact]") {
  const RowsCase<half> keys(RowsForm::row_first, {12, 12}, 24, 1);
  const RowsCase<half> values(RowsForm::channels_strided, {12, 12}, 9, 2);
  const Selection kept = selection_of({{0, 3, 11}, {5}});
  RowsCase<half> k(RowsForm::packed, {3, 1}, 24, 3);
  RowsCase<half> v(RowsForm::per_head, {3, 1}, 9, 4);
  std::vector<std::int32_t> positions(4, -1);
  TestResources res({.threads = 2});
  const KvView<const half> from(keys.view(), values.view(), HostPositions::consecutive(50));
  const KvView<half> to(k.writable(), v.writable(), WritablePositions::packed(positions.data()));
  compact_into(res, kept, from, to);
  require_moved<half>(k.view(), keys, kept);
  require_moved<half>(v.view(), values, kept);
  REQUIRE(positions == std::vector<std::int32_t>{50, 53, 61, 55});
  // Without stored positions only rows are written.
  compact_into(res, kept, from, KvView<half>(k.writable(), v.writable()));
  require_moved<half>(k.view(), keys, kept);
}

TEST_CASE("positions shared by one head can be compacted", "[front][compact]") {
  RowsCase<float> rows(RowsForm::head_first, {4}, 2, 1);
  std::vector<std::int32_t> positions = {3, 5, 8, 9};
  TestResources res({.threads = 1});
  compact(
      res, selection_of({{1, 3}}),
      KvView<float>(rows.writable(), rows.writable(), WritablePositions::shared(positions.data())));
  REQUIRE(positions == std::vector<std::int32_t>{5, 9, 8, 9});
}
