// SPDX-License-Identifier: Apache-2.0
// Caches in pages: where rows are, and which tables are refused.
#include "kvevict/core/pages.hpp"

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/core/kv_view.hpp"

using kvevict::KvView;
using kvevict::MemorySpace;
using kvevict::PageLayout;
using kvevict::PageRows;
using kvevict::PageTable;
using kvevict::RowLayout;
using kvevict::RowsView;
using kvevict_test::refused;

namespace {

constexpr std::int64_t largest_row = INT32_MAX;

}  // namespace

TEST_CASE("the page of a row is the quotient", "[core][pages]") {
  std::vector<std::int64_t> sizes;
  for (std::int64_t rows = 1; rows <= 300; ++rows) sizes.push_back(rows);
  for (int bit = 8; bit < 31; ++bit) {
    for (const std::int64_t near : {-1, 0, 1}) sizes.push_back((std::int64_t{1} << bit) + near);
  }
  sizes.push_back(largest_row);
  for (const std::int64_t size : sizes) {
    const PageRows page(size);
    int wrong = 0;
    const auto check = [&](std::int64_t row) {
      if (row >= 0 && row <= largest_row) wrong += page.page_of(row) == row / size ? 0 : 1;
    };
    // Around multiples of the size, where a quotient that is off by a little shows.
    const std::int64_t most = largest_row / size;
    const std::int64_t step = most / 1000 + 1;
    for (std::int64_t page_of = 0; page_of <= most; page_of += step) {
      for (const std::int64_t near : {-1, 0, 1}) check(page_of * size + near);
    }
    for (const std::int64_t near : {-1, 0, 1}) check(most * size + near);
    check(largest_row);
    INFO("rows of a page " << size);
    REQUIRE(page.rows() == size);
    REQUIRE(wrong == 0);
  }
  REQUIRE(PageRows().page_of(largest_row) == largest_row);
  REQUIRE(refused([] { PageRows(0); }) == "page_rows is 0, must be in [1, 2^31)");
  REQUIRE(refused([] { PageRows(std::int64_t{1} << 31); }) ==
          "page_rows is 2147483648, must be in [1, 2^31)");
}

TEST_CASE("heads of a sequence share a table", "[core][pages]") {
  // Two sequences of two heads; 3 rows a page, 7 and 4 rows, so that last pages are partly filled.
  const std::int32_t ids[] = {4, 1, 0, -1, 2, 3, -1, -1};
  const PageTable<> table{ids, 2, 4, 2, 5};
  const std::vector<std::int64_t> offsets = {0, 7, 14, 18, 22};
  const auto layout = RowLayout<>::ragged(offsets.data(), 4);
  std::vector<float> k(5 * 3 * 2 * 8);
  std::vector<float> v(5 * 3 * 2 * 8);
  const auto nhd = KvView<float>::paged_nhd(k.data(), v.data(), table, layout, 3, 2, 8);
  const auto hnd = KvView<float>::paged_hnd(k.data(), v.data(), table, layout, 3, 2, 8);
  for (std::int64_t h = 0; h < 4; ++h) {
    for (std::int64_t i = 0; i < layout.rows(h); ++i) {
      const std::int64_t page = ids[h / 2 * 4 + i / 3];
      REQUIRE(&nhd.keys().head(h)(i, 5) == k.data() + ((page * 3 + i % 3) * 2 + h % 2) * 8 + 5);
      REQUIRE(&nhd.values().head(h)(i, 5) == v.data() + ((page * 3 + i % 3) * 2 + h % 2) * 8 + 5);
      REQUIRE(&hnd.keys().head(h)(i, 5) == k.data() + ((page * 2 + h % 2) * 3 + i % 3) * 8 + 5);
      REQUIRE(&hnd.values().head(h)(i, 5) == v.data() + ((page * 2 + h % 2) * 3 + i % 3) * 8 + 5);
    }
  }
  REQUIRE(nhd.keys().head(0).pages() == 3);
  REQUIRE(nhd.keys().head(2).pages() == 2);
  REQUIRE(nhd.keys().head(0).run(1, 6) == 2);
  REQUIRE(nhd.keys().head(0).run(3, 2) == 2);
  const KvView<const float> read_only = nhd;
  REQUIRE(&read_only.values().head(3)(2, 1) == &nhd.values().head(3)(2, 1));
}

