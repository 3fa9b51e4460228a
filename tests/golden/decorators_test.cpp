// SPDX-License-Identifier: Apache-2.0
// Kept sets and scores of policies under decorators.
#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "front/given_scores.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/kvevict.hpp"
#include "policies/any_policy_calls.hpp"
#include "support/backend.hpp"

namespace decorators_test {

using namespace kvevict_test;
using kvevict::KvView;
using kvevict::QueriesView;
using kvevict::QueryPositions;
using kvevict::ScoreView;
using kvevict::SnapKV;

namespace {

std::vector<GoldenEntry> decorated(const std::string& decorator) {
  std::vector<GoldenEntry> entries;
  for (const GoldenEntry& entry : golden_data().entries("composed")) {
    const auto named = entry.selection.find("decorator");
    if (named != entry.selection.end() && named->second == decorator) entries.push_back(entry);
  }
  return entries;
}

std::vector<float> scores_of(const GoldenEntry& entry) {
  GoldenCase& given = golden_case(entry);
  TestResources res({.threads = 2});
  std::vector<float> scores(static_cast<std::size_t>(given.cache().layout().total()));
  kvevict::score_rows(res, golden_policy(entry), given.cache(), given.evidence(entry),
                      ScoreView<>{scores.data(), given.cache().layout()});
  return scores;
}

// The output projection itself, [query_head][hidden][dim].
kvevict::OutputProjection<> projection_of(const GoldenEntry& entry) {
  static std::map<std::string, std::vector<float>> all;
  std::vector<float>& w_o = all[entry.case_name()];
  if (w_o.empty()) {
    w_o = golden_data().array(entry.case_name() + "/input/output_projection").values_float();
  }
  kvevict::MatrixBatchView<const float> view;
  view.data = w_o.data();
  const std::int64_t hidden = GoldenCase::query_heads * GoldenCase::dim;
  const std::int64_t shape[] = {GoldenCase::query_heads, hidden, GoldenCase::dim};
  const std::int64_t stride[] = {GoldenCase::dim, hidden, 1};
  for (int d = 0; d < 3; ++d) {
    view.shape[d] = shape[d];
    view.stride[d] = stride[d];
  }
  return {view};
}

}  // namespace

TEST_CASE("golden: every stored kept set of ChunkKV is reproduced exactly", "[golden]") {
  std::size_t count = 0;
  for (const GoldenEntry& entry : decorated("chunkkv")) {
    INFO(entry.id);
    // Rows of the window hold a sentinel there, which takes part in the means of chunks.
    std::vector<float> scores = scores_of(entry);
    const float sentinel = *std::max_element(scores.begin(), scores.end()) + 1.0f;
    const std::int64_t window = required_integer(entry.parameters, "window");
    for (std::int64_t h = 1; h <= GoldenCase::kv_heads; ++h) {
      std::fill_n(scores.begin() + (h * GoldenCase::rows - window), window, sentinel);
    }
    const kvevict::ChunkWise<GivenScores> policy{{scores},
                                                 required_integer(entry.selection, "chunk")};
    TestResources res({.threads = 2});
    kvevict::Selection kept;
    kvevict::evict_same_rows_into(res, kept, policy, golden_case(entry).cache(), {},
                                  GoldenCase::kv_heads, kvevict::GroupReduction::sum,
                                  kvevict::Budget::rows(required_integer(entry.selection, "rows")));
    CHECK(rows_of(kept) == kept_rows(golden_data(), entry));
    ++count;
  }
  CHECK(count == 12);
}

TEST_CASE("golden: every stored kept set of ChunkPress is reproduced exactly", "[golden]") {
  // Chunks that are scored and selected each for itself are heads of their own.
  std::size_t count = 0;
  for (const GoldenEntry& entry : decorated("chunk_press")) {
    INFO(entry.id);
    GoldenCase& given = golden_case(entry);
    const std::int64_t chunk = required_integer(entry.selection, "chunk");
    const std::int64_t chunks = GoldenCase::rows / chunk;
    const std::int64_t window = required_integer(entry.parameters, "window");
    const KvView<const float> whole = given.cache();
    const auto cache =
        KvView<const float>::hnd(whole.keys().head(0).data, whole.values().head(0).data,
                                 GoldenCase::kv_heads * chunks, chunk, GoldenCase::dim);
    std::vector<const float*> table;
    for (std::int64_t h = 0; h < GoldenCase::kv_heads; ++h) {
      for (std::int64_t c = 0; c < chunks; ++c) {
        for (std::int64_t q = 3 * h; q < 3 * h + 3; ++q) {
          table.push_back(static_cast<const float*>(
              given.queries_after_rope().row(q, (c + 1) * chunk - window)));
        }
      }
    }
    const kvevict::QueryWindow<> queries{
        QueriesView<>::per_head(table.data(), static_cast<std::int64_t>(table.size()), window,
                                GoldenCase::dim, GoldenCase::dim),
        QueryPositions<>::consecutive(static_cast<std::int32_t>(chunk - window))};
    TestResources res({.threads = 2});
    const kvevict::Selection kept =
        kvevict::evict(res, golden_policy(entry), cache, {.query_window = queries},
                       golden_budget(entry), {.recent = window});
    std::vector<std::vector<std::int32_t>> rows(GoldenCase::kv_heads);
    for (std::int64_t h = 0; h < kept.heads(); ++h) {
      for (const std::int32_t row : kept.head(h)) {
        rows[static_cast<std::size_t>(h / chunks)].push_back(
            row + static_cast<std::int32_t>(h % chunks * chunk));
      }
    }
    CHECK(rows == kept_rows(golden_data(), entry));
    ++count;
  }
  CHECK(count == 4);
}

TEST_CASE("golden: scores and kept sets of CriticalKV are reproduced", "[golden]") {
  std::size_t count = 0;
  for (const GoldenEntry& entry : decorated("critical")) {
    INFO(entry.id);
    GoldenCase& given = golden_case(entry);
    kvevict::Evidence<> evidence = given.evidence(entry);
    evidence.output_projection = projection_of(entry);
    const double ratio = required_number(entry.selection, "evict_ratio");
    const auto policy = kvevict::ValueWeighted<SnapKV>::critical(
        std::get<SnapKV>(golden_policy(entry).variant()), 1.0 - ratio);
    TestResources res({.threads = 2});
    std::vector<float> memory(static_cast<std::size_t>(given.cache().layout().total()));
    const ScoreView<> scores{memory.data(), given.cache().layout()};
    kvevict::score_rows(res, policy, given.cache(), evidence, scores);
    if (ratio == 0.5) {
      const GoldenEntry& stored =
          golden_data().entry(entry.case_name() + "/tensor/critical_scores");
      const std::vector<double> want = golden_data().array(stored.id).values_double();
      Comparison comparison;
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (want[i] < 0.0) continue;  // of the first stage
        add(comparison, static_cast<double>(memory[i]), want[i], stored.tolerance);
      }
      INFO(comparison.describe());
      CHECK(comparison.within());
      CHECK(comparison.size == 3 * 192);
    }
    kvevict::Selection kept;
    kvevict::select_rows(res, kept, scores, given.cache(), false, golden_budget(entry),
                         golden_protection(entry));
    CHECK(rows_of(kept) == kept_rows(golden_data(), entry));
    // The same rows where the budget says how many the first stage chooses.
    kvevict::evict_into(res, kept, kvevict::CriticalKV<SnapKV>{policy.inner}, given.cache(),
                        evidence, golden_budget(entry), golden_protection(entry));
    CHECK(rows_of(kept) == kept_rows(golden_data(), entry));
    ++count;
  }
  CHECK(count == 4);
}

TEST_CASE("golden: every stored kept set of BlockPress is reproduced exactly", "[golden]") {
  std::size_t count = 0;
  for (const GoldenEntry& entry : decorated("block_streaming")) {
    INFO(entry.id);
    const kvevict::BlockStreaming<kvevict::KeyDiff> policy{
        .keep = required_integer(entry.selection, "rows"),
        .block = required_integer(entry.selection, "block")};
    TestResources res({.threads = 2});
    const kvevict::Selection kept =
        kvevict::evict(res, policy, golden_case(entry).cache(), {}, golden_budget(entry));
    CHECK(rows_of(kept) == kept_rows(golden_data(), entry));
    ++count;
  }
  CHECK(count == 12);
}

}  // namespace decorators_test
