// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/pyramid.hpp"

#include <cmath>
#include <vector>

#include "allocators/shares_case.hpp"
#include "catch.hpp"
#include "core/errors.hpp"
#include "support/golden.hpp"

using kvevict::HeadOrder;
using kvevict::PyramidBudget;
using namespace kvevict_test;

TEST_CASE("golden: the rows of PyramidKV's layers are reproduced", "[allocators][golden]") {
  const std::vector<double> table = golden_data().array("tables/pyramid_rows").values_double();
  constexpr std::size_t columns = 7;
  int pyramids = 0;
  for (std::size_t i = 0; i < table.size(); i += columns) {
    const double* row = table.data() + i;
    const auto rows = static_cast<std::int64_t>(row[0]);
    INFO("rows " << row[0] << ", ratio " << row[1] << ", window " << row[2] << ", beta " << row[3]
                 << ", layer " << row[5] << " of " << row[4]);
    const double wanted = kvevict::pyramid_rows(
        rows, row[0] * (1.0 - row[1]), static_cast<std::int64_t>(row[2]), row[3],
        static_cast<std::int64_t>(row[5]), static_cast<std::int64_t>(row[4]));
    // Of a pyramid of one layer kvpress keeps the longest; here it keeps its share.
    if (row[4] == 1.0) continue;
    REQUIRE(std::nearbyint(wanted) == row[6]);
    pyramids += std::abs(wanted - row[0] * (1.0 - row[1])) > 0.5 ? 1 : 0;
  }
  REQUIRE(table.size() / columns == 1335);
  REQUIRE(pyramids > 100);
}

TEST_CASE("a pyramid over layers, the same for the heads of a layer", "[allocators]") {
  // m = 128, beta 4: lo = 32, hi = 224.
  const SharesCase given = SharesCase::random(4 * 3, 256, 128, 1);
  const PyramidBudget budget{.heads_per_layer = 3, .window = 16, .beta = 4.0};
  REQUIRE(given.divide(budget) == Counts{224, 224, 224, 160, 160, 160, 96, 96, 96, 32, 32, 32});
}

TEST_CASE("counts are within one row of the pyramid and sum exactly", "[allocators]") {
  for (const std::int64_t layers : {2, 3, 5, 7, 30}) {
    for (const std::int64_t share : {65, 66, 100, 127, 333, 499}) {
      const SharesCase given = SharesCase::random(layers, 1000, share, 2);
      const PyramidBudget budget{.window = 8, .beta = 7.0};
      const Counts counts = given.divide(budget);
      for (std::int64_t l = 0; l < layers; ++l) {
        const double wanted =
            kvevict::pyramid_rows(1000, static_cast<double>(share), 8, 7.0, l, layers);
        REQUIRE(std::abs(static_cast<double>(counts[static_cast<std::size_t>(l)]) - wanted) < 1.0);
      }
      for (std::size_t l = 1; l < counts.size(); ++l) REQUIRE(counts[l] <= counts[l - 1]);
    }
  }
}

TEST_CASE("sequences may come before or after the layers", "[allocators]") {
  // Two sequences of two heads each in three layers; the second one keeps more.
  const PyramidBudget inner{.heads_per_layer = 2, .sequences = 2, .window = 4, .beta = 4.0};
  SharesCase given = SharesCase::random(12, 100, 0, 3);
  given.shares = {20, 20, 40, 40, 20, 20, 40, 40, 20, 20, 40, 40};
  REQUIRE(given.divide(inner) == Counts{35, 35, 70, 70, 20, 20, 40, 40, 5, 5, 10, 10});
  PyramidBudget outer = inner;
  outer.order = HeadOrder::sequences_outermost;
  given.shares = {20, 20, 20, 20, 20, 20, 40, 40, 40, 40, 40, 40};
  REQUIRE(given.divide(outer) == Counts{35, 35, 20, 20, 5, 5, 70, 70, 40, 40, 10, 10});
}

TEST_CASE("where no pyramid fits, heads keep their shares", "[allocators]") {
  SharesCase given = SharesCase::random(3, 100, 50, 4);
  REQUIRE(given.divide(PyramidBudget{}) == Counts{50, 50, 50});  // the window is 64
  given.shares = {50, 20, 7};
  REQUIRE(given.divide(PyramidBudget{}) == given.shares);
  REQUIRE(SharesCase::random(1, 1000, 500, 4).divide(PyramidBudget{}) == Counts{500});
  given.shares = {0, 0, 0};
  REQUIRE(given.divide(PyramidBudget{.window = 0}) == given.shares);
}

TEST_CASE("protected rows, floors, caps and short layers bend the pyramid", "[allocators]") {
  SharesCase given = SharesCase::random(4, 256, 128, 1);
  PyramidBudget budget{.window = 16, .beta = 4.0};
  given.protect = {.recent = 60};
  REQUIRE(given.divide(budget)[3] == 60);
  given.protect = {};
  budget.floor = 100;
  REQUIRE(given.divide(budget)[2] == 100);
  budget.floor = 1;
  budget.cap = 180;
  REQUIRE(given.divide(budget)[0] == 180);
  given.heads[0].resize(150);
  REQUIRE(given.divide(budget)[0] == 150);
}

TEST_CASE("pyramids that cannot be are refused", "[allocators]") {
  SharesCase given = SharesCase::random(6, 100, 10, 4);
  REQUIRE(refused([&] { given.divide(PyramidBudget{.heads_per_layer = 4}); }) ==
          "heads is 6, must be a multiple of heads_per_layer * sequences, 4");
  REQUIRE(refused([&] { given.divide(PyramidBudget{.heads_per_layer = 0}); }) ==
          "heads_per_layer is 0, must be >= 1");
  REQUIRE(refused([&] { given.divide(PyramidBudget{.sequences = 0}); }) ==
          "sequences is 0, must be >= 1");
  REQUIRE(refused([&] { given.divide(PyramidBudget{.window = -1}); }) ==
          "window is -1, must be >= 0");
  REQUIRE(refused([&] { given.divide(PyramidBudget{.beta = 0.5}); }) ==
          "beta is 0.5, must be finite and >= 1");
  REQUIRE(refused([&] { given.divide(PyramidBudget{.floor = 2, .cap = 1}); }) ==
          "cap is 1, must be >= floor, 2");
  REQUIRE(refused_budget([&] { given.divide(PyramidBudget{.heads_per_layer = 2, .floor = 11}); }) ==
          "protected rows and floors of group 0 is 33, must be at most the budget's rows, 30");
}