TEST_CASE("every head has pages of its own", "[core][pages]") {
  const std::int32_t ids[] = {2, 0, 1, 3};
  const PageTable<> table{ids, 2, 2, 1, 4};
  std::vector<float> pool(4 * 2 * 3);
  const auto rows = RowsView<float>::paged(pool.data(), PageLayout::hnd(2, 1, 3), table,
                                           RowLayout<>::uniform(2, 3), 3);
  REQUIRE(rows.head(0).row(0) == pool.data() + 2 * 6);
  REQUIRE(rows.head(0).row(2) == pool.data());
  REQUIRE(rows.head(1).row(1) == pool.data() + 6 + 3);
}

TEST_CASE("layers share tables and have pools of their own", "[core][pages]") {
  // 2 layers x 2 sequences x 1 head.
  const std::int32_t ids[] = {1, 0};
  const PageTable<> table{ids, 2, 1, 1, 2};
  std::vector<float> first(2 * 4 * 2);
  std::vector<float> second(2 * 4 * 2);
  float* bases[] = {first.data(), first.data(), second.data(), second.data()};
  const auto layout = RowLayout<>::uniform(4, 4);
  const auto page = PageLayout::nhd(4, 1, 2);
  const auto rows = RowsView<float>::paged_per_head(bases, page, table, layout, 2);
  REQUIRE(rows.head(0).row(0) == first.data() + 8);
  REQUIRE(rows.head(1).row(3) == first.data() + 6);
  REQUIRE(rows.head(2).row(0) == second.data() + 8);
  REQUIRE(rows.head(3).row(0) == second.data());

  std::vector<float> others(2 * 4 * 2);
  float* others_by_head[] = {others.data(), others.data(), second.data(), second.data()};
  const auto cache = KvView<float>::paged_per_head(bases, others_by_head, page, table, layout, 2);
  REQUIRE(cache.keys().head(2).row(0) == second.data() + 8);
  REQUIRE(cache.values().head(0).row(1) == others.data() + 8 + 2);
  REQUIRE(cache.values().head(3).row(2) == second.data() + 4);
  const KvView<const float> read_only = cache.with_layout(RowLayout<>::uniform(4, 2), {});
  REQUIRE(read_only.values().head(1).row(1) == others.data() + 2);

  bases[2] = nullptr;
  REQUIRE(refused([&] { RowsView<float>::paged_per_head(bases, page, table, layout, 2); }) ==
          "table[2] is null, must be a pointer to the head's rows");
  REQUIRE(refused([&] {
            KvView<float>::paged_per_head(others_by_head, bases, page, table, layout, 2);
          }) == "table[2] is null, must be a pointer to the head's rows");
}

TEST_CASE("a paged view keeps its places when row counts change", "[core][pages]") {
  const std::int32_t ids[] = {1, 0, 7};
  const PageTable<> table{ids, 1, 3, 2, 3};
  std::vector<float> k(3 * 2 * 2 * 4);
  const auto cache =
      KvView<float>::paged_nhd(k.data(), k.data(), table, RowLayout<>::uniform(2, 3), 2, 2, 4);
  const std::vector<std::int64_t> offsets = {0, 1, 5};
  const auto other = cache.with_layout(RowLayout<>::ragged(offsets.data(), 2), {});
  REQUIRE(other.rows(0) == 1);
  REQUIRE(other.rows(1) == 4);
  REQUIRE(other.keys().head(1).row(3) == cache.keys().head(1).row(2) + 2 * 4);
  // More rows than the pages that are known to be good.
  REQUIRE(refused([&] { cache.with_layout(RowLayout<>::uniform(2, 5), {}); }) ==
          "page_table[2] of head 0 is 7, must be in [0, pages), pages = 3");
  REQUIRE(refused([&] { cache.with_layout(RowLayout<>::uniform(2, 7), {}); }) ==
          "pages of head 0 is 4, must be at most the entries of its table, 3");
}

