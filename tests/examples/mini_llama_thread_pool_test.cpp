// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "error.hpp"
#include "mini_llama_errors.hpp"
#include "thread_pool.hpp"

namespace {

using namespace mini_llama;
using namespace mini_llama_test;

TEST_CASE("mini_llama thread pool: every task runs once, each thread one at a time",
          "[mini_llama]") {
  const int threads = GENERATE(1, 2, 5);
  ThreadPool pool(threads);
  REQUIRE(pool.threads() == threads);
  for (const std::int64_t tasks : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
    std::vector<std::atomic<int>> busy(static_cast<std::size_t>(threads));
    std::atomic<int> clashes = 0;
    pool.parallel_for(tasks, [&](std::int64_t task, int thread) {
      auto& mine = busy.at(static_cast<std::size_t>(thread));
      if (mine.exchange(1) != 0) ++clashes;
      ++runs.at(static_cast<std::size_t>(task));
      mine = 0;
    });
    CHECK(clashes == 0);
    for (const auto& count : runs) REQUIRE(count == 1);
  }
}

TEST_CASE("mini_llama thread pool: an exception comes out, the pool goes on", "[mini_llama]") {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    const auto failing = [&] {
      pool.parallel_for(50, [](std::int64_t task, int) {
        if (task % 10 == 7) throw std::runtime_error("task failed");
      });
    };
    REQUIRE(throws_with<std::runtime_error>(failing, {"task failed"}));
    std::atomic<std::int64_t> sum = 0;
    pool.parallel_for(100, [&](std::int64_t task, int) { sum += task; });
    REQUIRE(sum == 4950);
  }
}

TEST_CASE("mini_llama thread pool: after an exception no further task begins", "[mini_llama]") {
  ThreadPool pool(1);
  int runs = 0;
  const auto failing = [&] {
    pool.parallel_for(100, [&](std::int64_t, int) {
      if (++runs == 3) throw std::runtime_error("task failed");
    });
  };
  CHECK(throws_with<std::runtime_error>(failing, {"task failed"}));
  CHECK(runs == 3);
}

TEST_CASE("mini_llama thread pool: number of threads", "[mini_llama]") {
  const int threads = GENERATE(-1, 0, 1025);
  CHECK(throws_with<ArgumentError>([&] { ThreadPool pool(threads); },
                                   {"threads is " + std::to_string(threads), "1 to 1024"}));
}

}  // namespace
