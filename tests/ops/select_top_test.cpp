// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/select_top.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "reference/selection.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace select_top_test {

using namespace kvevict_test;
using kvevict::Protect;
using kvevict::RowLayout;
using HostPositions = kvevict::Positions<>;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
const float not_a_number = std::nanf("");

struct Selected {
  std::vector<std::vector<std::int32_t>> heads;
  std::int64_t nan_scores = 0;
};

// Selects with 1, 2 and 3 threads, which must agree; guards the memory behind the indices.
Selected chosen(const RowLayout<>& layout, std::vector<float> scores,
                const std::vector<std::int64_t>& counts, const Protect& protect = {},
                const HostPositions& positions = {}) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t count : counts) offsets.push_back(offsets.back() + count);
  Selected first;
  for (const int threads : thread_counts) {
    TestResources res({.threads = threads});
    std::vector<std::int32_t> indices(static_cast<std::size_t>(offsets.back()) + 4, -77);
    select_top(res, kvevict::ScoreView<>{scores.data(), layout}, positions, protect,
               RowLayout<>::ragged(offsets.data(), layout.heads()), indices.data());
    REQUIRE(std::count(indices.end() - 4, indices.end(), -77) == 4);
    Selected now;
    now.nan_scores = res.report().nan_scores;
    for (std::size_t h = 0; h < counts.size(); ++h) {
      now.heads.emplace_back(indices.begin() + offsets[h], indices.begin() + offsets[h + 1]);
    }
    if (threads == 1) first = now;
    REQUIRE(now.heads == first.heads);
    REQUIRE(now.nan_scores == first.nan_scores);
  }
  return first;
}

std::vector<std::int32_t> chosen(const std::vector<float>& scores, std::int64_t count,
                                 const Protect& protect = {}) {
  return chosen(RowLayout<>::uniform(1, static_cast<std::int64_t>(scores.size())), scores, {count},
                protect)
      .heads[0];
}

std::vector<std::int32_t> expected(const std::vector<float>& scores, std::int64_t count,
                                   const reference::Rows& protected_rows = {}) {
  const std::vector<double> wide(scores.begin(), scores.end());
  std::vector<std::int32_t> out;
  for (const std::size_t row :
       reference::select_top(wide, static_cast<std::size_t>(count), protected_rows)) {
    out.push_back(static_cast<std::int32_t>(row));
  }
  return out;
}

// Scores of one kind that tests care about.
std::vector<float> scores_of_kind(int kind, std::int64_t count, std::uint64_t seed) {
  const Random random(seed);
  std::vector<float> out;
  constexpr float special[] = {0.0f, -0.0f, inf, -inf, 1e-45f, -1e-45f, 1.0f, -1.0f, 3e38f, -3e38f};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const auto special_or_nan = static_cast<std::size_t>(random.integer(at, 11));
    switch (kind) {
      case 0:
        out.push_back(static_cast<float>(random.normal(at)));
        break;
      case 1:  // many ties
        out.push_back(static_cast<float>(random.integer(at, 3)));
        break;
      case 2:  // all equal
        out.push_back(0.25f);
        break;
      case 3:
        out.push_back(special_or_nan < 10 ? special[special_or_nan] : not_a_number);
        break;
      case 4:  // equal in all but the last bits of the key
        out.push_back(1.0f + static_cast<float>(random.integer(at, 4)) * 0x1p-23f);
        break;
      default:  // all NaN
        out.push_back(random.integer(at, 2) == 0 ? not_a_number : -not_a_number);
    }
  }
  return out;
}

constexpr int kinds = 6;

}  // namespace

TEST_CASE("every count of every kind of scores agrees with a sort", "[ops][select_top]") {
  std::uint64_t number = 0;
  for (int kind = 0; kind < kinds; ++kind) {
    for (const std::int64_t n : {0, 1, 2, 3, 17, 64}) {
      const std::vector<float> scores = scores_of_kind(kind, n, 10 + static_cast<std::uint64_t>(n));
      for (std::int64_t count = 0; count <= n; ++count) {
        if (!case_runs(number++)) continue;
        INFO("kind " << kind << ", rows " << n << ", count " << count);
        REQUIRE(chosen(scores, count) == expected(scores, count));
      }
    }
  }
}

TEST_CASE("ties are kept from the first row on", "[ops][select_top]") {
  REQUIRE(chosen(std::vector<float>(9, 4.0f), 3) == std::vector<std::int32_t>{0, 1, 2});
  REQUIRE(chosen({1, 5, 5, 2, 5, 5}, 3) == std::vector<std::int32_t>{1, 2, 4});
  // The two zeros are one value.
  REQUIRE(chosen({-0.0f, 0.0f, -0.0f, 0.0f}, 2) == std::vector<std::int32_t>{0, 1});
  REQUIRE(chosen({-1e-45f, -0.0f, 0.0f, 1e-45f}, 2) == std::vector<std::int32_t>{1, 3});
}

