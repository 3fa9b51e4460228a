// SPDX-License-Identifier: Apache-2.0
// Quantised rows are read as the numbers that they stand for, moved as bytes, and not computed.
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/lag_scores.hpp"
#include "kvevict/cpu/rerotate_keys.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/ops/row_norms.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"
#include "support/quantised.hpp"

namespace quantised_rows_test {

using namespace kvevict_test;
using kvevict::BlockStorage;
using kvevict::ErrorKind;
using kvevict::float8_e4m3;
using kvevict::float8_e5m2;
using kvevict::q4_0;
using kvevict::q8_0;
using kvevict::RowsView;
using kvevict::Selection;
using HostPositions = kvevict::Positions<>;

namespace {

const std::vector<std::int64_t> counts = {40, 40};

// Every form that rows of T can have: channels of blocks are adjacent.
template <class T>
std::vector<RowsForm> forms() {
  std::vector<RowsForm> all(std::begin(uniform_forms), std::end(uniform_forms));
  if constexpr (BlockStorage<T>) {
    std::erase(all, RowsForm::channels_strided);
    std::erase(all, RowsForm::per_head);
  }
  return all;
}

// Bytes of no meaning, each row other ones.
template <class T>
RowsCase<T> arbitrary_rows(RowsForm form, std::int64_t units) {
  return RowsCase<T>::of_stored(form, counts, units, [&](std::int64_t h) {
    std::vector<T> rows(static_cast<std::size_t>(counts[0] * units));
    auto* byte = reinterpret_cast<unsigned char*>(rows.data());
    for (std::size_t i = 0; i < rows.size() * sizeof(T); ++i) {
      byte[i] = static_cast<unsigned char>(((i + static_cast<std::size_t>(h)) * 2654435761u) >> 7);
    }
    return rows;
  });
}

template <class T>
bool same_bytes(const RowsCase<T>& a, const RowsCase<T>& b) {
  return std::memcmp(a.memory().data(), b.memory().data(), a.memory().size() * sizeof(T)) == 0;
}

}  // namespace

TEMPLATE_TEST_CASE("compaction moves the bytes of quantised rows", "[ops][quantised]", q8_0, q4_0,
                   float8_e4m3, float8_e5m2) {
  using T = TestType;
  const Selection kept = selection_of({{0, 3, 4, 20, 36}, {1, 2, 39}});
  for (const std::int64_t dim : {32, 64, 256, 320}) {
    const std::int64_t units = dim / kvevict::channels_of<T>;
    for (const RowsForm form : forms<T>()) {
      RowsCase<T> now = arbitrary_rows<T>(form, units);
      INFO(now.describe());
      const RowsCase<T> before = now.copy();
      RowsCase<T> want = now.copy();
      RowsCase<T> gathered =
          RowsCase<T>::of_stored(RowsForm::packed, {5, 3}, units, [&](std::int64_t h) {
            return std::vector<T>(static_cast<std::size_t>(kept.count(h) * units));
          });
      RowsCase<T> want_gathered = gathered.copy();
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t j = 0; j < kept.count(h); ++j) {
          for (std::int64_t u = 0; u < units; ++u) {
            const T unit = before.view().head(h)(kept.head(h)[j], u);
            want.writable().head(h)(j, u) = unit;
            want_gathered.writable().head(h)(j, u) = unit;
          }
        }
      }
      TestResources res({.threads = 2});
      gather_rows(res, kept.view(), now.view(), gathered.writable());
      REQUIRE(same_bytes(gathered, want_gathered));
      REQUIRE(same_bytes(now, before));
      compact_rows(res, kept.view(), now.writable());
      REQUIRE(same_bytes(now, want));
    }
  }
}

TEMPLATE_TEST_CASE("scales of rows move with the rows, wherever they lie", "[ops][quantised]",
                   float8_e4m3, float8_e5m2) {
  using T = TestType;
  constexpr std::int64_t dim = 32;
  const Selection kept = selection_of({{0, 3, 4, 20, 36}, {1, 2, 39}});
  std::uint64_t number = 0;
  for (const RowsForm form : forms<T>()) {
    for (const RowsForm scale_form : forms<float>()) {
      if (!case_runs(++number)) continue;
      RowsCase<T> rows = arbitrary_rows<T>(form, dim);
      RowsCase<float> scales(scale_form, counts, 1, number);
      INFO(rows.describe() << ", scales in " << scales.describe());
      const RowsCase<float> before = scales.copy();
      RowsCase<T> gathered =
          RowsCase<T>::of_stored(RowsForm::packed, {5, 3}, dim, [&](std::int64_t h) {
            return std::vector<T>(static_cast<std::size_t>(kept.count(h) * dim));
          });
      RowsCase<float> gathered_scales(RowsForm::paged_by_head, {5, 3}, 1, number);
      RowsCase<float> want = before.copy();
      RowsCase<float> want_gathered = gathered_scales.copy();
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t j = 0; j < kept.count(h); ++j) {
          const float scale = before.view().head(h)(kept.head(h)[j], 0);
          want.writable().head(h)(j, 0) = scale;
          want_gathered.writable().head(h)(j, 0) = scale;
        }
      }
      TestResources res({.threads = 2});
      gather_rows(res, kept.view(), rows.view().with_row_scales(scales.view()),
                  gathered.writable().with_row_scales(gathered_scales.writable()));
      REQUIRE(same_bytes(gathered_scales, want_gathered));
      REQUIRE(same_bytes(scales, before));
      REQUIRE(gathered.view().head(1)(2, 5).bits == rows.view().head(1)(39, 5).bits);
      compact_rows(res, kept.view(), rows.writable().with_row_scales(scales.writable()));
      REQUIRE(same_bytes(scales, want));
      REQUIRE(gathered.view().head(1)(2, 5).bits == rows.view().head(1)(2, 5).bits);
    }
  }
}

