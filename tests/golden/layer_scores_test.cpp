// SPDX-License-Identifier: Apache-2.0
// Policies that kvpress lets look at all heads of a layer together: their scores are made of those
// of the library's heads.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/cpu/centred_leverage.hpp"
#include "kvevict/cpu/chunk_attention.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/pooling.hpp"
#include "kvevict/cpu/row_weighting.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/policy_inputs.hpp"
#include "support/backend.hpp"

namespace layer_scores_test {

using namespace kvevict_test;

namespace {

constexpr std::int64_t heads = GoldenCase::kv_heads;
constexpr std::int64_t rows = GoldenCase::rows;

std::vector<float> scores_of(const GoldenEntry& entry, const TestPolicy& policy) {
  TestResources res({.threads = 2});
  GoldenCase& given = golden_case(entry);
  std::vector<float> scores(static_cast<std::size_t>(heads * rows));
  kvevict::score_rows(res, policy, given.cache(), given.evidence(entry),
                      kvevict::ScoreView<>{scores.data(), given.cache().layout()});
  return scores;
}

// The mean over the heads, in each of them.
std::vector<float> layer_mean(const std::vector<float>& scores) {
  std::vector<float> out(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    double sum = 0.0;
    for (std::size_t h = 0; h < heads; ++h) {
      sum += static_cast<double>(scores[h * rows + i % rows]);
    }
    out[i] = static_cast<float>(sum / heads);
  }
  return out;
}

std::vector<std::vector<std::int32_t>> kept_by(const GoldenEntry& entry,
                                               std::vector<float> scores) {
  TestResources res({.threads = 2});
  const kvevict::KvView<const float> cache = golden_case(entry).cache();
  kvevict::Selection kept;
  kvevict::select_rows(res, kept, kvevict::ScoreView<>{scores.data(), cache.layout()}, cache, true,
                       golden_budget(entry), golden_protection(entry));
  return rows_of(kept);
}

// z-scores over the rows [first, last) of all heads together.
void standardise_layer(std::int64_t first, std::int64_t last, std::vector<float>& scores) {
  const auto each = [&](const auto& use) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = first; i < last; ++i)
        use(scores[static_cast<std::size_t>(h * rows + i)]);
    }
  };
  const auto count = static_cast<double>(heads * (last - first));
  double sum = 0.0;
  each([&](float x) { sum += static_cast<double>(x); });
  double squares = 0.0;
  each([&](float x) { squares += std::pow(static_cast<double>(x) - sum / count, 2); });
  const double deviation = std::sqrt(squares / (count - 1));
  each([&](float& x) {
    x = static_cast<float>((static_cast<double>(x) - sum / count) / deviation);
  });
}

// Compactor's two parts as the library has them, blended with z-scores over the layer.
std::vector<float> compactor_of_layer(const GoldenEntry& entry) {
  const TestPolicy named = make_policy("Compactor", entry.parameters);
  const auto& policy = std::get<kvevict::Compactor>(named.variant());
  const kvevict::RowRange range{policy.skip_first, policy.skip_last};
  GoldenCase& given = golden_case(entry);
  const kvevict::KvView<const float> cache = given.cache();
  const kvevict::Evidence<> evidence = given.evidence(entry);
  TestResources res({.threads = 2});
  std::vector<float> leverage(static_cast<std::size_t>(heads * rows));
  std::vector<float> attention(leverage.size());
  kvevict::detail::key_leverage(res, cache, evidence, {policy.keys, 0, 0, policy.noise, range},
                                kvevict::ScoreView<>{leverage.data(), cache.layout()});
  kvevict::detail::chunk_importance(
      res, cache, evidence,
      {policy.chunk, policy.padding, 3, false, kvevict::GroupReduction::mean, range},
      kvevict::ScoreView<>{attention.data(), cache.layout()});
  standardise_layer(range.begin(rows), range.end(rows), leverage);
  standardise_layer(range.begin(rows), range.end(rows), attention);
  for (std::size_t i = 0; i < attention.size(); ++i) {
    attention[i] += static_cast<float>(policy.blending) * leverage[i];
  }
  return attention;
}

std::vector<float> sketched_leverage(const GoldenEntry& entry) {
  const NpyArray array =
      golden_data().array(entry.case_name() + "/input/" + required(entry.evidence, "sketch"));
  const std::vector<float> sketch = array.values_float();
  const auto width = static_cast<std::size_t>(array.dim(2));
  constexpr std::size_t dim = GoldenCase::dim;
  // [head][width][dim] with zeros below.
  std::vector<float> transforms(heads * dim * dim);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t c = 0; c < dim; ++c) {
      for (std::size_t w = 0; w < width; ++w) {
        transforms[(h * dim + w) * dim + c] = sketch[(h * dim + c) * width + w];
      }
    }
  }
  kvevict::Noise noise;
  kvevict::parse_parameter("noise", required(entry.parameters, "noise"), noise);
  TestResources res({.threads = 2});
  std::vector<float> scores(static_cast<std::size_t>(heads * rows));
  kvevict::centred_leverage(
      res, golden_case(entry).keys_before_rope(),
      kvevict::MatrixBatchView<const float>::packed(transforms.data(), heads, dim, dim), {}, noise,
      kvevict::ScoreView<>{scores.data(), kvevict::RowLayout<>::uniform(heads, rows)});
  return scores;
}

void check(const GoldenEntry& entry, const std::vector<float>& scores) {
  if (entry.kind == "kept") {
    INFO(entry.id);
    CHECK(kept_by(entry, scores) == kept_rows(golden_data(), entry));
    return;
  }
  const Comparison comparison = compare_scores(entry, scores);
  INFO(entry.id << ": " << comparison.describe());
  CHECK(comparison.within());
}

// All scores and kept sets of a name.
std::vector<GoldenEntry> entries_of(const std::string& policy) {
  std::vector<GoldenEntry> entries = golden_data().entries("score", policy);
  for (const GoldenEntry& entry : golden_data().entries("kept", policy)) entries.push_back(entry);
  return entries;
}

}  // namespace

TEST_CASE("golden: TOVA's average over a layer", "[golden]") {
  const std::vector<GoldenEntry> entries = entries_of("LayerTOVA");
  for (const GoldenEntry& entry : entries) {
    check(entry, layer_mean(scores_of(entry, kvevict::TOVA{})));
  }
  CHECK(entries.size() == 6);
}

TEST_CASE("golden: attention without a causal mask, standardised over a layer", "[golden]") {
  const std::vector<GoldenEntry> entries = entries_of("LayerNonCausalAttention");
  for (const GoldenEntry& entry : entries) {
    std::vector<float> scores =
        scores_of(entry, make_policy("NonCausalAttention", entry.parameters));
    standardise_layer(0, rows, scores);
    check(entry, scores);
  }
  CHECK(entries.size() == 6);
}

TEST_CASE("golden: Compactor, standardised over a layer", "[golden]") {
  const std::vector<GoldenEntry> entries = entries_of("LayerCompactor");
  for (const GoldenEntry& entry : entries) check(entry, compactor_of_layer(entry));
  CHECK(entries.size() == 6);
}

TEST_CASE("golden: leverage through a given sketch", "[golden]") {
  const std::vector<GoldenEntry> entries = entries_of("SketchedLeverage");
  for (const GoldenEntry& entry : entries) check(entry, sketched_leverage(entry));
  CHECK(entries.size() == 5);
}

}  // namespace layer_scores_test
