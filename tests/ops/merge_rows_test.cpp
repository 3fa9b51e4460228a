// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/merge_rows.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/cpu/merge_rows.hpp"
#include "kvevict/math/random.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/merge.hpp"
#include "support/backend.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::RowsView;
using HostPositions = kvevict::Positions<>;

namespace {

// Weights come from fp32 cosines and lengths, about 20 roundings of 2^-24; then one rounding to the
// element type. The absolute part is for sums that cancel, of numbers up to about 4.
template <class T>
Tolerance merged_tolerance() {
  if (std::is_same_v<T, float>) return {2e-6, 1e-5};
  return std::is_same_v<T, half> ? Tolerance{1e-3, 1e-5} : Tolerance{8e-3, 1e-5};
}

using Kept = std::vector<std::vector<std::size_t>>;

// Rows of each head, kept with a probability.
Kept random_rows(const kvevict::RowLayout<>& layout, double probability, std::uint64_t seed) {
  const Random random(seed);
  Kept kept;
  std::uint64_t next = 0;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    kept.emplace_back();
    for (std::int64_t i = 0; i < layout.rows(h); ++i) {
      if (random.uniform(next++) < probability) kept.back().push_back(static_cast<std::size_t>(i));
    }
  }
  return kept;
}

kvevict::Selection selected(const Kept& kept) {
  std::vector<std::vector<std::int32_t>> rows;
  for (const auto& head : kept) rows.emplace_back(head.begin(), head.end());
  return selection_of(rows);
}

// Rows outside `may_change` have the bits that they had.
template <class T>
int changed_rows(const RowsCase<T>& before, const RowsCase<T>& after, const Kept& may_change) {
  int changed = 0;
  for (std::int64_t h = 0; h < before.heads(); ++h) {
    const auto& allowed = may_change[static_cast<std::size_t>(h)];
    const auto head_before = before.view().head(h);
    const auto head_after = after.view().head(h);
    for (std::int64_t i = 0; i < before.layout().rows(h); ++i) {
      if (std::find(allowed.begin(), allowed.end(), static_cast<std::size_t>(i)) != allowed.end()) {
        continue;
      }
      for (std::int64_t c = 0; c < before.dim(); ++c) {
        const T a = head_before(i, c);
        const T b = head_after(i, c);
        changed += std::memcmp(&a, &b, sizeof(T)) == 0 ? 0 : 1;
      }
    }
  }
  return changed;
}

template <class T>
void require_merged(const RowsCase<T>& got, const reference::Heads& want, const RowsCase<T>& before,
                    const Kept& kept) {
  std::vector<double> numbers;
  for (const reference::Matrix& head : want) {
    numbers.insert(numbers.end(), head.data.begin(), head.data.end());
  }
  const Comparison comparison = compare(numbers_of(got.view()), numbers, merged_tolerance<T>());
  INFO(comparison.describe());
  REQUIRE(comparison.within());
  REQUIRE(changed_rows(before, got, kept) == 0);
}

