// SPDX-License-Identifier: Apache-2.0
// How attention statistics divide queries into blocks, and blocks into passes over the keys:
// results must not tell. Sizes are those at which the division changes, too large for emulated
// hardware.
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "kvevict/cpu/attention_statistic.hpp"

namespace cpu = kvevict::cpu;
using kvevict::AttentionStatistic;

TEST_CASE("two blocks share a pass while their logits stay within 16 MiB", "[cpu][attention]") {
  REQUIRE(cpu::blocks_of_a_pass(0, 64) == 2);
  REQUIRE(cpu::blocks_of_a_pass(32768, 64) == 2);
  REQUIRE(cpu::blocks_of_a_pass(32769, 64) == 1);
  // Blocks of long heads have fewer queries, down to one register of them.
  for (const std::int64_t rows : {1, 1000, 32768, 40000, 131072, 600000}) {
    const cpu::LaneBlocks blocks = cpu::lane_blocks(rows, 4, 64);
    INFO(rows << " rows, " << blocks.padded() << " lanes");
    REQUIRE((rows * blocks.padded() <= cpu::block_logits || blocks.padded() == cpu::lane_count));
  }
}

TEST_CASE("a head so long that its blocks go one by one", "[cpu][attention]") {
  constexpr std::int64_t n = 600001;
  constexpr std::int64_t count = 2 * cpu::lane_count + 1;
  REQUIRE(cpu::blocks_of_a_pass(n, cpu::lane_blocks(n, 1, count).padded()) == 1);
  std::vector<float> keys;
  for (std::int64_t j = 0; j < n; ++j) keys.push_back(std::sin(0.01f * static_cast<float>(j)));
  std::vector<float> queries;
  for (std::int64_t i = 0; i < count; ++i) queries.push_back(0.25f * static_cast<float>(i) - 2.0f);
  const auto rows = kvevict::RowsView<const float>::strided(keys.data(), 1, n, 1, n, 1);
  std::vector<double> want(static_cast<std::size_t>(n));
  for (const float query : queries) {
    double sum = 0;
    for (const float key : keys)
      sum += std::exp(static_cast<double>(query) * static_cast<double>(key));
    for (std::size_t j = 0; j < want.size(); ++j) {
      want[j] += std::exp(static_cast<double>(query) * static_cast<double>(keys[j])) / sum / count;
    }
  }
  kvevict::CpuResources res({.threads = 1});
  std::vector<float> got(want.size());
  kvevict::attention_statistic(
      res, rows, kvevict::Positions<>::consecutive(),
      {kvevict::QueriesView<>::packed(queries.data(), 1, count, 1), {}, kvevict::ProbeMask::none},
      1.0f, AttentionStatistic::mean, {got.data(), rows.layout()});
  int wrong = 0;
  // Logits of up to 6 rounded twice, 1e-6; powers and factors within a few units, as much again.
  for (std::size_t j = 0; j < want.size(); ++j) {
    wrong += std::abs(static_cast<double>(got[j]) - want[j]) <= 2e-6 * want[j] ? 0 : 1;
  }
  REQUIRE(wrong == 0);
}
