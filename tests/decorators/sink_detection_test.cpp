// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/sink_detection.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"
#include "front/given_scores.hpp"
#include "support/golden.hpp"

using kvevict::KNorm;
using kvevict::SinkDetection;
using namespace kvevict_test;

TEST_CASE("rows with small values rank first", "[decorators]") {
  DecoratedCase given;
  const auto inner = given.scores(KNorm{});
  const auto got = given.scores(SinkDetection<KNorm>{.threshold = 0.8});
  int sinks = 0;
  for (std::size_t h = 0; h < inner.size(); ++h) {
    std::vector<double> norms;
    double mean = 0.0;
    for (std::size_t i = 0; i < inner[h].size(); ++i) {
      double sum = 0.0;
      for (std::size_t c = 0; c < 12; ++c) {
        sum += given.inputs.values[h](i, c) * given.inputs.values[h](i, c);
      }
      norms.push_back(std::sqrt(sum));
      mean += norms.back() / static_cast<double>(inner[h].size());
    }
    for (std::size_t i = 0; i < inner[h].size(); ++i) {
      if (norms[i] < 0.8 * mean) {
        ++sinks;
        REQUIRE(got[h][i] > *std::max_element(inner[h].begin(), inner[h].end()));
      } else {
        REQUIRE(got[h][i] == inner[h][i]);
      }
    }
  }
  REQUIRE(sinks > 10);
}

TEST_CASE("sinks of a real model are found by their values", "[decorators][golden]") {
  // Beside the first token some that come later: the same ones in all heads of a layer.
  const std::vector<std::pair<std::string, std::vector<std::size_t>>> cases = {
      {"code_l17", {0}}, {"gpl3_l09", {0, 9, 12, 16, 117, 169}}};
  for (const auto& [name, want] : cases) {
    const std::vector<float> keys = golden_data().array(name + "/input/keys").values_float();
    const std::vector<float> values = golden_data().array(name + "/input/values").values_float();
    const auto cache = kvevict::KvView<const float>::hnd(keys.data(), values.data(), 3, 256, 64);
    const SinkDetection<GivenScores> policy{{std::vector<float>(3 * 256, 1.0f)}};
    std::vector<float> scores(3 * 256);
    TestResources res({.threads = 1});
    kvevict::score_rows(res, policy, cache, {},
                        kvevict::ScoreView<>{scores.data(), cache.layout()});
    for (std::size_t h = 0; h < 3; ++h) {
      std::vector<std::size_t> found;
      for (std::size_t i = 0; i < 256; ++i) {
        if (scores[h * 256 + i] > 1.0f) found.push_back(i);
      }
      INFO(name << ", head " << h);
      if (name == "gpl3_l09" && h == 2) found.pop_back();  // row 242, a sink in this head only
      REQUIRE(found == want);
    }
  }
}

TEST_CASE("policies that detect sinks are policies", "[decorators]") {
  REQUIRE_FALSE(SinkDetection<KNorm>{.threshold = 0.5} == SinkDetection<KNorm>{});
  REQUIRE(refused([] { SinkDetection<KNorm>{.threshold = 2}.validate(); }) ==
          "threshold is 2, must be in [0, 1]");
  REQUIRE(SinkDetection<KNorm>{}.needs().empty());
}