// Values [row][2] of one head after merging into the most similar kept row.
std::vector<float> merged(const std::vector<float>& keys, std::vector<float> values,
                          const std::vector<std::int32_t>& kept,
                          const kvevict::MergeOptions& options = {}) {
  TestResources res({.threads = 1});
  const auto rows = static_cast<std::int64_t>(values.size()) / 2;
  const auto dim = static_cast<std::int64_t>(keys.size()) / rows;
  const kvevict::Selection selection = selection_of({kept});
  merge_rows(res, selection.view(),
             RowsView<const float>::strided(keys.data(), 1, rows, dim, rows * dim, dim),
             RowsView<float>::strided(values.data(), 1, rows, 2, rows * 2, 2), options);
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("evicted values go into the most similar kept row", "[ops][merge]", float, half,
                   bfloat16) {
  std::uint64_t seed = 100;
  for_each_rows_case<TestType>(
      [&](const RowsCase<TestType>& values) {
        const RowsForm form = values.layout().is_uniform() ? RowsForm::row_first : RowsForm::packed;
        std::vector<std::int64_t> rows;
        for (std::int64_t h = 0; h < values.heads(); ++h) rows.push_back(values.layout().rows(h));
        // Keys of a dimension of their own.
        const RowsCase<TestType> keys(form, rows, 3 + values.dim() % 7 * 9, ++seed);
        for (const double probability : {seed % 3 == 0 ? 0.1 : 0.6, seed % 8 == 0 ? 0.0 : 1.0}) {
          const Kept kept = random_rows(values.layout(), probability, seed);
          const kvevict::Selection selection = selected(kept);
          for (const kvevict::MergeOptions options :
               {kvevict::MergeOptions{}, kvevict::MergeOptions{0.31234f, 0.7}}) {
            reference::Heads want;
            for (std::size_t h = 0; h < kept.size(); ++h) {
              want.push_back(reference::merged_into_similar(
                  keys.exact()[h], values.exact()[h], kept[h],
                  static_cast<double>(options.threshold), options.fraction));
            }
            std::vector<TestType> first;
            for (const int threads : thread_counts) {
              RowsCase<TestType> got = values.copy();
              TestResources res({.threads = threads});
              merge_rows(res, selection.view(), keys.view(), got.writable(), options);
              INFO(values.describe() << ", keys of " << keys.dim() << ", kept " << probability
                                     << ", fraction " << options.fraction);
              require_merged(got, want, values, kept);
              if (threads == 1) first = got.memory();
              REQUIRE(std::memcmp(first.data(), got.memory().data(),
                                  first.size() * sizeof(TestType)) == 0);
            }
          }
        }
      },
      {1, 8, 130});
}

TEST_CASE("a merge by hand", "[ops][merge]") {
  // Row 2 is equally similar to both kept rows and goes into the first, with cos 45 degrees times
  // 3 / (3 + 1); row 3 points away from both.
  const std::vector<float> keys = {1, 0, 0, 1, 1, 1, -1, 0};
  const std::vector<float> got = merged(keys, {1, 0, 0, 2, 3, 0, 5, 0}, {0, 1});
  const double weight = std::sqrt(0.5) * 3 / (4 + 1e-6);
  REQUIRE(got[0] == Approx((1 + 3 * weight) / (1 + weight)).epsilon(1e-6));
  REQUIRE(std::vector<float>(got.begin() + 1, got.end()) ==
          std::vector<float>{0, 0, 2, 3, 0, 5, 0});
}

TEST_CASE("the fraction counts evicted rows, the first of equals", "[ops][merge]") {
  // Rows 1 to 4 are parallel to the kept row 0: which of them count shows in its value.
  const std::vector<float> keys = {1, 0, 2, 0, 3, 0, 4, 0, 5, 0};
  const std::vector<float> values = {0, 1, 1, 0, 2, 0, 4, 0, 8, 0};
  const auto first_channel = [&](double fraction) {
    return static_cast<double>(merged(keys, values, {0}, {.fraction = fraction})[0]);
  };
  const auto want = [](int count) {
    double sum = 0;
    double total = 1;
    for (int i = 0; i < count; ++i) {
      const double length = std::ldexp(1.0, i);
      const double weight = length / (length + 1 + 1e-6);
      sum += weight * length;
      total += weight;
    }
    return sum / total;
  };
  REQUIRE(first_channel(1.0) == Approx(want(4)).epsilon(1e-6));
  REQUIRE(first_channel(0.7) == Approx(want(3)).epsilon(1e-6));  // 4 - ceil(0.3 * 3)
  REQUIRE(first_channel(0.5) == Approx(want(2)).epsilon(1e-6));
  REQUIRE(first_channel(0.01) == Approx(want(1)).epsilon(1e-6));
}

TEST_CASE("the size of keys does not matter for a merge", "[ops][merge]") {
  const std::vector<float> keys = {1, 0.1f, 0, 1, 1, 0.5f, -0.2f, 1};
  const std::vector<float> values = {1, 0, 0, 2, 3, 0, 5, 1};
  const std::vector<float> want = merged(keys, values, {0, 1});
  REQUIRE(want != values);
  for (const float scale : {0x1p-120f, 0x1p-60f, 0x1p100f, 0x1p126f}) {
    std::vector<float> scaled = keys;
    for (float& key : scaled) key *= scale;
    const std::vector<float> got = merged(scaled, values, {0, 1});
    for (std::size_t i = 0; i < want.size(); ++i) REQUIRE(got[i] == Approx(want[i]).margin(1e-5));
  }
}

TEST_CASE("rows that are not finite, or of length zero, are not merged", "[ops][merge]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const float large = std::numeric_limits<float>::max();
  const std::vector<float> keys = {1, 0, 0, 1, 2, 0};
  const std::vector<float> values = {1, 0, 0, 2, 3, 4};
  REQUIRE(merged(keys, values, {0, 1})[0] != 1.0f);
  for (const float bad : {nan, inf, -inf, large}) {
    INFO(bad);
    // In an evicted value, an evicted key, a kept key.
    std::vector<float> bad_values = values;
    bad_values[4] = bad_values[5] = bad;
    REQUIRE(merged(keys, bad_values, {0, 1})[0] == 1.0f);
    REQUIRE(merged({1, 0, 0, 1, bad, bad}, values, {0, 1})[0] == 1.0f);
    REQUIRE(merged({bad, bad, 0, 1, 2, 0}, values, {0, 1})[0] == 1.0f);
  }
  // In a kept value: it stays what it is.
  REQUIRE(merged(keys, {inf, 0, 0, 2, 3, 4}, {0, 1})[0] == inf);
  REQUIRE(std::isnan(merged(keys, {nan, 0, 0, 2, 3, 4}, {0, 1})[0]));
  REQUIRE(merged({1, 0, 0, 1, 0, 0}, values, {0, 1})[0] == 1.0f);
  REQUIRE(merged({0, 0, 0, 0, 2, 0}, values, {0, 1}) == values);
}

TEST_CASE("a merged value lies between those that went into it", "[ops][merge]") {
  const auto n = static_cast<std::int64_t>(200);
  RowsCase<half> values(RowsForm::head_first, {n}, 16, 3);
  values.fill([&](std::int64_t) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < n * 16; ++i) all.push_back(65504.0f);
    return all;
  });
  const RowsCase<half> keys(RowsForm::head_first, {n}, 16, 4);
  TestResources res({.threads = 1});
  const kvevict::Selection kept = selected(random_rows(values.layout(), 0.2, 5));
  merge_rows(res, kept.view(), keys.view(), values.writable(), kvevict::MergeOptions{});
  for (const double number : numbers_of(values.view())) REQUIRE(number == 65504.0);
}

