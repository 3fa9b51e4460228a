// SPDX-License-Identifier: Apache-2.0
// Heads spread over processes: every process gets the counts that one with all heads would get.
#include <vector>

#include "allocators/shares_case.hpp"
#include "allocators/simulated_ranks.hpp"
#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/allocators/adaptive.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/allocators/mass.hpp"
#include "kvevict/allocators/spread.hpp"
#include "kvevict/allocators/table.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "kvevict/cpu/score_spread.hpp"
#include "kvevict/cpu/shared_scores.hpp"

using namespace kvevict_test;
using kvevict::AdaptiveBudget;
using kvevict::GlobalBudget;
using kvevict::HeadRanks;
using kvevict::MassBudget;
using kvevict::SpreadBudget;
using kvevict::TableBudget;

namespace {

// Layers of `layer` heads split at these places.
struct Split {
  std::size_t layer;
  std::vector<std::size_t> places;  // 0, ..., layer

  std::size_t ranks() const { return places.size() - 1; }
  HeadRanks of(std::size_t rank, HeadRanks hook) const {
    hook.first_head = static_cast<std::int64_t>(places[rank]);
    hook.heads = static_cast<std::int64_t>(places[rank + 1] - places[rank]);
    hook.layer_heads = static_cast<std::int64_t>(layer);
    return hook;
  }
};

// Integer scores with many ties, unequal lengths and shares.
SharesCase ragged_case(std::size_t heads, std::uint64_t seed) {
  const Random random(seed);
  std::uint64_t at = 0;
  SharesCase given;
  given.protect = {.sinks = 1, .recent = 1};
  for (std::size_t h = 0; h < heads; ++h) {
    given.heads.emplace_back();
    for (std::int64_t i = 2 + random.integer(at++, 20); i > 0; --i) {
      given.heads.back().push_back(static_cast<float>(random.integer(at++, 4)));
    }
    const auto rows = static_cast<std::int64_t>(given.heads.back().size());
    given.shares.push_back(2 + random.integer(at++, rows - 1));
  }
  return given;
}

// allocator(ranks, first head of the layer in the whole) makes the allocator of one process.
template <class Make>
void require_same(const SharesCase& whole, const Split& split, const Make& make) {
  Counts all;
  std::string error;
  TestResources res({.threads = 1});
  try {
    all = whole.divide(res, make(HeadRanks{}, whole));
  } catch (const kvevict::Error& thrown) {
    error = thrown.what();
  }
  SimulatedRanks ranks(split.ranks());
  const std::vector<Counts> parts = ranks.run([&](std::size_t rank, const HeadRanks& hook) {
    const SharesCase part = part_of(whole, split.layer, split.places[rank], split.places[rank + 1]);
    TestResources of_rank({.threads = 1});
    return part.divide(of_rank, make(split.of(rank, hook), part));
  });
  REQUIRE(ranks.error() == error);
  if (!error.empty()) return;
  for (std::size_t rank = 0; rank < split.ranks(); ++rank) {
    const std::size_t begin = split.places[rank];
    const std::size_t end = split.places[rank + 1];
    Counts want;
    for (std::size_t h = 0; h < all.size(); ++h) {
      if (h % split.layer >= begin && h % split.layer < end) want.push_back(all[h]);
    }
    REQUIRE(parts[rank] == want);
  }
}

const Split splits[] = {{4, {0, 2, 4}}, {5, {0, 1, 5}}, {6, {0, 1, 3, 6}}, {3, {0, 3}}};

}  // namespace

TEST_CASE("global thresholds over several processes", "[allocators][ranks]") {
  for (const Split& split : splits) {
    for (std::uint64_t seed = 0; seed < for_backend(20u, 2u); ++seed) {
      const SharesCase given = ragged_case(3 * split.layer, seed);
      INFO(split.ranks() << " ranks, seed " << seed);
      require_same(given, split, [](const HeadRanks& ranks, const SharesCase&) {
        return GlobalBudget{.ranks = ranks};
      });
      require_same(given, split, [](const HeadRanks& ranks, const SharesCase&) {
        return GlobalBudget{.floor = 3, .cap = 9, .ranks = ranks};
      });
    }
  }
}

TEST_CASE("thresholds of layers over several processes", "[allocators][ranks]") {
  for (const Split& split : splits) {
    for (std::uint64_t seed = 0; seed < for_backend(20u, 2u); ++seed) {
      const SharesCase given = ragged_case(3 * split.layer, 100 + seed);
      INFO(split.ranks() << " ranks, seed " << seed);
      require_same(given, split, [&](const HeadRanks& ranks, const SharesCase& part) {
        return AdaptiveBudget{.heads_per_layer = static_cast<std::int64_t>(part.heads.size() / 3),
                              .safeguard = 0.3,
                              .ranks = ranks};
      });
    }
  }
}

