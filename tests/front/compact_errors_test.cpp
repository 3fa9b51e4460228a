// SPDX-License-Identifier: Apache-2.0
// A compaction that is refused moves nothing.
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/gather.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

namespace compact_errors_test {

using namespace kvevict_test;
using kvevict::ErrorKind;
using kvevict::KvView;
using kvevict::RowLayout;
using kvevict::RowsView;
using kvevict::Selection;
using WritablePositions = kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>;

namespace {

struct Cache {
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<std::int32_t> positions;

  explicit Cache(float first) {
    for (int i = 0; i < 2 * 5 * 3; ++i) {
      keys.push_back(first + static_cast<float>(i));
      values.push_back(first - static_cast<float>(i));
    }
    for (std::int32_t i = 0; i < 10; ++i) positions.push_back(i % 5);
  }
  KvView<float> view() {
    return KvView<float>::hnd(keys.data(), values.data(), 2, 5, 3)
        .with_positions(WritablePositions::packed(positions.data()));
  }
  friend bool operator==(const Cache&, const Cache&) = default;
};

const Selection fine = selection_of({{1, 3}, {4}});

std::string refusal_in_place(const Selection& kept, ErrorKind kind = ErrorKind::invalid_argument,
                             bool shared_positions = false) {
  Cache cache(1);
  const Cache before = cache;
  TestResources res({.threads = 2});
  KvView<float> view = cache.view();
  if (shared_positions) {
    view = view.with_positions(WritablePositions::shared(cache.positions.data()));
  }
  const std::string text = refused([&] { compact(res, kept, view); }, kind);
  REQUIRE(cache == before);
  return text;
}

}  // namespace

TEST_CASE("a selection of another cache is refused in place", "[front][compact]") {
  REQUIRE(refusal_in_place(selection_of({{1, 3}})) == "selection.heads is 1, must be equal to 2");
  REQUIRE(refusal_in_place(selection_of({{1, 3}, {5}})) ==
          "selection.index of head 1 is 5, must be below the head's rows, 5");
  REQUIRE(refusal_in_place(selection_of({{3, 1}, {4}})) ==
          "selection.index of head 0 is 1, must be above the index before it, 3");
  REQUIRE(refusal_in_place(selection_of({{-1, 1}, {4}})) ==
          "selection.index of head 0 is -1, must be above the index before it, -1");
  REQUIRE(refusal_in_place(Selection()) == "selection.heads is 0, must be equal to 2");
}

TEST_CASE("positions that heads share cannot be compacted", "[front][compact]") {
  REQUIRE(refusal_in_place(fine, ErrorKind::unsupported, true) ==
          "cache.positions is shared by all heads, must be packed or per head, since heads keep "
          "different rows");
}

TEST_CASE("a target of another shape is refused", "[front][compact]") {
  Cache source(1);
  Cache target(100);
  const Cache source_before = source;
  const Cache target_before = target;
  TestResources res({.threads = 2});
  const auto problem = [&](const Selection& kept, const KvView<float>& to,
                           ErrorKind kind = ErrorKind::invalid_argument) {
    const std::string text =
        refused([&] { compact_into(res, kept, KvView<const float>(source.view()), to); }, kind);
    REQUIRE(source == source_before);
    REQUIRE(target == target_before);
    return text;
  };
  const std::vector<std::int64_t> offsets = {0, 2, 3};
  const auto layout = RowLayout<>::ragged(offsets.data(), 2);
  const auto rows = [&](const RowLayout<>& of, std::int64_t dim) {
    return RowsView<float>::packed(target.keys.data(), of, dim, 3);
  };
  REQUIRE(problem(fine, target.view()) ==
          "to.rows is different, must be the selection's count in every head");
  REQUIRE(problem(fine, KvView<float>(rows(layout, 2), rows(layout, 3))) ==
          "to.keys.dim is 2, must be equal to 3");
  REQUIRE(problem(fine, KvView<float>(rows(layout, 3), rows(layout, 1))) ==
          "to.values.dim is 1, must be equal to 3");
  REQUIRE(problem(fine,
                  KvView<float>(rows(layout, 3), rows(layout, 3),
                                WritablePositions::shared(target.positions.data())),
                  ErrorKind::unsupported) ==
          "to.positions is shared by all heads, must be packed or per head, since heads keep "
          "different rows");
  REQUIRE(problem(selection_of({{1, 3}, {9}}), KvView<float>(rows(layout, 3), rows(layout, 3))) ==
          "selection.index of head 1 is 9, must be below the head's rows, 5");
}

TEST_CASE("a head that has a page twice is not written to", "[front][compact]") {
  // 3 rows a page; the second head is shorter and shares the table.
  std::vector<std::int32_t> ids = {2, 0, 1, 0};
  const kvevict::PageTable<> table{ids.data(), 1, 4, 2, 4};
  const std::vector<std::int64_t> offsets = {0, 11, 20};
  const auto layout = RowLayout<>::ragged(offsets.data(), 2);
  std::vector<float> keys(4 * 3 * 2 * 2, 1.0f);
  std::vector<float> values(4 * 3 * 2 * 2, 2.0f);
  const Selection kept = selection_of({{1, 3, 10}, {0, 8}});
  TestResources res({.threads = 2});
  const auto cache = KvView<float>::paged_nhd(keys.data(), values.data(), table, layout, 3, 2, 2);
  const std::vector<std::int64_t> kept_offsets = {0, 10, 20};
  const auto target = KvView<float>::paged_hnd(
      keys.data(), values.data(), table, RowLayout<>::ragged(kept_offsets.data(), 2), 3, 2, 2);
  const std::vector<float> before = keys;
  REQUIRE(refused([&] { compact(res, kept, cache); }) ==
          "page_table[3] of head 0 is 0, must be another page, since rows are written, than that "
          "of entry 1");
  // Reading does not mind, and what no row needs does not count.
  const RowsCase<float> source(RowsForm::packed, {11, 11}, 2, 1);
  Selection most = selection_of({{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
  REQUIRE(refused([&] {
            compact_into(res, most, KvView<const float>(source.view(), source.view()), target);
          }) ==
          "page_table[3] of head 0 is 0, must be another page, since rows are written, than that "
          "of entry 1");
  REQUIRE(keys == before);
  const std::vector<std::int64_t> short_offsets = {0, 9, 17};
  const auto shorter = cache.with_layout(RowLayout<>::ragged(short_offsets.data(), 2), {});
  REQUIRE_NOTHROW(compact(res, selection_of({{1, 8}, {7}}), shorter));
  // Heads with tables of their own are each checked.
  ids = {0, 1, 3, 3};
  const auto by_head = KvView<float>::paged_hnd(
      keys.data(), values.data(), {ids.data(), 2, 2, 1, 4}, RowLayout<>::uniform(2, 4), 3, 1, 2);
  REQUIRE(refused([&] {
            compact(res, selection_of({{1}, {2}}), by_head);
          }) ==
          "page_table[1] of head 1 is 3, must be another page, since rows are written, than that "
          "of entry 0");
}

TEST_CASE("packed positions do not follow a compaction in place", "[front][compact]") {
  Cache cache(1);
  REQUIRE(refused(
              [&] {
                cache.view().with_layout(fine.layout(),
                                         WritablePositions::packed(cache.positions.data()));
              },
              ErrorKind::unsupported) ==
          "positions is packed, must be per head: packed ones do not move with their offsets");
  std::int32_t* table[] = {cache.positions.data(), cache.positions.data() + 5};
  const auto compacted =
      cache.view().with_layout(fine.layout(), WritablePositions::per_head(table));
  REQUIRE(compacted.rows(1) == 1);
}

}  // namespace compact_errors_test
