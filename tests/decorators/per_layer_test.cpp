// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/per_layer.hpp"

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"

using kvevict::KNorm;
using kvevict::PerLayer;
using kvevict::StreamingLLM;
using namespace kvevict_test;

TEST_CASE("some heads are scored by another policy", "[decorators]") {
  DecoratedCase given;
  const auto base = given.scores(KNorm{});
  const auto other = given.scores(StreamingLLM{});
  using Policy = PerLayer<KNorm, StreamingLLM>;
  REQUIRE(given.scores(Policy{}) == base);
  REQUIRE(given.scores(Policy{.heads = {0, 1, 2, 3}}) == other);
  const auto got = given.scores(Policy{.heads = {3, 0}});
  REQUIRE(got[0] == other[0]);
  REQUIRE(got[1] == base[1]);
  REQUIRE(got[3] == other[3]);
}

TEST_CASE("policies for each layer are policies", "[decorators]") {
  using Policy = PerLayer<KNorm, kvevict::SnapKV>;
  REQUIRE(Policy{}.needs() == kvevict::SnapKV{}.needs());
  REQUIRE_FALSE(Policy{.heads = {1}} == Policy{});
  REQUIRE(refused([] { Policy{.heads = {2, -1}}.validate(); }) == "heads is -1, must be >= 0");
  DecoratedCase given;
  REQUIRE(refused([&] { given.scores(Policy{.heads = {4}}); }) ==
          "heads is 4, must be below the heads of the cache, 4");
}
