// SPDX-License-Identifier: Apache-2.0
//
// What it takes to score a cache once more when some rows have come since the last eviction and as
// many have left, by what is known from before, beside the same with nothing known. See README.md.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "inputs.hpp"
#include "runner.hpp"

namespace {

using namespace bench;

/// Rows that come between two evictions, and leave by one.
constexpr std::int64_t step_rows = 64;

constexpr std::string_view policies[] = {"KNorm", "KeyDiff", "H2O", "ExpectedAttention",
                                         "Jacap", "CapKV"};

/// All rows of every head but every (rows / step_rows)-th.
kvevict::Selection all_but_a_step(const Shape& shape) {
  kvevict::Selection kept;
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(shape.heads),
                                         shape.rows - step_rows);
  std::int32_t* out = kept.reshape(counts);
  const std::int64_t gap = shape.rows / step_rows;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      if (row % gap != gap - 1) *out++ = static_cast<std::int32_t>(row);
    }
  }
  return kept;
}

/// Seconds of one call, the mean of some after one that warms up.
template <class Body>
double seconds_of(int threads, Body&& body) {
  constexpr int calls = 3;
  body();
  const double start = now(threads);
  for (int i = 0; i < calls; ++i) body();
  return (now(threads) - start) / calls;
}

template <class T>
void decode(benchmark::State& state, std::string_view name, const Inputs<T>& inputs, int threads) {
  const kvevict::AnyPolicy policy = kvevict::AnyPolicy::named(name);
  const Shape& shape = inputs.shape();
  kvevict::CpuResources res({.threads = threads});
  const Buffer<float> storage(shape.total_rows());
  const kvevict::ScoreView<> scores{storage.data(),
                                    kvevict::RowLayout<>::uniform(shape.heads, shape.rows)};
  const kvevict::KvView<const T> cache(inputs.cache());
  const kvevict::Selection kept = all_but_a_step(shape);
  const kvevict::QueriesView<> queries = inputs.window().queries;
  kvevict::DecodeEvidence known(kvevict::detail::collected_evidence(policy),
                                kvevict::accumulation_of(policy), shape.query_heads(), shape.dim,
                                {});
  std::int64_t seen = shape.rows - queries.count();
  const auto observe = [&] {
    known.observe(res, cache, queries.count(), seen, {queries, queries});
    seen += queries.count();
  };
  const auto evict = [&] {
    kvevict::score_rows(res, policy, cache, known.evidence(res, cache, seen, {}), scores);
    known.compact(res, kept, cache);
  };
  // Of queries, all would have to be taken in again, a step of them at a time; those of the first
  // half attend to half of the rows on average.
  const bool observes = known.needs_pre_rope() || known.needs_post_rope();
  double anew = 0.0;
  if (!observes) {
    anew = seconds_of(threads, [&] { kvevict::score_rows(res, policy, cache, {}, scores); });
  } else {
    const double steps = static_cast<double>(shape.rows) / static_cast<double>(queries.count());
    const bool attends = policy.needs().contains(kvevict::EvidenceKind::attention_mass);
    const double each = seconds_of(threads, [&] {
      observe();
      if (attends) known.compact(res, kept);
    });
    observe();
    const double scored = seconds_of(threads, [&] {
      kvevict::score_rows(res, policy, cache, known.evidence(res, cache, seen, {}), scores);
    });
    anew = scored + each * steps * (attends ? 0.5 : 1.0);
    known.compact(res, kept);
  }
  const double seconds = measure(state, threads, [&] {
    if (observes) observe();
    evict();
  });
  state.counters["of_anew"] = seconds / anew;
}

template <class T>
void add_cases(const std::shared_ptr<InputStore>& store, const Shape& shape) {
  for (const std::string_view policy : policies) {
    for (int threads : thread_counts()) {
      const std::string name = "decode/" + std::string(policy) + "/cpu/" + type_name<T>() + "/" +
                               shape_name(shape, threads);
      add(name,
          [=](benchmark::State& state) { decode(state, policy, store->get<T>(shape), threads); });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto store = std::make_shared<InputStore>();
  for (const Shape& shape : shapes) {
    if (shape.rows > 8192) continue;
    add_cases<float>(store, shape);
    add_cases<kvevict::bfloat16>(store, shape);
  }
  return run_benchmarks(argc, argv);
}
