// SPDX-License-Identifier: Apache-2.0
// A quantised cache is evicted as the floats that it stands for, and compacted as bytes.
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/kvevict.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"
#include "support/quantised.hpp"

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
  kvevict::RowLayout<> layout = kvevict::RowLayout<>::uniform(heads, rows);
  QuantisedRows<T> key_rows{random_values(Shape::normal, heads* rows* dim, 1), layout, dim};
  QuantisedRows<T> value_rows{random_values(Shape::normal, heads* rows* dim, 2), layout, dim};
  RowsCase<T> keys;
  RowsCase<T> values;
  std::vector<std::int32_t> positions[heads];
  std::int32_t* table[heads] = {};

  explicit QuantisedCache(RowsForm form)
      : keys(in_form(form, key_rows)), values(in_form(form, value_rows)) {
    for (std::int32_t h = 0; h < heads; ++h) {
      for (std::int32_t i = 0; i < rows; ++i) positions[h].push_back(3 * i + h);
      table[h] = positions[h].data();
    }
  }
  RowsCase<T> in_form(RowsForm form, const QuantisedRows<T>& of) const {
    return RowsCase<T>::of_stored(form, {rows, rows}, of.units(),
                                  [&](std::int64_t h) { return of.head(layout, h); });
  }
  KvView<T> view() {
    return KvView<T>(key_rows.scaled(keys.writable()), value_rows.scaled(values.writable()))
        .with_positions(WritablePositions::per_head(table));
  }
};

template <class T>
bool same_row(const RowsView<T>& now, std::int64_t j, const RowsView<T>& before, std::int64_t i,
              std::int64_t head) {
  const auto bytes = static_cast<std::size_t>(kvevict::bytes_of_row<T>(dim));
  return std::memcmp(now.head(head).row(j), before.head(head).row(i), bytes) == 0;
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
