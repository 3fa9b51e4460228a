// SPDX-License-Identifier: Apache-2.0
//
// Time to score a cache with each policy, against the work that no implementation avoids. See
// README.md for names, counters and results.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "inputs.hpp"
#include "runner.hpp"
#include "unavoidable.hpp"

namespace {

using namespace bench;

/// A policy with some parameters, and what it cannot do without.
struct Case {
  std::string_view policy;
  std::string_view parameters;  ///< "name=value,name=value"
  int reads;                    ///< passes over keys or values that `bytes_per_second` counts
  double (*unavoidable)(Bounds&, const Load&);
};

constexpr Case cases[] = {
    {"KNorm", "", 1, [](Bounds& b, const Load& l) { return read_keys(b, l); }},
    {"KeyDiff", "", 2, [](Bounds& b, const Load& l) { return 2.0 * read_keys(b, l); }},
    {"SnapKV", "", 1, [](Bounds& b, const Load& l) { return attention(b, l, window_queries); }},
    // One observation of a window, and the score, which is a copy of the accumulated mass.
    {"H2O", "", 1, [](Bounds& b, const Load& l) { return attention(b, l, window_queries); }},
    {"KVzip", "", 1, [](Bounds& b, const Load& l) { return attention(b, l, window_queries); }},
    {"ExpectedAttention", "", 2,
     [](Bounds& b, const Load& l) {
       return read_keys(b, l, square_products(b, l, l.shape.query_heads())) +
              b.exponentials(l.query_rows()) + read_values(b, l);
     }},
    {"ExpectedAttention", "covariance=diagonal", 2,
     [](Bounds& b, const Load& l) {
       return read_keys(b, l) + b.exponentials(l.query_rows()) + read_values(b, l);
     }},
    {"Jacap", "", 3, [](Bounds& b, const Load& l) { return capacity(b, l, l.shape.heads); }},
    {"Jacap", "pooled=false", 3,
     [](Bounds& b, const Load& l) { return capacity(b, l, l.shape.query_heads()); }},
    {"Jacap", "evidence=probes", 3,
     [](Bounds& b, const Load& l) {
       return attention(b, l, l.probes) + capacity(b, l, l.shape.heads);
     }},
    {"ProbeAttention", "", 1, [](Bounds& b, const Load& l) { return attention(b, l, l.probes); }},
    // Logits, outputs, and the distance of every value from every output.
    {"DropLoss", "", 3,
     [](Bounds& b, const Load& l) {
       return attention(b, l, l.probes) + 2.0 * read_values(b, l, query_products(b, l, l.probes));
     }},
    {"CapKV", "", 3,
     [](Bounds& b, const Load& l) { return capacity(b, l, l.shape.query_heads()); }},
    {"CapKV", "pooled=true", 3,
     [](Bounds& b, const Load& l) { return capacity(b, l, l.shape.heads); }},
    {"TOVA", "", 1, [](Bounds& b, const Load& l) { return attention(b, l, 1); }},
    {"LagKV", "", 4,
     [](Bounds& b, const Load& l) { return 2.0 * (read_keys(b, l) + read_values(b, l)); }},
    {"QFilter", "", 1, [](Bounds& b, const Load& l) { return read_keys(b, l); }},
    {"NonCausalAttention", "", 2,
     [](Bounds& b, const Load& l) { return read_keys(b, l) + read_values(b, l); }},
    {"LeverageScore", "keys=cached", 3,
     [](Bounds& b, const Load& l) { return capacity(b, l, l.shape.heads); }},
    {"Compactor", "keys=cached", 5,
     [](Bounds& b, const Load& l) {
       return capacity(b, l, l.shape.heads) + read_keys(b, l) + read_values(b, l);
     }},
    {"CurDKV", "", 2, [](Bounds& b, const Load& l) { return read_keys(b, l) + read_values(b, l); }},
    // Every pair of keys of a head is compared.
    {"RKV", "", 1,
     [](Bounds& b, const Load& l) {
       return attention(b, l, 8) + square_products(b, l, l.shape.heads) *
                                       static_cast<double>(l.shape.rows) /
                                       static_cast<double>(l.shape.dim);
     }},
    {"StreamingLLM", "", 0,
     [](Bounds& b, const Load& l) { return b.write(l.scores, l.score_bytes()); }},
    {"Random", "", 0, [](Bounds& b, const Load& l) { return b.write(l.scores, l.score_bytes()); }},
};

kvevict::AnyPolicy policy_of(const Case& c) {
  kvevict::AnyPolicy policy = kvevict::AnyPolicy::named(c.policy);
  if (!c.parameters.empty()) policy.set(c.parameters);
  return policy;
}

template <class T>
void score(benchmark::State& state, const Case& c, const Inputs<T>& inputs, int threads) {
  const kvevict::AnyPolicy policy = policy_of(c);
  const Shape& shape = inputs.shape();
  kvevict::CpuResources res({.threads = threads});
  const Buffer<float> storage(shape.total_rows());
  const kvevict::ScoreView<> scores{storage.data(),
                                    kvevict::RowLayout<>::uniform(shape.heads, shape.rows)};
  const kvevict::KvView<const T> cache(inputs.cache());
  kvevict::Evidence<> evidence{.query_window = inputs.window(), .query_stats = inputs.stats()};
  // Jacap takes probes when they are there, and its default case is the one without.
  if (policy.needs().contains(kvevict::EvidenceKind::probes)) evidence.probes = inputs.probes();
  // The mean of each group's first query head serves as a filter.
  kvevict::MatrixView<const float> filter = evidence.query_stats->mean;
  filter.stride[0] *= filter.shape[0] / shape.heads;
  filter.shape[0] = shape.heads;
  evidence.query_filter = {filter};

  const Load load{
      shape,          inputs.keys().data(),           inputs.values().data(), inputs.keys().bytes(),
      storage.data(), inputs.probes().queries.count()};
  Bounds bounds(threads);
  const double unavoidable = c.unavoidable(bounds, load);
  const std::int64_t bytes = c.reads == 0 ? storage.bytes() : c.reads * load.bytes;
  if (policy.needs().contains(kvevict::EvidenceKind::attention_mass)) {
    kvevict::H2O::State mass(kvevict::accumulation_of(policy));
    measure(state, threads, unavoidable, bytes, [&] {
      mass.observe(res, cache, inputs.window());
      evidence.attention_mass = mass.mass();
      kvevict::score_rows(res, policy, cache, evidence, scores);
    });
  } else {
    measure(state, threads, unavoidable, bytes,
            [&] { kvevict::score_rows(res, policy, cache, evidence, scores); });
  }
}

std::string name_of(const Case& c, const char* type, const Shape& shape, int threads) {
  std::string name = "policy/";
  name.append(c.policy);
  if (!c.parameters.empty()) name.append(",").append(c.parameters);
  return name.append("/cpu/").append(type).append("/").append(shape_name(shape, threads));
}

template <class T>
void add_cases(const std::shared_ptr<InputStore>& store, const Shape& shape) {
  for (const Case& c : cases) {
    if (c.policy == "RKV" && shape.rows > 8192) continue;  // minutes: its work grows with N^2
    for (int threads : thread_counts()) {
      add(name_of(c, type_name<T>(), shape, threads),
          [=](benchmark::State& state) { score(state, c, store->get<T>(shape), threads); });
    }
  }
}

/// A policy that the library has gained must get a line above.
void require_complete() {
  for (const kvevict::AnyPolicy& policy : kvevict::AnyPolicy::all()) {
    if (std::none_of(std::begin(cases), std::end(cases),
                     [&](const Case& c) { return c.policy == policy.name(); })) {
      throw std::logic_error("no benchmark for policy " + std::string(policy.name()));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  require_complete();
  const auto store = std::make_shared<InputStore>();
  for (const Shape& shape : shapes) {
    add_cases<float>(store, shape);
    add_cases<kvevict::half>(store, shape);
    add_cases<kvevict::bfloat16>(store, shape);
  }
  return run_benchmarks(argc, argv);
}
