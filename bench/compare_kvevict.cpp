// SPDX-License-Identifier: Apache-2.0
//
// The library's side of compare_kvpress.py: evicts half of a cache that lies in files, once for
// each line of input, and prints how long that took.
//
//     compare_kvevict FOLDER KV_HEADS ROWS DIM GROUP QUERIES THREADS
//
// FOLDER holds float32 arrays without a header: keys and values [kv_head][row][dim], queries
// [query_head][query][dim] before RoPE, and window, the last of them, up to 64, after RoPE. A line
// of input is a policy's name and assignments of its parameters: "CapKV preset=reference". The
// answer is a line of five numbers, milliseconds: statistics of the queries (which stand, as the
// reference has it, before a position that is their number), score, selection, compaction into
// another cache, and processor time of them all. The rows that were kept lie in FOLDER/kept then,
// int32 [kv_head][kept].

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "clock.hpp"
#include "inputs.hpp"

namespace {

using namespace bench;

Buffer<float> read_numbers(const std::string& path, std::int64_t count) {
  Buffer<float> numbers(count);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(numbers.data()), numbers.bytes());
  if (!file || file.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(path + " does not hold " + std::to_string(count) + " numbers");
  }
  return numbers;
}

/// Milliseconds between calls of `lap`, on the wall.
class Stopwatch {
 public:
  double lap() {
    const double before = last_;
    last_ = wall_seconds();
    return 1e3 * (last_ - before);
  }

 private:
  static double wall_seconds() { return now(2); }

  double last_ = wall_seconds();
};

struct Arguments {
  std::string folder;
  Shape shape;
  std::int64_t queries;
  int threads;
};

class Comparison {
 public:
  explicit Comparison(const Arguments& arguments)
      : folder_(arguments.folder + "/"),
        shape_(arguments.shape),
        res_({.threads = arguments.threads}),
        keys_(read_numbers(folder_ + "keys", shape_.elements())),
        values_(read_numbers(folder_ + "values", shape_.elements())),
        queries_(read_numbers(folder_ + "queries",
                              shape_.query_heads() * arguments.queries * shape_.dim)),
        window_count_(std::min(arguments.queries, window_queries)),
        window_(
            read_numbers(folder_ + "window", shape_.query_heads() * window_count_ * shape_.dim)),
        scores_(shape_.total_rows()),
        kept_keys_(shape_.elements()),
        kept_values_(shape_.elements()) {
    queries_view_ = kvevict::QueriesView<>::packed(queries_.data(), shape_.query_heads(),
                                                   arguments.queries, shape_.dim);
  }

  /// Evicts by the policy that `line` names and returns what to answer.
  std::string run(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    kvevict::AnyPolicy policy = kvevict::AnyPolicy::named(word);
    while (words >> word) policy.set(word);
    const kvevict::EvidenceSet needs = policy.needs();
    const kvevict::Protect protect{
        .recent = policy.name() == kvevict::SnapKV{}.name() ? window_count_ : 0};
    const auto cache = kvevict::KvView<const float>::hnd(keys_.data(), values_.data(), shape_.heads,
                                                         shape_.rows, shape_.dim);
    const kvevict::ScoreView<> scores{scores_.data(), cache.layout()};
    kvevict::Evidence<> evidence{
        .query_window = {{window(), kvevict::QueryPositions<>::consecutive(
                                        static_cast<int>(shape_.rows - window_count_))}}};

    const double start = processor_seconds();
    Stopwatch watch;
    std::optional<kvevict::QueryStats> stats;
    if (needs.contains(kvevict::EvidenceKind::query_stats)) {
      stats = kvevict::estimate_query_stats(
          res_, queries_view_, kvevict::Rope{},
          {.next_position = queries_view_.count(), .covariance = covariance_for(needs)});
      evidence.query_stats = stats->view();
    }
    const double stats_ms = watch.lap();
    kvevict::score_rows(res_, policy, cache, evidence, scores);
    const double score_ms = watch.lap();
    kvevict::select_rows(res_, kept_, scores, cache, policy.comparable_across_heads(),
                         kvevict::Budget::evict_ratio(0.5), protect);
    const double select_ms = watch.lap();
    kvevict::compact_into<kvevict::CpuResources, float>(
        res_, kept_, cache,
        kvevict::KvView<float>::hnd(kept_keys_.data(), kept_values_.data(), shape_.heads,
                                    kept_.count(0), shape_.dim));
    const double compact_ms = watch.lap();
    const double processor_ms = 1e3 * (processor_seconds() - start);

    write_kept();
    char answer[160];
    std::snprintf(answer, sizeof answer, "%.4f %.4f %.4f %.4f %.4f", stats_ms, score_ms, select_ms,
                  compact_ms, processor_ms);
    return answer;
  }

 private:
  static double processor_seconds() { return now(1); }

  static kvevict::Covariance covariance_for(kvevict::EvidenceSet needs) {
    if (needs.contains(kvevict::EvidenceKind::query_covariance_full)) {
      return kvevict::Covariance::full;
    }
    return needs.contains(kvevict::EvidenceKind::query_covariance_diagonal)
               ? kvevict::Covariance::diagonal
               : kvevict::Covariance::none;
  }

  kvevict::QueriesView<> window() const {
    return kvevict::QueriesView<>::packed(window_.data(), shape_.query_heads(), window_count_,
                                          shape_.dim);
  }

  void write_kept() const {
    const std::span<const std::int32_t> indices = kept_.indices();
    std::ofstream file(folder_ + "kept", std::ios::binary);
    file.write(reinterpret_cast<const char*>(indices.data()),
               static_cast<std::streamsize>(indices.size_bytes()));
    if (!file.flush()) throw std::runtime_error("cannot write " + folder_ + "kept");
  }

  std::string folder_;
  Shape shape_;
  kvevict::CpuResources res_;
  Buffer<float> keys_;
  Buffer<float> values_;
  Buffer<float> queries_;
  std::int64_t window_count_;
  Buffer<float> window_;
  Buffer<float> scores_;
  Buffer<float> kept_keys_;
  Buffer<float> kept_values_;
  kvevict::QueriesView<> queries_view_;
  kvevict::Selection kept_;
};

Arguments parse(const std::vector<std::string>& words) {
  if (words.size() != 7) {
    throw std::runtime_error("needs FOLDER KV_HEADS ROWS DIM GROUP QUERIES THREADS");
  }
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i < words.size(); ++i) numbers.push_back(std::stoll(words[i]));
  return {words[0],
          {numbers[0], numbers[1], numbers[2], numbers[3]},
          numbers[4],
          static_cast<int>(numbers[5])};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Comparison comparison(parse({argv + 1, argv + argc}));
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << comparison.run(line) << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare_kvevict: %s\n", error.what());
    return 1;
  }
}
