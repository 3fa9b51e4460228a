// SPDX-License-Identifier: Apache-2.0
// A quantised cache is evicted as the floats that it stands for, and compacted as bytes.
#include <cstring>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/kvevict.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"
#include "support/quantised.hpp"

namespace quantised_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::float8_e4m3;
using kvevict::KNorm;
using kvevict::KvView;
using kvevict::q8_0;
using kvevict::RowsView;
using kvevict::Selection;
using WritablePositions = kvevict::MutablePositions<>;

namespace {

constexpr std::int64_t heads = 2;
constexpr std::int64_t rows = 70;
constexpr std::int64_t dim = 64;

// Keys and values of two heads in one of the forms, each row with a position.
template <class T>
struct QuantisedCache {
  Scaling scaling;
  kvevict::RowLayout<> layout = kvevict::RowLayout<>::uniform(heads, rows);
  QuantisedRows<T> key_rows{random_values(Shape::normal, heads* rows* dim, 1), layout, dim,
                            scaling};
  QuantisedRows<T> value_rows{random_values(Shape::normal, heads* rows* dim, 2), layout, dim,
                              scaling};
  RowsCase<T> keys;
  RowsCase<T> values;
  RowsCase<float> key_scales;  // of rows
  RowsCase<float> value_scales;
  std::vector<std::int32_t> positions[heads];
  std::int32_t* table[heads] = {};

  explicit QuantisedCache(RowsForm form, Scaling by = Scaling::by_head)
      : scaling(by),
        keys(in_form(form, key_rows)),
        values(in_form(form, value_rows)),
        key_scales(scales_in_form(form, key_rows)),
        value_scales(scales_in_form(form, value_rows)) {
    for (std::int32_t h = 0; h < heads; ++h) {
      for (std::int32_t i = 0; i < rows; ++i) positions[h].push_back(3 * i + h);
      table[h] = positions[h].data();
    }
  }
  RowsCase<T> in_form(RowsForm form, const QuantisedRows<T>& of) const {
    return RowsCase<T>::of_stored(form, {rows, rows}, of.units(),
                                  [&](std::int64_t h) { return of.head(layout, h); });
  }
  RowsCase<float> scales_in_form(RowsForm form, const QuantisedRows<T>& of) const {
    return RowsCase<float>::of_stored(form, {rows, rows}, 1, [&](std::int64_t h) {
      return scaling == Scaling::by_row ? of.scales_of(layout, h) : std::vector<float>(rows);
    });
  }
  KvView<T> view() {
    const auto stored = WritablePositions::per_head(table);
    if constexpr (kvevict::ScaledElement<T>) {
      if (scaling == Scaling::by_row) {
        return KvView<T>(keys.writable(), values.writable(), stored)
            .with_row_scales(key_scales.writable(), value_scales.writable());
      }
    }
    return KvView<T>(key_rows.scaled(keys.writable()), value_rows.scaled(values.writable()),
                     stored);
  }
};

template <class T>
bool same_row(const RowsView<T>& now, std::int64_t j, const RowsView<T>& before, std::int64_t i,
              std::int64_t head) {
  const auto bytes = static_cast<std::size_t>(kvevict::bytes_of_row<T>(dim));
  return std::memcmp(now.head(head).row(j), before.head(head).row(i), bytes) == 0;
}

// Rows stand for the same numbers, whatever they are stored as.
template <class T>
bool same_numbers(const RowsView<T>& now, std::int64_t j, const RowsView<T>& before, std::int64_t i,
                  std::int64_t head) {
  for (std::int64_t c = 0; c < dim; ++c) {
    if (now.head(head).value(j, c) != before.head(head).value(i, c)) return false;
  }
  return true;
}

}  // namespace

