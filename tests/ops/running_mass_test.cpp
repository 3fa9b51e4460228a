// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/running_mass.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "kvevict/cpu/running_mass.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::MassStep;
using kvevict::Positions;
using kvevict::QueryPositions;
using kvevict::RowLayout;
using kvevict::RunningMass;
using kvevict::ScoreView;
using kvevict::Selection;

namespace {

// Rows of several heads and what they have received; nothing in it has a meaningful value yet.
struct Rows {
  explicit Rows(const std::vector<std::int64_t>& counts) {
    for (const std::int64_t count : counts) offsets.push_back(offsets.back() + count);
    mass.assign(static_cast<std::size_t>(offsets.back()), -7.0);
    seen.assign(mass.size(), -7);
    value.assign(mass.size(), -7.0f);
  }
  RowLayout<> layout() const {
    return RowLayout<>::ragged(offsets.data(), static_cast<std::int64_t>(offsets.size()) - 1);
  }
  RunningMass<> view() { return {mass.data(), seen.data(), value.data(), layout()}; }

  std::vector<std::int64_t> offsets = {0};
  std::vector<double> mass;
  std::vector<std::int64_t> seen;
  std::vector<float> value;
};

}  // namespace

TEST_CASE("mass grows by what rows receive, in heads that grow unequally", "[ops][mass]") {
  for (const int threads : {1, 3}) {
    TestResources res({.threads = threads});
    // Head 0 gets two new rows, head 1 none, head 2 its first.
    Rows before({2, 1, 0});
    before.mass = {1.0, 2.0, 3.0};
    before.seen = {10, 20, 30};
    Rows after({4, 1, 1});
    std::vector<float> received = {0.5f, 0.25f, 0.125f, 0.0625f, 4.0f, 8.0f};
    const std::vector<std::int32_t> row_positions = {0, 5, 6, 9, 7, 9};
    const std::vector<std::int32_t> query_positions = {5, 6, 8};
    MassStep<> step{ScoreView<>{received.data(), after.layout()},
                    Positions<>::packed(row_positions.data()),
                    QueryPositions<>::shared(query_positions.data()),
                    3,
                    0.5,
                    false};
    accumulate_mass(res, before.view(), step, after.view());
    REQUIRE(after.mass == std::vector<double>{1.0, 1.25, 0.125, 0.0625, 5.5, 8.0});
    REQUIRE(after.seen == std::vector<std::int64_t>{13, 23, 2, 0, 31, 0});
    REQUIRE(after.value == std::vector<float>{1.0f, 1.25f, 0.125f, 0.0625f, 5.5f, 8.0f});

    // Means by the queries that could see a row; zero where none could.
    step.mean = true;
    step.kept_share = 1.0;
    accumulate_mass(res, before.view(), step, after.view());
    REQUIRE(after.mass == std::vector<double>{1.5, 2.25, 0.125, 0.0625, 7.0, 8.0});
    for (std::size_t i = 0; i < 6; ++i) {
      const auto sights = static_cast<double>(after.seen[i]);
      REQUIRE(after.value[i] == (sights > 0 ? static_cast<float>(after.mass[i] / sights) : 0.0f));
    }
  }
}

TEST_CASE("of masses the larger one stays, and a NaN", "[ops][mass]") {
  TestResources res({.threads = 1});
  Rows before({4});
  const double nan = std::nan("");
  before.mass = {1.0, 2.0, nan, 4.0};
  before.seen = {1, 1, 1, 1};
  Rows after({5});
  std::vector<float> received = {1.5f, 0.5f, 9.0f, static_cast<float>(nan), 0.25f};
  MassStep<> step{ScoreView<>{received.data(), after.layout()}, Positions<>(),
                  QueryPositions<>::consecutive(9), 1};
  step.largest = true;
  accumulate_mass(res, before.view(), step, after.view());
  REQUIRE(after.value[0] == 1.5f);
  REQUIRE(after.value[1] == 2.0f);
  REQUIRE(std::isnan(after.value[2]));
  REQUIRE(std::isnan(after.value[3]));
  REQUIRE(after.value[4] == 0.25f);
}

TEST_CASE("each KV head's queries may stand at other positions", "[ops][mass]") {
  TestResources res({.threads = 1});
  Rows before({});
  Rows after({2, 2});
  std::vector<float> received(4, 1.0f);
  const std::vector<std::int32_t> early = {0, 0};
  const std::vector<std::int32_t> late = {7, 8};
  const std::int32_t* const table[] = {early.data(), late.data()};
  accumulate_mass(res, before.view(),
                  MassStep<>{ScoreView<>{received.data(), after.layout()}, Positions<>(),
                             QueryPositions<>::per_head(table), 2},
                  after.view());
  REQUIRE(after.seen == std::vector<std::int64_t>{2, 0, 2, 2});
}

TEST_CASE("mass is gathered with the rows that are kept", "[ops][mass]") {
  for (const int threads : {1, 3}) {
    TestResources res({.threads = threads});
    Rows from({4, 3});
    from.mass = {0, 1, 2, 3, 4, 5, 6};
    from.seen = {10, 11, 12, 13, 14, 15, 16};
    from.value = {20, 21, 22, 23, 24, 25, 26};
    const Selection kept = selection_of({{1, 3}, {0, 1, 2}});
    Rows to({2, 3});
    gather_mass(res, kept.view(), from.view(), to.view());
    REQUIRE(to.mass == std::vector<double>{1, 3, 4, 5, 6});
    REQUIRE(to.seen == std::vector<std::int64_t>{11, 13, 14, 15, 16});
    REQUIRE(to.value == std::vector<float>{21, 23, 24, 25, 26});
  }
}

TEST_CASE("mass of other rows is refused", "[ops][mass]") {
  TestResources res({.threads = 1});
  Rows before({2});
  Rows after({3});
  std::vector<float> received(4, 1.0f);
  const MassStep<> step{ScoreView<>{received.data(), RowLayout<>::uniform(1, 4)}, Positions<>(),
                        QueryPositions<>::consecutive(0), 1};
  REQUIRE(refused([&] { accumulate_mass(res, before.view(), step, after.view()); }) ==
          "step.rows is different, must be those of the mass it is added to");
  const Selection kept = selection_of({{0, 1}});
  REQUIRE(refused([&] { gather_mass(res, kept.view(), before.view(), after.view()); }) ==
          "kept.rows is different, must be those of the target");
}