TEST_CASE("NaN ranks below minus infinity and is counted", "[ops][select_top]") {
  REQUIRE(chosen({not_a_number, -inf, 1, -not_a_number}, 2) == std::vector<std::int32_t>{1, 2});
  REQUIRE(chosen({not_a_number, -inf, 1, -not_a_number}, 3) == std::vector<std::int32_t>{0, 1, 2});
  const auto selected =
      chosen(RowLayout<>::uniform(2, 4), {not_a_number, 1, 2, not_a_number, 1, not_a_number, 3, 4},
             {1, 4}, {.recent = 1});
  REQUIRE(selected.nan_scores == 3);
  REQUIRE(selected.heads[0] == std::vector<std::int32_t>{3});
}

TEST_CASE("protected rows come first, the best of the others follow", "[ops][select_top]") {
  const Random random(6);
  std::uint64_t next = 0;
  const auto draw = [&](std::int64_t count) { return random.integer(next++, count); };
  for (int round = 0; round < for_backend(600, 150); ++round) {
    if (!case_runs(static_cast<std::uint64_t>(round))) continue;
    const std::int64_t n = 1 + draw(40);
    const std::vector<float> scores =
        scores_of_kind(round % kinds, n, static_cast<std::uint64_t>(round));
    std::vector<std::int32_t> positions;
    std::int32_t position = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      position += static_cast<std::int32_t>(1 + draw(3));
      positions.push_back(position);
    }
    const kvevict::PositionSpan spans[] = {
        {static_cast<std::int32_t>(draw(60)), static_cast<std::int32_t>(60 + draw(6))}};
    const Protect protect{
        .sinks = draw(8), .recent = draw(5), .spans = std::span(spans, round % 2 == 0 ? 1u : 0u)};
    std::vector<std::pair<std::int64_t, std::int64_t>> reference_spans;
    for (const auto& span : protect.spans) reference_spans.push_back({span.begin, span.end});
    const reference::Rows held =
        reference::protected_rows(reference::Positions(positions.begin(), positions.end()),
                                  protect.sinks, protect.recent, reference_spans);
    const auto least = static_cast<std::int64_t>(held.size());
    for (const std::int64_t count :
         {least, std::min(n, least + 1), n, least + draw(n - least + 1)}) {
      INFO("round " << round << ", count " << count << " of " << n);
      REQUIRE(chosen(RowLayout<>::uniform(1, n), scores, {count}, protect,
                     HostPositions::packed(positions.data()))
                  .heads[0] == expected(scores, count, held));
    }
  }
}

TEST_CASE("ragged heads are selected each by its own count", "[ops][select_top]") {
  const std::vector<std::int64_t> offsets = {0, 0, 5, 6, 306, 310};
  const auto layout = RowLayout<>::ragged(offsets.data(), 5);
  const std::vector<float> scores = scores_of_kind(0, layout.total(), 3);
  const std::vector<std::int64_t> counts = {0, 5, 0, 77, 1};
  const Selected selected = chosen(layout, scores, counts);
  for (std::size_t h = 0; h < 5; ++h) {
    const std::vector<float> head(scores.begin() + offsets[h], scores.begin() + offsets[h + 1]);
    INFO("head " << h);
    REQUIRE(selected.heads[h] == expected(head, counts[h]));
  }
}

TEST_CASE("a million rows", "[ops][select_top]") {
  // On a device just as many as several blocks share; a million would take an emulator minutes.
  constexpr std::int64_t n = for_backend(1000000, 70000);
  std::vector<float> scores = scores_of_kind(0, n, 9);
  for (std::size_t i = 0; i < scores.size(); i += 3) scores[i] = 0.5f;  // and many ties
  std::vector<std::int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  for (const std::int64_t count : {n / 1000, 2 * n / 5, n - 1}) {
    std::vector<std::int32_t> want(order.begin(), order.begin() + count);
    std::sort(want.begin(), want.end());
    REQUIRE(chosen(scores, count) == want);
  }
}

TEST_CASE("counts that cannot be met are refused before anything is written", "[ops][select_top]") {
  TestResources res({.threads = 1});
  std::vector<float> scores(10, 1.0f);
  const auto layout = RowLayout<>::uniform(2, 5);
  std::vector<std::int32_t> indices(20, -7);
  const auto call = [&](std::vector<std::int64_t> offsets, const Protect& protect) {
    return [&, offsets, protect] {
      select_top(res, kvevict::ScoreView<>{scores.data(), layout}, HostPositions(), protect,
                 RowLayout<>::ragged(offsets.data(), 2), indices.data());
    };
  };
  REQUIRE(refused(call({0, 2, 8}, {})) ==
          "selection.count of head 1 is 6, must be at most the head's rows, 5");
  if (on_cpu) {  // a device is not asked how many rows are protected
    REQUIRE(refused_budget(call({0, 3, 5}, {.recent = 3})) ==
            "protected rows of head 1 is 3, must be at most the rows that it keeps, 2");
    REQUIRE(refused_budget(call({0, 0, 5}, {.sinks = 1})) ==
            "protected rows of head 0 is 1, must be at most the rows that it keeps, 0");
  }
  REQUIRE(refused(call({0, 3, 5}, {.recent = -1})) == "protect.recent is -1, must be >= 0");
  REQUIRE(indices == std::vector<std::int32_t>(20, -7));
}

}  // namespace select_top_test
