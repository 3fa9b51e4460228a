// SPDX-License-Identifier: Apache-2.0
// Recipes are what their parts are, one after another.
#include "kvevict/recipes.hpp"

#include <cstdint>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/kvevict.hpp"
#include "reference/random_inputs.hpp"
#include "support/random.hpp"

namespace recipes_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::CpuResources;
using kvevict::KvView;
using kvevict::MutablePositions;
using kvevict::RefitHead;
using kvevict::RefitKind;
using kvevict::Selection;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t group = 2;
constexpr std::int64_t tokens = 150;
constexpr std::int64_t dim = 16;
const kvevict::Protect protect{.sinks = 2, .recent = 8};
const Budget budget = Budget::evict_ratio(0.7);

// A context, its cache and a replay of it: the second half of queries that a model has read twice.
struct Context {
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<float> queries;
  std::vector<std::int32_t> positions;
  std::optional<kvevict::Probes> probes_made;
  kvevict::KVzip::State replay = kvevict::KVzip::state();

  explicit Context(CpuResources& res) {
    const auto numbers = [](std::int64_t count, std::uint64_t seed) {
      std::vector<float> all(static_cast<std::size_t>(count));
      const Random random(seed);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<float>(random.uniform(i, -1.5, 1.5));
      }
      return all;
    };
    keys = numbers(heads * tokens * dim, 1);
    values = numbers(heads * tokens * dim, 2);
    queries = numbers(heads * group * tokens * dim, 3);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int32_t i = 0; i < tokens; ++i) positions.push_back(i);
    }
    probes_made = kvevict::future_probes(
        res, kvevict::QueriesView<>::packed(queries.data(), heads * group, tokens, dim),
        {.theta = 1e4}, {.next_position = tokens, .last = 20, .sampled = 10});
    replay.observe(res, view(),
                   {kvevict::QueriesView<>::packed(queries.data(), heads * group, tokens, dim),
                    kvevict::QueryPositions<>::consecutive(tokens)});
  }

  KvView<float> view() {
    return KvView<float>::hnd(keys.data(), values.data(), heads, tokens, dim)
        .with_positions(MutablePositions<>::packed(positions.data()));
  }
  kvevict::ProbeQueries<> probes() const { return probes_made->view(); }
  kvevict::Evidence<> evidence() const {
    return {.probes = probes(), .attention_mass = replay.mass()};
  }
  // The front of every head after an eviction.
  std::vector<float> held(const Selection& kept) {
    std::vector<float> all;
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < kept.count(h) * dim; ++i) {
        all.push_back(keys[static_cast<std::size_t>(h * tokens * dim + i)]);
        all.push_back(values[static_cast<std::size_t>(h * tokens * dim + i)]);
      }
      for (std::int64_t i = 0; i < kept.count(h); ++i) {
        all.push_back(static_cast<float>(positions[static_cast<std::size_t>(h * tokens + i)]));
      }
    }
    return all;
  }
};

// The recipe's steps by hand.
template <class P>
std::vector<float> by_hand(CpuResources& res, const P& policy, bool refitted) {
  Context context(res);
  const Selection kept = kvevict::evict(res, policy, context.view(), context.evidence(), budget,
                                        protect, kvevict::GlobalBudget{});
  if (!refitted) {
    kvevict::compact(res, kept, context.view());
    return context.held(kept);
  }
  std::vector<float> k(static_cast<std::size_t>(kept.total() * dim));
  std::vector<float> v = k;
  std::vector<RefitHead> accounts(heads);
  const auto out = KvView<float>::ragged(k.data(), v.data(), kept.layout(), dim);
  kvevict::refit(res, kept, context.view(), context.probes(), {}, out, accounts);
  kvevict::compact_refitted(res, kept, context.view(), out);
  return context.held(kept);
}