TEMPLATE_TEST_CASE("evicted values go into the kept rows behind them", "[ops][merge]", float, half,
                   bfloat16) {
  std::uint64_t seed = 200;
  for_each_rows_case<TestType>(
      [&](const RowsCase<TestType>& values) {
        const kvevict::RowLayout<> layout = values.layout();
        std::vector<float> attention;
        std::vector<std::int32_t> positions;
        const Random random(++seed);
        for (std::int64_t i = 0; i < layout.total(); ++i) {
          attention.push_back(static_cast<float>(random.uniform(static_cast<std::uint64_t>(i))));
        }
        for (std::int64_t i = 0; i < layout.longest(); ++i) {
          positions.push_back(static_cast<std::int32_t>(10 + 3 * i));
        }
        for (const double probability : {seed % 3 == 0 ? 0.2 : 0.7, seed % 8 == 0 ? 0.0 : 1.0}) {
          const Kept kept = random_rows(layout, probability, seed);
          const kvevict::Selection selection = selected(kept);
          for (const std::int64_t span :
               {std::int64_t{1}, std::int64_t{5}, std::int64_t{1} << 40}) {
            const kvevict::FollowingMergeOptions options{span, 77};
            reference::Heads want;
            for (std::size_t h = 0; h < kept.size(); ++h) {
              const auto head = static_cast<std::int64_t>(h);
              const float* of_head = attention.data() + layout.offset(head);
              want.push_back(reference::merged_into_following(
                  values.exact()[h], kept[h],
                  std::vector<double>(of_head, of_head + layout.rows(head)),
                  static_cast<std::size_t>(span), [&](std::size_t row) {
                    return static_cast<double>(
                        kvevict::random_uniform(77, h, static_cast<std::uint64_t>(positions[row])));
                  }));
            }
            std::vector<TestType> first;
            for (const int threads : thread_counts) {
              RowsCase<TestType> got = values.copy();
              TestResources res({.threads = threads});
              merge_following_rows(res, selection.view(), HostPositions::shared(positions.data()),
                                   kvevict::ScoreView<>{attention.data(), layout}, got.writable(),
                                   options);
              INFO(values.describe() << ", kept " << probability << ", span " << span);
              require_merged(got, want, values, kept);
              if (threads == 1) first = got.memory();
              REQUIRE(std::memcmp(first.data(), got.memory().data(),
                                  first.size() * sizeof(TestType)) == 0);
            }
          }
        }
      },
      {8, 130});
}