TEMPLATE_TEST_CASE("quantised rows are evicted as their numbers and compacted as bytes",
                   "[front][quantised]", q8_0, float8_e4m3) {
  TestResources res({.threads = 2});
  for (const RowsForm form : {RowsForm::head_first, RowsForm::row_first, RowsForm::padded,
                              RowsForm::paged, RowsForm::paged_by_head}) {
    INFO("form " << static_cast<int>(form));
    QuantisedCache<TestType> before(form);
    QuantisedCache<TestType> cache(form);
    const std::vector<float> keys = cache.key_rows.numbers(cache.layout);
    const std::vector<float> values = cache.value_rows.numbers(cache.layout);
    const auto exact = KvView<const float>::hnd(keys.data(), values.data(), heads, rows, dim);

    const Selection kept = evict(res, KNorm{}, cache.view(), {}, Budget::rows(29), {.recent = 5});
    REQUIRE(kept == evict(res, KNorm{}, exact, {}, Budget::rows(29), {.recent = 5}));
    compact(res, kept, cache.view());
    const auto now = cache.view().with_layout(kept.layout(), cache.view().positions());
    // Rows that keep their scale are evicted again.
    const Selection again = evict(res, KNorm{}, now, {}, Budget::rows(7));
    compact(res, again, now);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t j = 0; j < 7; ++j) {
        const std::int32_t row = kept.head(h)[again.head(h)[j]];
        REQUIRE(same_row(now.keys(), j, before.view().keys(), row, h));
        REQUIRE(same_row(now.values(), j, before.view().values(), row, h));
        REQUIRE(cache.positions[h][static_cast<std::size_t>(j)] == 3 * row + h);
      }
    }
  }
}

TEST_CASE("scales of rows are compacted with their rows", "[front][quantised]") {
  using T = float8_e4m3;
  TestResources res({.threads = 2});
  for (const RowsForm form :
       {RowsForm::head_first, RowsForm::row_first, RowsForm::padded, RowsForm::channels_strided,
        RowsForm::per_head, RowsForm::paged, RowsForm::paged_by_head}) {
    INFO("form " << static_cast<int>(form));
    QuantisedCache<T> before(form, Scaling::by_row);
    QuantisedCache<T> cache(form, Scaling::by_row);
    const std::vector<float> keys = cache.key_rows.numbers(cache.layout);
    const std::vector<float> values = cache.value_rows.numbers(cache.layout);
    const auto exact = KvView<const float>::hnd(keys.data(), values.data(), heads, rows, dim);
    const auto choose = [&](const auto& of, std::int64_t count) {
      return evict(res, KNorm{}, of, {}, Budget::rows(count), {.recent = 5});
    };
    const Selection kept = choose(cache.view(), 29);
    REQUIRE(kept == choose(exact, 29));

    // Into another cache, whose scales lie in another form.
    QuantisedCache<T> copy(RowsForm::row_first, Scaling::by_row);
    const auto target =
        copy.view().with_layout(kept.layout(), WritablePositions::per_head(copy.table));
    compact_into(res, kept, cache.view(), target);
    compact(res, kept, cache.view());
    const auto now = cache.view().with_layout(kept.layout(), cache.view().positions());
    const Selection again = choose(now, 7);
    REQUIRE(again == choose(target, 7));
    compact(res, again, now);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t j = 0; j < 29; ++j) {
        REQUIRE(same_numbers(target.keys(), j, before.view().keys(), kept.head(h)[j], h));
        REQUIRE(same_numbers(target.values(), j, before.view().values(), kept.head(h)[j], h));
      }
      for (std::int64_t j = 0; j < 7; ++j) {
        const std::int32_t row = kept.head(h)[again.head(h)[j]];
        REQUIRE(same_numbers(now.keys(), j, before.view().keys(), row, h));
        REQUIRE(same_numbers(now.values(), j, before.view().values(), row, h));
      }
    }
  }
}

