// SPDX-License-Identifier: Apache-2.0
// Evicting and compacting give the same rows wherever they lie.
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "core/selections.hpp"
#include "kvevict/kvevict.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

namespace paged_test {

using namespace kvevict_test;
using kvevict::half;
using kvevict::KvView;
using kvevict::Selection;
using WritablePositions = kvevict::MutablePositions<>;

namespace {

constexpr std::int64_t prompt = 520;
constexpr std::int64_t limit = 256;
constexpr std::int64_t dim = 16;

// Keys, values and positions of two heads in one of the forms.
template <class T>
struct Cache {
  RowsCase<T> keys;
  RowsCase<T> values;
  std::vector<std::vector<std::int32_t>> positions;
  std::vector<std::int32_t*> table;

  explicit Cache(RowsForm form)
      : keys(form, {prompt, prompt}, dim, 5), values(form, {prompt, prompt}, dim, 6) {
    for (int h = 0; h < 2; ++h) {
      auto& head = positions.emplace_back();
      for (std::int32_t i = 0; i < prompt; ++i) head.push_back(2 * i + h);
    }
    for (auto& head : positions) table.push_back(head.data());
  }
  KvView<T> view() {
    return {keys.writable(), values.writable(), WritablePositions::per_head(table.data())};
  }
};

template <class T>
void require_same_rows(const kvevict::RowsView<T>& got, const kvevict::RowsView<T>& want) {
  for (std::int64_t h = 0; h < want.heads(); ++h) {
    REQUIRE(got.rows(h) == want.rows(h));
    for (std::int64_t i = 0; i < want.rows(h); ++i) {
      for (std::int64_t c = 0; c < dim; ++c) {
        const T a = got.head(h)(i, c);
        const T b = want.head(h)(i, c);
        REQUIRE(std::memcmp(&a, &b, sizeof a) == 0);
      }
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a prompt is cut to its limit in every layout alike", "[front][paged]", float,
                   half) {
  TestResources res({.threads = 2});
  Cache<TestType> contiguous(RowsForm::head_first);
  const auto evict_twice = [&](Cache<TestType>& cache) {
    Selection kept = kvevict::evict(res, kvevict::KeyDiff{}, cache.view(), {},
                                    kvevict::Budget::rows(limit), {.sinks = 4, .recent = 32});
    compact(res, kept, cache.view());
    const KvView<TestType> now = cache.view().with_layout(kept.layout(), cache.view().positions());
    Selection again = kvevict::evict(res, kvevict::KNorm{}, now, {}, kvevict::Budget::rows(100));
    compact(res, again, now);
    return std::pair(std::move(kept), std::move(again));
  };
  const auto [first, second] = evict_twice(contiguous);
  REQUIRE(first.count(1) == limit);
  const KvView<TestType> want =
      contiguous.view().with_layout(second.layout(), contiguous.view().positions());
  for (const RowsForm form : {RowsForm::row_first, RowsForm::channels_strided, RowsForm::per_head,
                              RowsForm::paged, RowsForm::paged_by_head}) {
    INFO("form " << static_cast<int>(form));
    Cache<TestType> cache(form);
    const auto [kept, again] = evict_twice(cache);
    REQUIRE(rows_of(kept) == rows_of(first));
    REQUIRE(rows_of(again) == rows_of(second));
    const KvView<TestType> now = cache.view().with_layout(again.layout(), cache.view().positions());
    require_same_rows(now.keys(), want.keys());
    require_same_rows(now.values(), want.values());
    REQUIRE(cache.positions == contiguous.positions);
  }
}

TEST_CASE("keys and values may be halves of one pool", "[front][paged]") {
  // [page][keys, values][row][head][dim]
  constexpr std::int64_t page_rows = 4;
  constexpr std::int64_t half_page = page_rows * 2 * dim;
  const std::vector<std::int32_t> ids = {2, 0, 1};
  std::vector<float> pool(3 * 2 * half_page, 7.0f);
  kvevict::PageLayout page = kvevict::PageLayout::nhd(page_rows, 2, dim);
  page.stride = 2 * half_page;
  const auto layout = kvevict::RowLayout<>::uniform(2, 10);
  const auto cache = KvView<float>::paged(pool.data(), pool.data() + half_page, page,
                                          {ids.data(), 1, 3, 2, 3}, layout, dim);
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 10; ++i) {
      for (std::int64_t c = 0; c < dim; ++c) {
        cache.keys().head(h)(i, c) = static_cast<float>(10 - i);
        cache.values().head(h)(i, c) = static_cast<float>(-i);
      }
    }
  }
  TestResources res({.threads = 1});
  const Selection kept = kvevict::evict(res, kvevict::KNorm{}, cache, {}, kvevict::Budget::rows(3));
  REQUIRE(rows_of(kept) == std::vector<std::vector<std::int32_t>>{{7, 8, 9}, {7, 8, 9}});
  compact(res, kept, cache);
  REQUIRE(cache.keys().head(1)(2, 5) == 1.0f);
  REQUIRE(cache.values().head(1)(0, 0) == -7.0f);
  REQUIRE(cache.values().head(0)(3, 0) == -3.0f);
}

}  // namespace paged_test