TEST_CASE("page tables that point outside are refused", "[core][pages]") {
  std::int32_t ids[] = {0, 1, 2, 3};
  float pool[16 * 4] = {};
  const std::vector<std::int64_t> offsets = {0, 2, 6};
  PageTable<> table{ids, 2, 2, 1, 4};
  PageLayout page = PageLayout::hnd(2, 1, 4);
  auto layout = RowLayout<>::ragged(offsets.data(), 2);
  const auto problem = [&] {
    return refused([&] { RowsView<float>::paged(pool, page, table, layout, 4); });
  };
  REQUIRE_NOTHROW(RowsView<float>::paged(pool, page, table, layout, 4));
  ids[1] = 99;  // no row needs it
  REQUIRE_NOTHROW(RowsView<float>::paged(pool, page, table, layout, 4));
  for (const auto& [id, value] : {std::pair{4, "4"}, {-1, "-1"}, {INT32_MAX, "2147483647"}}) {
    ids[3] = id;
    REQUIRE(problem() == std::string("page_table[1] of head 1 is ") + value +
                             ", must be in [0, pages), pages = 4");
  }
  ids[3] = 3;
  layout = RowLayout<>::uniform(2, 5);
  REQUIRE(problem() == "pages of head 0 is 3, must be at most the entries of its table, 2");
  layout = RowLayout<>::uniform(2, 2);
  table.ids = nullptr;
  REQUIRE(problem() == "page_table.ids is null, must be the ids of the heads' pages");
  table.ids = ids;
  table.tables = 0;
  REQUIRE(problem() == "page_table.tables is 0, must be >= 1");
  table.tables = 2;
  table.heads_per_table = 0;
  REQUIRE(problem() == "page_table.heads_per_table is 0, must be >= 1");
  table.heads_per_table = 1;
  page.rows = 0;
  REQUIRE(problem() == "page_rows is 0, must be in [1, 2^31)");
  page.rows = 2;
  page.heads = 0;
  REQUIRE(problem() == "page.heads is 0, must be >= 1");
  page.heads = 1;
  page.stride = 0;
  REQUIRE(problem() == "page.stride is 0, must be >= 1");
  page.stride = 8;
  REQUIRE(refused([&] { RowsView<float>::paged(nullptr, page, table, layout, 4); }) ==
          "base is null, must be a pointer to the pool");
  REQUIRE(refused([&] { KvView<float>::paged_nhd(pool, nullptr, table, layout, 2, 1, 4); }) ==
          "values is null, must be a pointer to the values");
  // Without rows there is nothing to point to.
  const auto empty = RowsView<float>::paged(nullptr, page, {}, RowLayout<>::uniform(2, 0), 4);
  REQUIRE(empty.is_paged());
  REQUIRE(empty.head(1).rows == 0);
}

TEST_CASE("ids in device memory are not read", "[core][pages]") {
  constexpr MemorySpace device = MemorySpace::device;
  // Addresses that nobody may touch.
  const auto* ids = reinterpret_cast<const std::int32_t*>(64);
  auto* pool = reinterpret_cast<float*>(128);
  const PageTable<device> table{ids, 1, 2, 2, 4};
  const auto layout = RowLayout<device>::uniform(2, 5);
  REQUIRE(KvView<float, device>::paged_hnd(pool, pool, table, layout, 4, 2, 8).rows(1) == 5);
  REQUIRE(refused([&] { KvView<float, device>::paged_hnd(pool, pool, table, layout, 2, 2, 8); }) ==
          "pages of head 0 is 3, must be at most the entries of its table, 2");
}