template <class P>
std::vector<float> by_recipe(CpuResources& res, const kvevict::Recipe<P>& recipe,
                             std::vector<RefitHead>* accounts = nullptr) {
  Context context(res);
  Selection kept;
  kvevict::evict_and_compact(res, kept, recipe, context.view(), context.evidence(), budget, protect,
                             accounts);
  CHECK(kept.total() == 3 * 45);
  return context.held(kept);
}

}  // namespace

TEST_CASE("recipes: each is its parts, one after another", "[refit][recipes]") {
  CpuResources res({.threads = 2});
  using kvevict::ProbeAttention;
  const kvevict::recipes::ProbesAndReplay both{.of = kvevict::BlendOf::values};
  CHECK(by_recipe(res, kvevict::recipes::fast()) == by_hand(res, ProbeAttention{}, false));
  std::vector<RefitHead> accounts;
  CHECK(by_recipe(res, kvevict::recipes::balanced(), &accounts) ==
        by_hand(res, ProbeAttention{}, true));
  REQUIRE(accounts.size() == heads);
  for (const RefitHead& head : accounts) CHECK(head.error <= head.evict_error);
  CHECK(by_recipe(res, kvevict::recipes::careful()) == by_hand(res, ProbeAttention{}, true));
  CHECK(kvevict::recipes::careful().probes.last > kvevict::recipes::balanced().probes.last);
  CHECK(by_recipe(res, kvevict::recipes::thorough()) == by_hand(res, both, true));
  CHECK(by_recipe(res, kvevict::recipes::thorough()) !=
        by_recipe(res, kvevict::recipes::balanced()));
  CHECK(both.comparable_across_heads());
}

TEST_CASE("recipes: the sum is of both scores", "[refit][recipes]") {
  CpuResources res({.threads = 1});
  Context context(res);
  const auto scores = [&](const auto& policy) {
    std::vector<float> all(heads * tokens);
    kvevict::score_rows(res, policy, context.view(), context.evidence(),
                        kvevict::ScoreView<>{all.data(), context.view().layout()});
    return all;
  };
  const std::vector<float> probes = scores(kvevict::ProbeAttention{});
  const std::vector<float> replay = scores(kvevict::KVzip{});
  const std::vector<float> both = scores(kvevict::recipes::thorough().policy);
  for (std::size_t i = 0; i < both.size(); ++i) {
    REQUIRE(both[i] == Approx(probes[i] + replay[i]).epsilon(1e-6));
  }
}

TEST_CASE("recipes: what is missing is named, and nothing is changed", "[refit][recipes]") {
  CpuResources res({.threads = 1});
  Context context(res);
  Selection kept;
  const Selection all =
      kvevict::evict(res, kvevict::KNorm{}, context.view(), {}, Budget::rows(tokens));
  const std::vector<float> before = context.held(all);
  const auto refusal = [&](const auto& recipe, const kvevict::Evidence<>& evidence,
                           kvevict::ErrorKind kind = kvevict::ErrorKind::invalid_argument) {
    const std::string text = refused(
        [&] {
          kvevict::evict_and_compact(res, kept, recipe, context.view(), evidence, budget, protect);
        },
        kind);
    CHECK(context.held(all) == before);
    return text;
  };
  CHECK(refusal(kvevict::recipes::fast(), {}) ==
        "evidence.probes is missing, must be given for ProbeAttention");
  CHECK(refusal(kvevict::recipes::balanced(), {}) ==
        "evidence.probes is missing, must be given for a refit");
  CHECK(refusal(kvevict::recipes::thorough(), {.probes = context.probes()}) ==
        "evidence.attention_mass is missing, must be given for Blend");
  auto with_bias = kvevict::recipes::balanced();
  with_bias.refit->mass = kvevict::RefitMass::bias;
  CHECK(refusal(with_bias, context.evidence(), kvevict::ErrorKind::unsupported) ==
        "refit.mass is bias, must be none or absorbed: a bias has nowhere to go");
}

}  // namespace recipes_test
