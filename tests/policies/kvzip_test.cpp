// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/kvzip.hpp"

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/mass.hpp"
#include "kvevict/cpu/running_mass.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/h2o.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::H2O;

TEST_CASE("KVzip: scores are those of the double-precision loops", "[policies][kvzip]") {
  check_varied("KVzip", {}, attention_score);
}

TEST_CASE("KVzip: a replay behind the context, in chunks", "[policies][kvzip]") {
  // 30 rows of context and 24 of its replay, which each query reads up to its own; only the
  // context's rows have scores, the largest weight of any query and query head.
  const reference::Inputs inputs =
      reference::random_inputs({.group = 2, .rows = {54, 54}, .queries = 54}, 31);
  reference::H2O largest;
  largest.accumulation = reference::Accumulation::max;
  TestResources res({.threads = 1});
  const PackedCache<float> whole(inputs);
  const std::vector<float> queries = reference::packed_float(inputs.queries);
  const auto dim = static_cast<std::int64_t>(inputs.queries[0].cols);
  H2O::State state = kvevict::KVzip::state();
  std::vector<double> want;
  for (std::size_t g = 0; g < 2; ++g) {
    reference::H2OHead head(largest);
    reference::Heads replay;
    for (std::size_t q = 2 * g; q < 2 * g + 2; ++q) {
      reference::Matrix rows(24, static_cast<std::size_t>(dim));
      for (std::size_t i = 0; i < 24; ++i) {
        for (std::size_t c = 0; c < rows.cols; ++c) rows(i, c) = inputs.queries[q](30 + i, c);
      }
      replay.push_back(rows);
    }
    reference::Positions positions(24);
    std::iota(positions.begin(), positions.end(), 30);
    head.observe(replay, positions, inputs.keys[g], inputs.positions_of_rows(g));
    const std::vector<double> all = head.scores();
    want.insert(want.end(), all.begin(), all.begin() + 30);
  }
  // Chunks of 10, 1 and 13 queries, each over the rows that are there by then.
  for (const auto& [first, count] : {std::pair{30, 10}, std::pair{40, 1}, std::pair{41, 13}}) {
    const std::vector<std::int64_t> offsets = {0, first + count, 2 * (first + count)};
    const float* table[] = {whole.view().keys().head(0).data, whole.view().keys().head(1).data};
    const float* values[] = {whole.view().values().head(0).data,
                             whole.view().values().head(1).data};
    const auto cache = kvevict::KvView<const float>::per_head(
        table, values, kvevict::RowLayout<>::ragged(offsets.data(), 2), dim);
    const auto chunk =
        kvevict::QueriesView<>::strided(queries.data() + first * dim, 4, count, dim, 54 * dim, dim);
    observe(res, state, cache, {chunk, kvevict::QueryPositions<>::consecutive(first)});
  }
  std::vector<float> scores(60);
  kvevict::KVzip{}.score(res, kvevict::KvView<const float>(),
                         kvevict::Evidence<>{.attention_mass = state.mass()},
                         kvevict::ScoreView<>{scores.data(), kvevict::RowLayout<>::uniform(2, 30)});
  const Comparison comparison = compare(scores, want, tolerance::float32_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
  CHECK(kvevict_test::refused([&] {
          std::vector<float> more(120);
          kvevict::KVzip{}.score(
              res, kvevict::KvView<const float>(),
              kvevict::Evidence<>{.attention_mass = state.mass()},
              kvevict::ScoreView<>{more.data(), kvevict::RowLayout<>::uniform(2, 60)});
        }) == "attention_mass.rows of head 0 is 54, must be at least the rows of the head, 60");
}