TEMPLATE_TEST_CASE("rows with scales of their own are read as their numbers", "[ops][quantised]",
                   float8_e4m3, float8_e5m2) {
  using T = TestType;
  for (const std::int64_t dim : {1, 33, 320}) {
    const auto layout = kvevict::RowLayout<>::uniform(2, counts[0]);
    const QuantisedRows<T> rows(
        random_values(Shape::heavy_tailed, 2 * counts[0] * dim, static_cast<std::uint64_t>(dim)),
        layout, dim, Scaling::by_row);
    const std::vector<float> numbers = rows.numbers(layout);
    const auto exact = RowsView<const float>::packed(numbers.data(), layout, dim, dim);
    const auto norms = [](const auto& of) {
      return scores_of(of.layout(), [&](auto& res, auto out) { row_norms(res, of, 1.0f, out); });
    };
    const std::vector<float> want = norms(exact);
    for (const RowsForm form : forms<T>()) {
      const auto in_form = RowsCase<T>::of_stored(
          form, counts, dim, [&](std::int64_t h) { return rows.head(layout, h); });
      const auto scales = RowsCase<float>::of_stored(
          form, counts, 1, [&](std::int64_t h) { return rows.scales_of(layout, h); });
      INFO(in_form.describe());
      REQUIRE(same_bits(norms(in_form.view().with_row_scales(scales.view())), want));
    }
  }
}

TEMPLATE_TEST_CASE("quantised rows are read as their numbers", "[ops][quantised]", q8_0, q4_0,
                   float8_e4m3, float8_e5m2) {
  using T = TestType;
  for (const std::int64_t dim : {32, 96, 320}) {
    const auto layout = kvevict::RowLayout<>::uniform(2, counts[0]);
    const QuantisedRows<T> rows(
        random_values(Shape::heavy_tailed, 2 * counts[0] * dim, static_cast<std::uint64_t>(dim)),
        layout, dim);
    const std::vector<float> numbers = rows.numbers(layout);
    const auto exact = RowsView<const float>::packed(numbers.data(), layout, dim, dim);
    for (const RowsForm form : forms<T>()) {
      const auto in_form = RowsCase<T>::of_stored(
          form, counts, rows.units(), [&](std::int64_t h) { return rows.head(layout, h); });
      INFO(in_form.describe());
      const auto view = rows.scaled(in_form.view());
      const auto norms = [](const auto& of) {
        return scores_of(of.layout(), [&](auto& res, auto out) { row_norms(res, of, 1.0f, out); });
      };
      REQUIRE(same_bits(norms(view), norms(exact)));
      const auto deviations = [](const auto& of) {
        return scores_of(of.layout(), [&](auto& res, auto out) {
          lag_deviation(res, of, {.skip_first = 3, .lag = 9}, out);
        });
      };
      REQUIRE(same_bits(deviations(view), deviations(exact)));
    }
  }
}

TEST_CASE("quantised keys are not turned", "[ops][quantised]") {
  RowsCase<q8_0> keys = arbitrary_rows<q8_0>(RowsForm::row_first, 2);
  const RowsCase<q8_0> before = keys.copy();
  TestResources res({.threads = 1});
  REQUIRE(refused(
              [&] {
                rerotate_keys(res, keys.writable(), HostPositions::consecutive(9),
                              HostPositions::consecutive(), {});
              },
              ErrorKind::unsupported) ==
          "keys is quantised, must be float, half or bfloat16 to be changed");
  REQUIRE(same_bytes(keys, before));
}

TEST_CASE("rows are not copied to where another scale is theirs", "[ops][quantised]") {
  using T = float8_e5m2;
  const RowsCase<T> from = arbitrary_rows<T>(RowsForm::row_first, 16);
  RowsCase<T> to = arbitrary_rows<T>(RowsForm::head_first, 16);
  const RowsCase<T> before = to.copy();
  const float one[] = {1.0f, 1.0f};
  const float two[] = {2.0f, 2.0f};
  TestResources res({.threads = 1});
  const Selection kept = selection_of({{0, 1}, {5}});
  const auto gather = [&](const float* of_source, const float* of_target) {
    gather_rows(res, kept.view(), from.view().with_scales(of_source),
                to.writable().with_scales(of_target));
  };
  const auto refusal = [&](const float* of_source, const float* of_target) {
    return refused([&] { gather(of_source, of_target); }, ErrorKind::unsupported);
  };
  REQUIRE(refusal(one, two) ==
          "to.scales is another table, must be that of the rows that are copied, whose bytes stay "
          "as they are");
  REQUIRE(refusal(nullptr, two) == refusal(one, two));
  REQUIRE(refusal(one, nullptr) == refusal(one, two));
  REQUIRE(same_bytes(to, before));
  RowsCase<float> of_rows(RowsForm::padded, counts, 1, 1);
  REQUIRE(refused(
              [&] {
                gather_rows(res, kept.view(), from.view(),
                            to.writable().with_row_scales(of_rows.writable()));
              },
              ErrorKind::unsupported) ==
          "to.scales is by row, must be as those of the rows that are copied, whose bytes stay as "
          "they are");
  REQUIRE(refused(
              [&] {
                gather_rows(res, kept.view(), from.view().with_row_scales(of_rows.view()),
                            to.writable());
              },
              ErrorKind::unsupported)
              .substr(0, 28) == "to.scales is not by row, mus");
  REQUIRE(same_bytes(to, before));
  gather(two, two);
  REQUIRE(to.view().head(1)(0, 3).bits == from.view().head(1)(5, 3).bits);
}

}  // namespace quantised_rows_test
