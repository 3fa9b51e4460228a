// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "cuda_shape.hpp"
#include "cuda_work.cuh"
#include "kvevict/version.hpp"

namespace bench {

/// Runs `body` in the benchmark's loop, several calls for each measurement, timed on the device.
/// Counters: `percent_of_bound`, the time of the unavoidable work in percent of the time that was
/// needed; `bytes_per_second` and `flops_per_second` of that work.
template <class Body>
void measure(benchmark::State& state, kvevict::CudaResources& res, const Work& work,
             const Traffic& traffic, bool quick, Body&& body) {
  CudaRates rates(res, quick);
  const double bound = bound_of(rates, work, traffic);
  CudaTimer timer(res);
  const int calls = timer.warm_up(body);
  double sum = 0.0;
  for (auto _ : state) {
    const double seconds = timer.seconds(calls, body);
    state.SetIterationTime(seconds);
    sum += seconds;
  }
  const double seconds = sum / static_cast<double>(state.iterations());
  state.counters["percent_of_bound"] = 100.0 * bound / seconds;
  state.counters["bytes_per_second"] = bytes_of(work) / seconds;
  state.counters["flops_per_second"] = flops_of(work) / seconds;
}

/// The benchmarks of a program: what they run on, and whether any failed.
class CudaSession {
 public:
  explicit CudaSession(kvevict::CudaResources& res) : res_(res) {}

  kvevict::CudaResources& res() { return res_; }
  int failures() const { return failures_; }

  /// `function(state)`; what it throws, such as a cache that does not fit the device, becomes the
  /// result of this benchmark alone.
  template <class Function>
  void add(const std::string& name, Function&& function) {
    const auto run = [this, function = std::forward<Function>(function)](benchmark::State& state) {
      try {
        function(state);
      } catch (const std::exception& error) {
        ++failures_;
        state.SkipWithError(error.what());
      }
    };
    benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Unit(benchmark::kMillisecond);
  }

 private:
  kvevict::CudaResources& res_;
  int failures_ = 0;
};

/// Runs those benchmarks that `register_all(session)` adds and --benchmark_filter fits; without a
/// filter the smoke shape alone. Returns the exit code: 77 without a device, 1 when one failed.
template <class Register>
int run_cuda_benchmarks(int argc, char** argv, Register&& register_all) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device (%s)\n", cudaGetErrorName(status));
    return 77;
  }
  cudaDeviceProp properties{};
  kvevict::cuda::require_success(cudaGetDeviceProperties(&properties, 0),
                                 "cudaGetDeviceProperties");
  benchmark::AddCustomContext("kvevict", kvevict::version_string);
  benchmark::AddCustomContext("seed", std::to_string(seed));
  benchmark::AddCustomContext("device", properties.name);
  benchmark::AddCustomContext("multiprocessors", std::to_string(properties.multiProcessorCount));
  std::string filter = benchmark::GetBenchmarkFilter();
  if (filter.empty()) {
    filter = "/N:" + std::to_string(cuda_smoke_shape.rows) + "/";
    benchmark::AddCustomContext(
        "note", "smoke size only: it shows that everything runs, its figures mean nothing");
  }
  const CudaStream stream;
  kvevict::CudaResources res(stream.get());
  CudaSession session(res);
  register_all(session);
  benchmark::RunSpecifiedBenchmarks(filter);
  benchmark::ClearRegisteredBenchmarks();  // they hold device memory
  benchmark::Shutdown();
  return session.failures() == 0 ? 0 : 1;
}

}  // namespace bench
