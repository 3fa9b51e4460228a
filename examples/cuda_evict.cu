// SPDX-License-Identifier: Apache-2.0
//
// Evicts the KV cache of a whole model on a GPU and compacts it in place: what an engine has to do,
// what it costs, what waits, and how it becomes one CUDA graph. The parts between the marks are the
// examples of the README. `cuda_evict --help` lists the options.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cuda_evict/cpu_check.hpp"
#include "cuda_evict/cuda_objects.cuh"
#include "cuda_evict/evidence.hpp"
#include "cuda_evict/head_check.cuh"
#include "cuda_evict/options.hpp"
#include "cuda_evict/synthetic_cache.cuh"
#include "kvevict/cuda.cuh"

namespace cuda_evict {
namespace {

constexpr auto device = kvevict::MemorySpace::device;

void print(const char* label, const std::string& text) {
  std::printf("%-11s%s\n", label, text.c_str());
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

std::string mebibytes(std::int64_t bytes) {
  return number(static_cast<double>(bytes) / (1 << 20)) + " MiB";
}

template <class Number>
Number median(std::vector<Number> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What an engine that lends its own scratch memory has to provide, known before any work.
void print_workspace(std::int64_t bytes) {
  print("workspace", mebibytes(bytes) + " of device memory for an eviction");
}

template <class T>
void print_kept(const kvevict::Selection& kept, const kvevict::Report& report,
                const kvevict::KvView<T, device>& cache) {
  print("kept", std::to_string(kept.count(0)) + " of " + std::to_string(cache.rows(0)) +
                    " rows in each head, " + mebibytes(kept.total() * cache.row_bytes()) + " of " +
                    mebibytes(cache.layout().total() * cache.row_bytes()));
  print("report", std::to_string(report.nan_scores) + " NaN scores, " +
                      std::to_string(report.zero_capacity_heads) + " matrices without weight, " +
                      std::to_string(report.failed_factorizations) + " not positive definite");
}

bool is_right(const Comparison& cpu, std::int64_t misplaced) {
  print("check", std::to_string(cpu.kept) + " rows: " + std::to_string(cpu.exchanged - cpu.wrong) +
                     " ties broken otherwise, " + std::to_string(cpu.wrong) +
                     " choices unlike the CPU's, " + std::to_string(misplaced) +
                     " rows in the wrong place");
  return cpu.wrong == 0 && misplaced == 0;
}

/// Times both calls on the device, and the host until it has enqueued them.
template <class T, class Evict, class Compact>
void time_calls(cudaStream_t stream, SyntheticCache<T>& memory, std::int64_t rounds, Evict&& evict,
                Compact&& compact) {
  Event start, middle, end;
  std::vector<float> evict_times, compact_times;
  std::vector<double> host_times;
  for (std::int64_t round = 0; round < rounds; ++round) {
    memory.restore();
    require_success(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    const auto host_start = std::chrono::steady_clock::now();
    start.record(stream);
    evict();
    middle.record(stream);
    compact();
    end.record(stream);
    const auto host_end = std::chrono::steady_clock::now();
    host_times.push_back(std::chrono::duration<double, std::milli>(host_end - host_start).count());
    evict_times.push_back(middle.since(start));
    compact_times.push_back(end.since(middle));
  }
  print("calls", "score and select " + number(median(evict_times)) + " ms, compact " +
                     number(median(compact_times)) + " ms; the host is free after " +
                     number(median(host_times)) + " ms");
}

/// Captures both calls once, after the same calls have allocated all they need, and replays them.
template <class T, class Evict, class Compact>
void time_graph(cudaStream_t stream, SyntheticCache<T>& memory, std::int64_t rounds, Evict&& evict,
                Compact&& compact) {
  // [cuda_graph]
  cudaGraph_t graph = nullptr;
  require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  evict();
  compact();
  require_success(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  // [/cuda_graph]
  const Replay replay(graph);
  Event start, end;
  std::vector<float> times;
  for (std::int64_t round = 0; round < rounds; ++round) {
    memory.restore();
    start.record(stream);
    replay.launch(stream);
    end.record(stream);
    times.push_back(end.since(start));
  }
  print("graph", "both " + number(median(times)) + " ms");
}

template <class T>
int run(const Options& options, const kvevict::AnyPolicy& policy) {
  const Stream stream;
  SyntheticCache<T> memory(stream, options);
  const HeadCheck<T> check(stream, options, memory);
  T* k = memory.keys();
  T* v = memory.values();
  const float* q = memory.queries();
  const std::int64_t heads = options.heads(), query_heads = options.query_heads();
  const std::int64_t tokens = options.rows, head_dim = options.dim, count = options.queries;
  const kvevict::Covariance covariance = wanted_covariance(policy);
  const kvevict::Rope rope{.theta = 5e5};
  const kvevict::Budget budget = kvevict::Budget::evict_ratio(options.evict_ratio);
  const kvevict::Protect protect{.sinks = options.sinks, .recent = options.recent};

  // [cuda]
  kvevict::CudaResources res(stream);  // keep it: scratch memory and handles are used again
  // Device memory of the engine, all layers at once: k, v [layer][kv_head][token][dim], and the
  // last queries q [layer][query_head][query][dim] before RoPE
  const auto cache = kvevict::KvView<T, device>::hnd(k, v, heads, tokens, head_dim);
  const auto queries = kvevict::QueriesView<device>::packed(q, query_heads, count, head_dim);
  const auto stats = kvevict::estimate_query_stats(
      res, queries, rope, {.next_position = tokens, .covariance = covariance});
  kvevict::Evidence<device> evidence{.query_stats = stats.view()};
  // [/cuda]
  const MoreEvidence<kvevict::CudaResources> more(res, policy, cache, queries, rope);
  more.add_to(cache, evidence);
  print_workspace(kvevict::workspace_bytes(res, policy, cache, evidence, budget, protect));

  // [cuda]
  kvevict::CudaSelection kept;  // the row numbers stay on the device
  kvevict::evict_into(res, kept, policy, cache, evidence, budget, protect);
  kvevict::compact(res, kept, cache);
  // [/cuda]

  // Nothing has waited for the device so far; both of these do.
  const kvevict::Report report = res.report();
  const kvevict::Selection rows = kept.download(stream);
  print_kept(rows, report, cache);
  const Comparison cpu = compare_with_cpu(check.before(), policy, rope, budget, protect, rows);
  const bool good = is_right(cpu, check.misplaced_rows(stream, memory, rows));

  const auto evict = [&] {
    kvevict::evict_into(res, kept, policy, cache, evidence, budget, protect);
  };
  const auto compact = [&] { kvevict::compact(res, kept, cache); };
  time_calls(stream, memory, options.rounds, evict, compact);
  time_graph(stream, memory, options.rounds, evict, compact);
  const bool same = kept.download(stream) == rows;
  if (!same) print("check", "the graph keeps other rows than the calls it was captured from");
  return is_right(cpu, check.misplaced_rows(stream, memory, rows)) && same && good ? 0 : 1;
}

int start(const std::vector<std::string>& arguments) {
  Options options;
  std::optional<kvevict::AnyPolicy> policy;
  try {
    options = parse_options(arguments);
    if (options.help) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    policy = kvevict::AnyPolicy::named(options.policy);
    for (const std::string& setting : options.settings) policy->set(setting);
  } catch (const kvevict::Error& error) {
    throw UsageError(error.what());
  }

  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device (%s)\n", cudaGetErrorName(status));
    return 77;
  }
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  print("device", properties.name);
  print("policy", std::string(policy->name()));
  print("cache", std::to_string(options.layers) + " layers x " + std::to_string(options.kv_heads) +
                     " KV heads x " + std::to_string(options.rows) + " rows x " +
                     std::to_string(options.dim) + ", " + kvevict::format_parameter(options.type));
  switch (options.type) {
    case StorageType::float32:
      return run<float>(options, *policy);
    case StorageType::half:
      return run<kvevict::half>(options, *policy);
    case StorageType::bfloat16:
      break;
  }
  return run<kvevict::bfloat16>(options, *policy);
}

}  // namespace
}  // namespace cuda_evict

int main(int argc, char** argv) {
  try {
    return cuda_evict::start({argv + 1, argv + argc});
  } catch (const cuda_evict::UsageError& error) {
    std::fprintf(stderr, "cuda_evict: %s\ncuda_evict --help lists the options.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_evict: %s\n", error.what());
    return 1;
  }
}
