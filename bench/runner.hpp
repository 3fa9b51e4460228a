// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "clock.hpp"
#include "kvevict/version.hpp"
#include "shape.hpp"

namespace bench {

/// Numbers of threads to measure with: one, and all.
inline std::vector<int> thread_counts() {
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  return all > 1 ? std::vector<int>{1, all} : std::vector<int>{1};
}

/// Runs `body` in the benchmark's loop after one call that warms up. Returns the seconds of one
/// call.
template <class Body>
double measure(benchmark::State& state, int threads, Body&& body) {
  body();
  const double start = now(threads);
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
  return (now(threads) - start) / static_cast<double>(state.iterations());
}

/// The same with counters: `bound_ratio`, its time over that of the unavoidable work, and
/// `bytes_per_second` for `bytes` of traffic in each call.
template <class Body>
double measure(benchmark::State& state, int threads, double unavoidable_seconds, std::int64_t bytes,
               Body&& body) {
  const double seconds = measure(state, threads, std::forward<Body>(body));
  state.counters["bound_ratio"] = seconds / unavoidable_seconds;
  state.counters["bytes_per_second"] = static_cast<double>(bytes) / seconds;
  return seconds;
}

template <class Function>
void add(const std::string& name, Function&& function) {
  benchmark::RegisterBenchmark(name.c_str(), std::forward<Function>(function))
      ->Unit(benchmark::kMillisecond);
}

/// What the code was compiled for, as far as it concerns speed.
inline const char* instruction_set() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
  return "AVX2+FMA";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "baseline";
#endif
}

/// Runs what was added and fits --benchmark_filter; without a filter the smoke shape alone.
inline int run_benchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("kvevict", kvevict::version_string);
  benchmark::AddCustomContext("seed", std::to_string(seed));
  benchmark::AddCustomContext("instruction_set", instruction_set());
  benchmark::AddCustomContext("compiler", __VERSION__);
  const std::string filter = benchmark::GetBenchmarkFilter();
  const std::string smoke = "/N:" + std::to_string(smoke_shape.rows) + "/";
  benchmark::RunSpecifiedBenchmarks(filter.empty() ? smoke : filter);
  benchmark::Shutdown();
  return 0;
}

}  // namespace bench