TEST_CASE("tables over several processes", "[allocators][ranks]") {
  for (const Split& split : splits) {
    for (std::uint64_t seed = 0; seed < for_backend(20u, 2u); ++seed) {
      const SharesCase given = ragged_case(3 * split.layer, 200 + seed);
      std::vector<std::vector<double>> tables;
      tables.reserve(1000);
      const auto table_of = [&](const SharesCase& part) {
        tables.emplace_back();
        for (const auto& head : part.heads) tables.back().push_back(0.25 * (head[0] + head[1]) / 2);
        return std::span<const double>(tables.back());
      };
      INFO(split.ranks() << " ranks, seed " << seed);
      require_same(given, split, [&](const HeadRanks& ranks, const SharesCase& part) {
        return TableBudget{.keep = table_of(part), .ranks = ranks};
      });
      require_same(given, split, [&](const HeadRanks& ranks, const SharesCase& part) {
        return TableBudget{.keep = table_of(part),
                           .heads_per_group = static_cast<std::int64_t>(part.heads.size() / 3),
                           .floor = 0,
                           .ranks = ranks};
      });
    }
  }
}

TEST_CASE("parts of the mass and spreads over several processes", "[allocators][ranks]") {
  for (const Split& split : splits) {
    for (std::uint64_t seed = 0; seed < for_backend(20u, 2u); ++seed) {
      const SharesCase given = ragged_case(3 * split.layer, 300 + seed);
      INFO(split.ranks() << " ranks, seed " << seed);
      require_same(given, split, [&](const HeadRanks& ranks, const SharesCase&) {
        return MassBudget{.ranks = ranks};
      });
      require_same(given, split, [&](const HeadRanks& ranks, const SharesCase& part) {
        return MassBudget{.heads_per_group = static_cast<std::int64_t>(part.heads.size() / 3),
                          .ranks = ranks};
      });
      require_same(given, split, [&](const HeadRanks& ranks, const SharesCase&) {
        return SpreadBudget{.ranks = ranks};
      });
      require_same(given, split, [&](const HeadRanks& ranks, const SharesCase& part) {
        return SpreadBudget{.spread = kvevict::Spread::variance,
                            .heads_per_group = static_cast<std::int64_t>(part.heads.size() / 3),
                            .ranks = ranks};
      });
    }
  }
}

TEST_CASE("budgets that do not fit fail in every process", "[allocators][ranks]") {
  SharesCase given = ragged_case(8, 7);
  given.shares.assign(8, 2);
  const Split split{4, {0, 2, 4}};
  SimulatedRanks ranks(2);
  ranks.run([&](std::size_t rank, const HeadRanks& hook) {
    const SharesCase part = part_of(given, 4, split.places[rank], split.places[rank + 1]);
    TestResources res({.threads = 1});
    return part.divide(res, GlobalBudget{.floor = 3, .ranks = split.of(rank, hook)});
  });
  REQUIRE(ranks.error() ==
          "kvevict: budget: protected rows and floors is 24, must be at most the budget's rows, "
          "16");
}

TEST_CASE("sizes are counted without asking the other processes", "[allocators][ranks]") {
  const SharesCase given = ragged_case(4, 7);
  HeadRanks ranks;
  ranks.sum = [](void*, std::int64_t*, std::int64_t) { FAIL("a size query added numbers up"); };
  ranks.heads = 2;
  ranks.layer_heads = 4;
  const TestResources like({.threads = 1});
  TestResources counting = TestResources::counting(like);
  given.divide(counting, GlobalBudget{.ranks = ranks});
  given.divide(counting, AdaptiveBudget{.heads_per_layer = 2, .ranks = ranks});
  const std::vector<double> keep(4, 0.5);
  given.divide(counting, TableBudget{.keep = keep, .ranks = ranks});
  given.divide(counting, MassBudget{.ranks = ranks});
  given.divide(counting, SpreadBudget{.ranks = ranks});
  REQUIRE(counting.workspace().peak_bytes() > 0);
}

TEST_CASE("ranks that cannot be are refused", "[allocators][ranks]") {
  const SharesCase given = ragged_case(6, 7);
  const auto problem = [&](HeadRanks ranks) {
    ranks.sum = [](void*, std::int64_t*, std::int64_t) {};
    TestResources res({.threads = 1});
    return refused([&] { given.divide(res, GlobalBudget{.ranks = ranks}); });
  };
  REQUIRE(problem({.heads = 0, .layer_heads = 2}) == "ranks.heads is 0, must be >= 1");
  REQUIRE(problem({.first_head = -1, .heads = 1, .layer_heads = 2}) ==
          "ranks.first_head is -1, must be >= 0");
  REQUIRE(problem({.first_head = 1, .heads = 3, .layer_heads = 3}) ==
          "ranks.layer_heads is 3, must be at least first_head + heads, 4");
  REQUIRE(problem({.heads = 4, .layer_heads = 8}) ==
          "heads is 6, must be a multiple of ranks.heads, 4");
  TestResources res({.threads = 1});
  HeadRanks ranks{.heads = 2, .layer_heads = 4};
  ranks.sum = [](void*, std::int64_t*, std::int64_t) {};
  REQUIRE(refused([&] {
            given.divide(res, AdaptiveBudget{.heads_per_layer = 3, .ranks = ranks});
          }) == "heads_per_layer is 3, must be a multiple of ranks.heads, 2");
}
