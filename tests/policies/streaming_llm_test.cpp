// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/streaming_llm.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

namespace streaming_llm_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::StreamingLLM;

namespace {

// Positions that survive, of a head whose rows stand at these positions.
reference::Positions kept(std::int64_t sinks, const reference::Positions& positions,
                          std::int64_t budget) {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(positions.size(), 1)};
  inputs.values = inputs.keys;
  inputs.row_positions = {positions};
  const PackedCache<float> cache(inputs);
  TestResources res({.threads = 1});
  const kvevict::Selection selection = kvevict::evict(res, TestPolicy(StreamingLLM{.sinks = sinks}),
                                                      cache.view(), {}, Budget::rows(budget));
  reference::Positions out;
  for (const std::int32_t row : selection.head(0)) {
    out.push_back(positions[static_cast<std::size_t>(row)]);
  }
  return out;
}

reference::Positions range(std::int64_t first, std::int64_t last) {
  reference::Positions positions;
  for (std::int64_t p = first; p < last; ++p) positions.push_back(p);
  return positions;
}

}  // namespace

TEST_CASE("StreamingLLM: keeps the sinks and the most recent rows", "[policies][streaming]") {
  for (const std::int64_t rows : {1, 2, 7, 40}) {
    for (const std::int64_t sinks : {0, 1, 4, 100}) {
      for (std::int64_t budget = 0; budget <= rows; ++budget) {
        const std::int64_t first = std::min({sinks, budget, rows});
        reference::Positions want = range(0, first);
        for (std::int64_t p = rows - (budget - first); p < rows; ++p) want.push_back(p);
        INFO("rows " << rows << ", sinks " << sinks << ", budget " << budget);
        CHECK(kept(sinks, range(0, rows), budget) == want);
      }
    }
  }
}

TEST_CASE("StreamingLLM: sinks are named by position", "[policies][streaming]") {
  // The rows at 1 and 3 went earlier; no other rows become sinks in their place.
  CHECK(kept(4, {0, 2, 8, 9, 10, 11, 12}, 4) == reference::Positions{0, 2, 11, 12});
  CHECK(kept(4, {8, 9, 10, 11, 12}, 3) == reference::Positions{10, 11, 12});
}

TEST_CASE("StreamingLLM: evicting again keeps the sinks and the recent rows",
          "[policies][streaming]") {
  const reference::Positions once = kept(2, range(0, 20), 10);
  CHECK(once == reference::Positions{0, 1, 12, 13, 14, 15, 16, 17, 18, 19});
  CHECK(kept(2, once, 5) == reference::Positions{0, 1, 17, 18, 19});
}

TEST_CASE("StreamingLLM: feeding forever keeps a bounded cache", "[policies][streaming]") {
  reference::Positions held;
  for (std::int64_t t = 0; t < 10000; t += 20) {
    for (std::int64_t p = t; p < t + 20; ++p) held.push_back(p);
    held = kept(4, held, std::min<std::int64_t>(20, static_cast<std::int64_t>(held.size())));
    REQUIRE(held.size() == 20);
    REQUIRE(held.back() == t + 19);
    REQUIRE(held[3] == 3);
    REQUIRE(std::adjacent_find(held.begin(), held.end(), std::greater_equal<>()) == held.end());
  }
}

TEST_CASE("StreamingLLM: ranks beyond the integers of fp32 are refused", "[policies][streaming]") {
  // Nothing is read before the check, so the views need no memory behind them.
  const float nothing = 0;
  float scores = 0;
  const std::int64_t rows = (std::int64_t{1} << 24) + 1;
  const auto cache = kvevict::KvView<const float>::hnd(&nothing, &nothing, 1, rows, 1);
  TestResources res({.threads = 1});
  try {
    kvevict::score_rows(res, TestPolicy(StreamingLLM{}), cache, {},
                        kvevict::ScoreView<>{&scores, cache.layout()});
    FAIL("accepted");
  } catch (const kvevict::Error& error) {
    CHECK(error.kind() == kvevict::ErrorKind::unsupported);
    CHECK(std::string(error.what()).find("16777217") != std::string::npos);
  }
}

TEST_CASE("StreamingLLM: needs nothing and is comparable across heads", "[policies][streaming]") {
  CHECK(StreamingLLM{}.needs().empty());
  CHECK(StreamingLLM{}.comparable_across_heads());
}

}  // namespace streaming_llm_test
