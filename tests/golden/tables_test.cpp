// SPDX-License-Identifier: Apache-2.0
// The order of selection and the roundings of budgets.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "kvevict/core/budget.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "support/backend.hpp"
#include "support/golden.hpp"

using namespace kvevict_test;

namespace {

// The `count` rows that survive of one head with these scores.
std::vector<std::int32_t> select(std::vector<float> scores, std::int64_t count) {
  TestResources res({.threads = 1});
  const auto layout = kvevict::RowLayout<>::uniform(1, static_cast<std::int64_t>(scores.size()));
  std::vector<std::int32_t> kept(static_cast<std::size_t>(count));
  kvevict::select_top(res, kvevict::ScoreView<>{scores.data(), layout},
                      kvevict::Positions<>::consecutive(), {},
                      kvevict::RowLayout<>::uniform(1, count), kept.data());
  return kept;
}

}  // namespace

TEST_CASE("golden: the order of ties, signed zeros, NaN, infinities and denormals", "[golden]") {
  const GoldenData& data = golden_data();
  const NpyArray array = data.array("tables/select_scores");
  const std::vector<float> scores = array.values_float();
  const std::vector<std::int32_t> order = data.array("tables/select_order").values_int32();
  const std::vector<std::int32_t> kept = data.array("tables/select_kept").values_int32();
  const std::vector<std::int64_t> counts =
      required_list(data.entry("tables/select_kept").selection, "counts");
  const std::int64_t rows = array.dim(1);
  auto next_kept = kept.begin();
  for (std::int64_t c = 0; c < array.dim(0); ++c) {
    INFO("case " << c);
    const std::vector<float> one(scores.begin() + c * rows, scores.begin() + (c + 1) * rows);
    // One more row at a time gives the order.
    std::vector<std::int32_t> smaller;
    for (std::int64_t count = 1; count <= rows; ++count) {
      const std::vector<std::int32_t> larger = select(one, count);
      std::vector<std::int32_t> added;
      std::set_difference(larger.begin(), larger.end(), smaller.begin(), smaller.end(),
                          std::back_inserter(added));
      CHECK(added ==
            std::vector<std::int32_t>{order[static_cast<std::size_t>(c * rows + count - 1)]});
      smaller = larger;
    }
    for (const std::int64_t count : counts) {
      CHECK(select(one, count) == std::vector<std::int32_t>(next_kept, next_kept + count));
      next_kept += count;
    }
  }
  CHECK(next_kept == kept.end());
}

TEST_CASE("golden: the roundings of kvpress", "[golden]") {
  const std::vector<double> table =
      golden_data().array("tables/reference_rounding").values_double();
  std::size_t fewer = 0;
  for (std::size_t i = 0; i < table.size(); i += 3) {
    const auto rows = static_cast<std::int64_t>(table[i]);
    const kvevict::Budget budget = kvevict::Budget::evict_ratio(table[i + 1]);
    INFO("rows " << rows << " ratio " << table[i + 1]);
    const std::int64_t kept = budget.with_rounding(kvevict::Rounding::reference).kept_rows(rows);
    CHECK(kept == static_cast<std::int64_t>(table[i + 2]));
    CHECK(budget.kept_rows(rows) >= kept);
    if (budget.kept_rows(rows) > kept) ++fewer;
  }
  CHECK(fewer > 0);
}
