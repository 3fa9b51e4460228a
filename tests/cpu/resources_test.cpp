// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/resources.hpp"

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/ops/row_norms.hpp"

using kvevict::CpuResources;
using kvevict_test::refused;

namespace {

// An engine that runs tasks backwards and counts its calls.
struct Engine {
  int calls = 0;

  static void run(void* context, std::int64_t count, kvevict::cpu::Task task, void* data) {
    ++static_cast<Engine*>(context)->calls;
    for (std::int64_t i = count; i-- > 0;) task(data, i, static_cast<int>(i % 2));
  }
};

std::vector<float> norms(CpuResources& res) {
  std::vector<float> data(3 * 200 * 5);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 17) - 8.0f;
  std::vector<float> out(600);
  const auto rows = kvevict::RowsView<const float>::strided(data.data(), 3, 200, 5, 1000, 5);
  row_norms(res, rows, 1.0f, kvevict::ScoreView<>{out.data(), rows.layout()});
  return out;
}

}  // namespace

TEST_CASE("zero threads means one for each hardware thread", "[cpu][resources]") {
  REQUIRE(CpuResources().threads() >= 1);
  REQUIRE(CpuResources({.threads = 3}).threads() == 3);
  REQUIRE(refused([] { CpuResources res({.threads = -1}); }) == "threads is -1, must be >= 0");
}

TEST_CASE("an engine's own parallel-for does the work", "[cpu][resources]") {
  Engine engine;
  CpuResources own({.threads = 2, .parallel_for = {&Engine::run, &engine}});
  CpuResources pool({.threads = 1});
  REQUIRE(norms(own) == norms(pool));
  REQUIRE(engine.calls == 1);
}

TEST_CASE("the body of a parallel loop sees each index once", "[cpu][resources]") {
  CpuResources res({.threads = 3});
  std::vector<int> seen(1000, 0);
  res.parallel_for(1000, [&](std::int64_t i, int) { ++seen[static_cast<std::size_t>(i)]; });
  REQUIRE(seen == std::vector<int>(1000, 1));
  res.parallel_for(0, [&](std::int64_t, int) { seen.clear(); });
  REQUIRE(seen.size() == 1000);
}

TEST_CASE("scratch memory may be the caller's", "[cpu][resources]") {
  alignas(256) static std::byte buffer[4096];
  CpuResources res({.threads = 1, .workspace = buffer, .workspace_bytes = sizeof(buffer)});
  CpuResources owning({.threads = 1});
  REQUIRE(norms(res) == norms(owning));
  REQUIRE(res.workspace().peak_bytes() <= static_cast<std::int64_t>(sizeof(buffer)));

  CpuResources small({.threads = 1, .workspace = buffer, .workspace_bytes = 100});
  REQUIRE(refused([&] { norms(small); }, kvevict::ErrorKind::backend) ==
          "workspace.row_norms.tiles is 100 bytes, must be at least 2560");
}

TEST_CASE("counting resources compute nothing", "[cpu][resources]") {
  CpuResources like({.threads = 2});
  CpuResources counting = CpuResources::counting(like);
  REQUIRE(counting.threads() == 2);
  REQUIRE(counting.workspace().counting());
  REQUIRE(norms(counting) == std::vector<float>(600, 0.0f));
  norms(like);
  REQUIRE(counting.workspace().peak_bytes() == like.workspace().peak_bytes());
  REQUIRE(counting.workspace().peak_bytes() == 2 * 128 * 5 * 4);
}

TEST_CASE("a report begins with zeros and is the caller's to reset", "[cpu][resources]") {
  CpuResources res({.threads = 1});
  REQUIRE(res.report() == kvevict::Report{});
  res.report().nan_scores = 4;
  REQUIRE(res.report().nan_scores == 4);
}
