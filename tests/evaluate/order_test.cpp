// SPDX-License-Identifier: Apache-2.0
#include "kvevict_evaluate/order.hpp"

#include <algorithm>

#include "catch.hpp"

namespace order_test {

namespace {

using namespace evaluate;

Cell cell_of(const std::string& policy, double error, const std::string& refit = "none",
             const std::string& budget = "uniform") {
  Cell cell;
  cell.context = "a";
  cell.policy = policy;
  cell.queries = "agnostic";
  cell.budget = budget;
  cell.refit = refit;
  cell.evict_ratio = policy == "full" ? 0.0 : 0.5;
  cell.error = error;
  return cell;
}

std::vector<Cell> good() {
  return {cell_of("full", 0.0),
          cell_of("Random", 0.5),
          cell_of("Oracle", 0.1),
          cell_of("SnapKV", 0.3),
          cell_of("KNorm", 0.6),
          cell_of("ProbeAttention", 0.2),
          cell_of("ProbeAttention", 0.05, "values")};
}

std::vector<std::string> found_in(const std::vector<Cell>& cells) {
  return contradictions(summarise(cells));
}

Cell& cell(std::vector<Cell>& cells, const std::string& policy, const std::string& refit = "none") {
  return *std::find_if(cells.begin(), cells.end(),
                       [&](const Cell& c) { return c.policy == policy && c.refit == refit; });
}

}  // namespace

TEST_CASE("the order that is certain contradicts nothing", "[evaluate]") {
  CHECK(found_in(good()).empty());
  // A refit, and budgets of other sizes, may beat the Oracle.
  auto cells = good();
  cells.push_back(cell_of("Jacap", 0.01, "none", "global"));
  CHECK(found_in(cells).empty());
  // As good as the Oracle, to the margin.
  cell(cells, "SnapKV").error = 0.099;
  CHECK(found_in(cells).empty());
}

TEST_CASE("each contradiction is named", "[evaluate]") {
  const std::string group = "texts, agnostic, 0+0 kept, 0.5 evicted: ";
  auto cells = good();
  cell(cells, "KNorm").error = 0.09;
  CHECK(found_in(cells) ==
        std::vector<std::string>{group + "KNorm has an error of 0.0900, below the Oracle's"});
  cells = good();
  cell(cells, "SnapKV").error = 0.44;
  CHECK(found_in(cells) ==
        std::vector<std::string>{group + "SnapKV recovers only 0.15 of Random's error"});
  cells = good();
  cell(cells, "ProbeAttention", "values").error = 0.19;
  CHECK(found_in(cells) ==
        std::vector<std::string>{
            group + "ProbeAttention, uniform, refit values: an error of 0.1900 is left"});
}

TEST_CASE("what is missing contradicts too", "[evaluate]") {
  CHECK(found_in({}) == std::vector<std::string>{"nothing was measured"});
  CHECK(found_in({cell_of("full", 0.0)}) == std::vector<std::string>{"nothing was measured"});
  for (const char* const policy : {"Random", "Oracle", "SnapKV"}) {
    INFO(policy);
    auto cells = good();
    std::erase_if(cells, [&](const Cell& c) { return c.policy == policy; });
    CHECK(!found_in(cells).empty());
  }
  for (const char* const refit : {"none", "values"}) {
    INFO(refit);
    auto cells = good();
    std::erase_if(cells,
                  [&](const Cell& c) { return c.policy == "ProbeAttention" && c.refit == refit; });
    CHECK(!found_in(cells).empty());
  }
}

}  // namespace order_test
