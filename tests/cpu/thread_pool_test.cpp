// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/thread_pool.hpp"

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "catch.hpp"

using kvevict::cpu::ThreadPool;

namespace {

// Counts how often each index ran, and notices two tasks with one worker number at a time.
struct Record {
  explicit Record(std::int64_t count, int worker_count)
      : runs(static_cast<std::size_t>(count)), busy(static_cast<std::size_t>(worker_count)) {}

  std::vector<std::atomic<int>> runs;
  std::vector<std::atomic<bool>> busy;
  std::atomic<int> clashes = 0;

  static void task(void* data, std::int64_t index, int worker) {
    auto& record = *static_cast<Record*>(data);
    auto& mine = record.busy.at(static_cast<std::size_t>(worker));
    if (mine.exchange(true)) ++record.clashes;
    ++record.runs.at(static_cast<std::size_t>(index));
    mine.store(false);
  }
};

}  // namespace

TEST_CASE("every index runs once, and a worker does one thing at a time", "[cpu][thread_pool]") {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers);
    for (const std::int64_t count : {0, 1, 2, 3, 100, 5000}) {
      Record record(count, workers);
      pool.run(count, &Record::task, &record);
      int wrong = 0;
      for (const auto& runs : record.runs) wrong += runs == 1 ? 0 : 1;
      INFO(workers << " workers, " << count << " tasks");
      REQUIRE(wrong == 0);
      REQUIRE(record.clashes == 0);
    }
  }
}

TEST_CASE("thousands of short runs in a row", "[cpu][thread_pool]") {
  ThreadPool pool(3);
  std::int64_t sum = 0;
  for (int round = 0; round < 5000; ++round) {
    Record record(4, 3);
    pool.run(4, &Record::task, &record);
    for (const auto& runs : record.runs) sum += runs;
  }
  REQUIRE(sum == 20000);
}

TEST_CASE("what a task throws reaches the caller, and the pool goes on", "[cpu][thread_pool]") {
  for (const int workers : {1, 3}) {
    ThreadPool pool(workers);
    const auto throwing = [](void*, std::int64_t index, int) {
      if (index == 5) throw std::out_of_range("five");
    };
    for (int round = 0; round < 50; ++round) {
      REQUIRE_THROWS_AS(pool.run(10, throwing, nullptr), std::out_of_range);
      Record record(10, workers);
      pool.run(10, &Record::task, &record);
      for (const auto& runs : record.runs) REQUIRE(runs == 1);
    }
  }
}

TEST_CASE("when all tasks throw one exception arrives", "[cpu][thread_pool]") {
  ThreadPool pool(4);
  const auto throwing = [](void*, std::int64_t index, int) {
    throw std::runtime_error("task " + std::to_string(index));
  };
  REQUIRE_THROWS_AS(pool.run(100, throwing, nullptr), std::runtime_error);
}

TEST_CASE("a pool that never ran ends at once", "[cpu][thread_pool]") {
  ThreadPool pool(16);
  pool.run(
      0, [](void*, std::int64_t, int) {}, nullptr);
}