TEST_CASE("whole pages are kept with the scales of their rows", "[front][quantised]") {
  using T = float8_e4m3;
  constexpr std::int64_t page_rows = 8;
  const auto layout = kvevict::RowLayout<>::uniform(heads, 4 * page_rows - 3);
  std::int32_t ids[] = {5, 1, 3, 0};
  const kvevict::PageTable<> table{ids, 1, 4, heads, 6};
  std::vector<T> keys(6 * page_rows * heads * dim);
  std::vector<float> scales(6 * page_rows * heads);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i].bits = static_cast<std::uint8_t>(i * 7 % 120);
  }
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i + 1);
  const auto view = [&](const kvevict::RowLayout<>& counts) {
    const auto of_rows = RowsView<float>::paged(
        scales.data(), kvevict::PageLayout::nhd(page_rows, heads, 1), table, counts, 1);
    return KvView<T>::paged_nhd(keys.data(), keys.data(), table, counts, page_rows, heads, dim)
        .with_row_scales(of_rows, of_rows);
  };
  std::vector<float> before;
  for (std::int64_t i = 0; i < layout.rows(1); ++i) {
    before.push_back(view(layout).keys().head(1).value(i, 9));
  }
  const Selection blocks = selection_of({{0, 2, 3}});
  const kvevict::PageList freed = keep_pages(blocks, table, ids, page_rows, layout);
  REQUIRE(freed.ids == std::vector<std::int32_t>{1});
  const auto kept = view(kvevict::RowLayout<>::uniform(heads, 3 * page_rows - 3));
  for (std::int64_t i = 0; i < 3 * page_rows - 3; ++i) {
    const std::int64_t row = i < page_rows ? i : i + page_rows;
    REQUIRE(kept.keys().head(1).value(i, 9) == before[static_cast<std::size_t>(row)]);
  }
}

TEST_CASE("a budget in bytes counts scales of rows", "[front][quantised]") {
  TestResources res({.threads = 1});
  QuantisedCache<float8_e4m3> cache(RowsForm::head_first, Scaling::by_row);
  REQUIRE(cache.view().row_bytes() == 2 * (dim + 4));
  const Selection kept =
      evict(res, KNorm{}, cache.view(), {}, Budget::bytes(2 * 10 * 2 * (dim + 4) + 5));
  REQUIRE(kept.total() == 20);
}

TEST_CASE("a cache whose rows have no scales receives none that have", "[front][quantised]") {
  TestResources res({.threads = 1});
  QuantisedCache<float8_e4m3> by_row(RowsForm::head_first, Scaling::by_row);
  QuantisedCache<float8_e4m3> by_head(RowsForm::row_first);
  const Selection kept = selection_of({{0, 3, 69}, {5, 6, 7}});
  const auto refusal = [&](QuantisedCache<float8_e4m3>& from, QuantisedCache<float8_e4m3>& to) {
    const RowsCase<float8_e4m3> keys = to.keys.copy();
    const auto target = to.view().with_layout(kept.layout(), WritablePositions::per_head(to.table));
    const std::string text = refused([&] { compact_into(res, kept, from.view(), target); },
                                     kvevict::ErrorKind::unsupported);
    REQUIRE(std::memcmp(keys.memory().data(), to.keys.memory().data(), keys.memory().size()) == 0);
    return text;
  };
  REQUIRE(refusal(by_row, by_head).substr(0, 32) == "to.keys.scales is another table,");
  REQUIRE(refusal(by_head, by_row).substr(0, 32) == "to.keys.scales is another table,");
}

TEST_CASE("a page of scales that a head has twice is refused", "[front][quantised]") {
  using T = float8_e4m3;
  TestResources res({.threads = 1});
  QuantisedCache<T> cache(RowsForm::head_first, Scaling::by_row);
  const RowsCase<T> keys = cache.keys.copy();
  const std::int32_t ids[] = {4, 2, 2, 0, 1};
  const kvevict::PageTable<> table{ids, 1, 5, heads, 5};
  std::vector<float> pool(5 * 16 * heads);
  const auto scales = RowsView<float>::paged(pool.data(), kvevict::PageLayout::nhd(16, heads, 1),
                                             table, cache.layout, 1);
  const auto view = cache.view().with_row_scales(scales, cache.key_scales.writable());
  REQUIRE(refused([&] {
            compact(res, selection_of({{0, 3, 69}, {5, 6, 7}}), view);
          }).substr(0, 24) == "page_table[2] of head 0 ");
  REQUIRE(std::memcmp(keys.memory().data(), cache.keys.memory().data(), keys.memory().size()) == 0);
}

