// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/curdkv.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::CurDKV;
using kvevict::CurLeverage;

TEST_CASE("CurDKV: scores are those of the double-precision loops", "[policies][curdkv]") {
  for (const char* const leverage : {"key", "value", "average", "product"}) {
    for (const char* const window : {"16", "1", "7", "300", "0"}) {
      check_varied("CurDKV", {{"leverage", leverage}, {"window", window}}, attention_score);
    }
  }
  check_varied("CurDKV", {{"skip_first", "0"}}, attention_score);
  check_varied("CurDKV", {{"skip_first", "50"}}, attention_score);
}

TEST_CASE("CurDKV: scores of a head sum to one", "[policies][curdkv]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {131}}, 3);
  for (const CurLeverage leverage :
       {CurLeverage::key, CurLeverage::value, CurLeverage::average, CurLeverage::product}) {
    for (const std::int64_t window : {0, 16}) {
      const std::vector<float> scores =
          library_scores(CurDKV{.leverage = leverage, .window = window, .skip_first = 0}, inputs);
      CHECK(std::accumulate(scores.begin(), scores.end(), 0.0) == Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("CurDKV: every window has the same share, so rows of a short last one rank higher",
          "[policies][curdkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {18}}, 3);
  inputs.keys[0].data.assign(inputs.keys[0].data.size(), 1.0);
  const std::vector<float> scores =
      library_scores(CurDKV{.leverage = CurLeverage::key, .window = 8, .skip_first = 0}, inputs);
  for (std::size_t i = 0; i < 18; ++i) {
    CHECK(scores[i] == Approx(i < 16 ? 1.0 / 24 : 1.0 / 6).epsilon(1e-6));
  }
}

TEST_CASE("CurDKV: a window of zeros scores zero and leaves the others alone",
          "[policies][curdkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {24}}, 3);
  for (std::size_t i = 8 * 8; i < 16 * 8; ++i) inputs.keys[0].data[i] = 0;
  const std::vector<float> scores = library_scores(CurDKV{.window = 8, .skip_first = 0}, inputs);
  CHECK(std::count(scores.begin() + 8, scores.begin() + 16, 0.0f) == 8);
  CHECK(std::accumulate(scores.begin(), scores.end(), 0.0) == Approx(1).epsilon(1e-5));
}

TEST_CASE("CurDKV: the scale of keys and values does not matter", "[policies][curdkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {70, 9}}, 5);
  const std::vector<float> scores = library_scores(CurDKV{}, inputs);
  inputs.keys = scaled(inputs.keys, 0x1p60);
  inputs.values = scaled(inputs.values, 0x1p-60);
  const Comparison comparison =
      compare(library_scores(CurDKV{}, inputs), scores, tolerance::float32_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
}