TEST_CASE("attention decides how often a value goes on", "[ops][merge]") {
  // Evicted rows at even places, in units of which each kept row behind receives all.
  constexpr std::int64_t n = 4000;
  std::vector<std::int32_t> odd;
  for (std::int32_t i = 1; i < n; i += 2) odd.push_back(i);
  const kvevict::Selection kept = selection_of({odd});
  const auto layout = kvevict::RowLayout<>::uniform(1, n);
  const auto merged_share = [&](float of_evicted) {
    std::vector<float> values(n, 1.0f);
    std::vector<float> attention(n, 1.0f);
    for (std::size_t i = 0; i < n; i += 2) attention[i] = of_evicted;
    TestResources res({.threads = 1});
    merge_following_rows(res, kept.view(), HostPositions::consecutive(),
                         kvevict::ScoreView<>{attention.data(), layout},
                         RowsView<float>::strided(values.data(), 1, n, 1, n, 1), {.span = 1});
    double sum = 0;
    for (std::size_t i = 1; i < n; i += 2) sum += static_cast<double>(values[i]) - 1;
    return sum / (n / 2);
  };
  REQUIRE(merged_share(0.0f) == 0.0);
  REQUIRE(merged_share(1.0f) == 1.0);
  REQUIRE(merged_share(7.0f) == 1.0);
  // 2000 draws: a standard deviation of 0.01.
  REQUIRE(merged_share(0.3f) == Approx(0.3).margin(0.05));
  REQUIRE(merged_share(std::numeric_limits<float>::quiet_NaN()) == 0.0);
}

TEST_CASE("bad options of merges are refused", "[ops][merge]") {
  TestResources res({.threads = 1});
  RowsCase<float> rows(RowsForm::head_first, {3}, 4, 1);
  const std::vector<float> before = rows.memory();
  const kvevict::Selection kept = selection_of({{0, 2}});
  const auto merge = [&](float threshold, double fraction) {
    return refused([&] {
      merge_rows(res, kept.view(), rows.view(), rows.writable(),
                 kvevict::MergeOptions{threshold, fraction});
    });
  };
  REQUIRE(merge(-0.5f, 1.0) == "threshold is -0.5, must be in [0, 1]");
  REQUIRE(merge(1.5f, 1.0) == "threshold is 1.5, must be in [0, 1]");
  REQUIRE(merge(std::nanf(""), 1.0) == "threshold is nan, must be in [0, 1]");
  REQUIRE(merge(0.0f, 0.0) == "fraction is 0, must be in (0, 1]");
  REQUIRE(merge(0.0f, 1.5) == "fraction is 1.5, must be in (0, 1]");
  REQUIRE(merge(0.0f, std::nan("")) == "fraction is nan, must be in (0, 1]");
  std::vector<float> attention(3, 1.0f);
  for (const std::int64_t span : {0, -3}) {
    REQUIRE(refused([&] {
              merge_following_rows(res, kept.view(), HostPositions::consecutive(),
                                   kvevict::ScoreView<>{attention.data(), rows.layout()},
                                   rows.writable(), {.span = span});
            }) == "span is " + std::to_string(span) + ", must be >= 1");
  }
  REQUIRE(std::memcmp(before.data(), rows.memory().data(), before.size() * sizeof(float)) == 0);
}