TEST_CASE("a scale is not moved into a page of scales that another head has",
          "[front][quantised]") {
  using T = float8_e4m3;
  TestResources res({.threads = 1});
  QuantisedCache<T> cache(RowsForm::head_first, Scaling::by_row);
  const RowsCase<T> keys = cache.keys.copy();
  // Both heads read their first 16 scales from page 3.
  const std::int32_t ids[] = {3, 4, 5, 6, 7, 3, 8, 9, 10, 11};
  const kvevict::PageTable<> table{ids, heads, 5, 1, 12};
  std::vector<float> pool(12 * 16, 2.0f);
  float* const pools[] = {pool.data(), pool.data()};
  const auto scales = RowsView<float>::paged_per_head(pools, kvevict::PageLayout::hnd(16, 1, 1),
                                                      table, cache.layout, 1);
  const auto view = cache.view().with_row_scales(scales, cache.key_scales.writable());
  REQUIRE(refused([&] {
            compact(res, selection_of({{0, 3, 69}, {5, 6, 7}}), view);
          }).substr(0, 24) == "page_table[0] of head 0 ");
  REQUIRE(std::memcmp(keys.memory().data(), cache.keys.memory().data(), keys.memory().size()) == 0);
}

TEST_CASE("a budget in bytes counts the bytes of blocks", "[front][quantised]") {
  TestResources res({.threads = 1});
  QuantisedCache<q8_0> cache(RowsForm::head_first);
  REQUIRE(cache.view().row_bytes() == 2 * 2 * 34);
  const Selection kept =
      evict(res, KNorm{}, cache.view(), {}, Budget::bytes(2 * 10 * 2 * 2 * 34 + 5));
  REQUIRE(kept.total() == 20);
}

TEST_CASE("a cache with other scales receives nothing", "[front][quantised]") {
  TestResources res({.threads = 1});
  QuantisedCache<float8_e4m3> from(RowsForm::head_first);
  QuantisedCache<float8_e4m3> to(RowsForm::row_first);
  const RowsCase<float8_e4m3> keys = to.keys.copy();
  const Selection kept = selection_of({{0, 3, 69}, {5, 6, 7}});
  const float* key_scales = from.key_rows.scales.data();
  const auto target = KvView<float8_e4m3>(to.keys.writable(), to.values.writable())
                          .with_layout(kept.layout(), WritablePositions::per_head(to.table));
  const auto same_keys = [&] {
    return std::memcmp(keys.memory().data(), to.keys.memory().data(), keys.memory().size()) == 0;
  };
  REQUIRE(refused([&] { compact_into(res, kept, from.view(), target); },
                  kvevict::ErrorKind::unsupported)
              .substr(0, 32) == "to.keys.scales is another table,");
  REQUIRE(
      refused(
          [&] { compact_into(res, kept, from.view(), target.with_scales(key_scales, key_scales)); },
          kvevict::ErrorKind::unsupported)
          .substr(0, 34) == "to.values.scales is another table,");
  REQUIRE(same_keys());
  REQUIRE(to.positions[0][1] == 3);
  compact_into(res, kept, from.view(),
               target.with_scales(key_scales, from.value_rows.scales.data()));
  REQUIRE(same_row(target.keys(), 1, from.view().keys(), 3, 0));
  REQUIRE(same_row(target.values(), 2, from.view().values(), 7, 1));
  REQUIRE(to.positions[0][1] == 9);
}

}  // namespace quantised_test
