// SPDX-License-Identifier: Apache-2.0
//
// Time to score a cache with each policy on a GPU, and to evict with two of them, against the work
// that no implementation avoids. See README.md for names and counters.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cuda_inputs.cuh"
#include "cuda_policy_work.cuh"
#include "cuda_runner.cuh"

namespace {

using namespace bench;

/// A policy with some parameters, and what it cannot do without.
struct Case {
  std::string_view policy;
  std::string_view parameters;  ///< "name=value,name=value"
  Work (*work)(const CudaLoad&);
};

constexpr Case cases[] = {
    {"KNorm", "", [](const CudaLoad& l) -> Work { return {writing_scores(l, read_pass(l, 2))}; }},
    {"KeyDiff", "",
     [](const CudaLoad& l) -> Work {
       return {read_pass(l, 4), writing_scores(l, read_pass(l, 4))};
     }},
    {"SnapKV", "",
     [](const CudaLoad& l) -> Work {
       return {writing_scores(l, attention_pass(l, window_queries))};
     }},
    // One observation of a window, and the score, which is a copy of the accumulated mass.
    {"H2O", "",
     [](const CudaLoad& l) -> Work {
       return {writing_scores(l, attention_pass(l, window_queries))};
     }},
    {"KVzip", "",
     [](const CudaLoad& l) -> Work {
       return {writing_scores(l, attention_pass(l, window_queries))};
     }},
    {"ExpectedAttention", "",
     [](const CudaLoad& l) -> Work {
       Pass weights = mean_query_pass(l, false);
       weights.fp32 += 2.0 * l.query_rows() * l.dim() * l.dim();
       return {weights, writing_scores(l, read_pass(l, 2))};
     }},
    {"ExpectedAttention", "covariance=diagonal",
     [](const CudaLoad& l) -> Work {
       return {mean_query_pass(l, true), writing_scores(l, read_pass(l, 2))};
     }},
    {"Jacap", "",
     [](const CudaLoad& l) -> Work {
       return {mean_query_pass(l, true), gram_pass(l, l.shape.heads),
               leverage_pass(l, l.shape.heads)};
     }},
    {"Jacap", "pooled=false",
     [](const CudaLoad& l) -> Work {
       return {mean_query_pass(l, true), gram_pass(l, l.shape.query_heads()),
               leverage_pass(l, l.shape.query_heads())};
     }},
    {"Jacap", "evidence=probes",
     [](const CudaLoad& l) -> Work {
       return {attention_pass(l, l.probes), gram_pass(l, l.shape.heads),
               leverage_pass(l, l.shape.heads)};
     }},
    {"ProbeAttention", "",
     [](const CudaLoad& l) -> Work { return {writing_scores(l, attention_pass(l, l.probes))}; }},
    // Logits, outputs, and the distance of every value from every output.
    {"DropLoss", "",
     [](const CudaLoad& l) -> Work {
       Pass outputs = attention_pass(l, l.probes);
       outputs.exponentials = 0.0;
       Pass distances = outputs;
       distances.fp32 *= 1.5;
       return {attention_pass(l, l.probes), outputs, writing_scores(l, distances)};
     }},
    {"CapKV", "",
     [](const CudaLoad& l) -> Work {
       return {mean_query_pass(l, false), gram_pass(l, l.shape.query_heads()),
               leverage_pass(l, l.shape.query_heads())};
     }},
    {"CapKV", "pooled=true",
     [](const CudaLoad& l) -> Work {
       return {mean_query_pass(l, false), gram_pass(l, l.shape.heads),
               leverage_pass(l, l.shape.heads)};
     }},
    {"TOVA", "",
     [](const CudaLoad& l) -> Work { return {writing_scores(l, attention_pass(l, 1))}; }},
    {"LagKV", "",
     [](const CudaLoad& l) -> Work {
       return {read_pass(l, 2), read_pass(l, 2), read_pass(l, 6),
               writing_scores(l, read_pass(l, 6))};
     }},
    {"QFilter", "", [](const CudaLoad& l) -> Work { return {writing_scores(l, read_pass(l, 2))}; }},
    {"NonCausalAttention", "",
     [](const CudaLoad& l) -> Work {
       return {read_pass(l, 2), writing_scores(l, read_pass(l, 2))};
     }},
    {"LeverageScore", "keys=cached",
     [](const CudaLoad& l) -> Work {
       return {read_pass(l, 1), gram_pass(l, l.shape.heads), leverage_pass(l, l.shape.heads)};
     }},
    {"Compactor", "keys=cached",
     [](const CudaLoad& l) -> Work {
       return {read_pass(l, 1), gram_pass(l, l.shape.heads), leverage_pass(l, l.shape.heads),
               read_pass(l, 2), writing_scores(l, read_pass(l, 2))};
     }},
    {"CurDKV", "",
     [](const CudaLoad& l) -> Work {
       return {read_pass(l, 2), writing_scores(l, read_pass(l, 2))};
     }},
    // Every pair of keys of a head is compared.
    {"RKV", "",
     [](const CudaLoad& l) -> Work {
       return {attention_pass(l, 8),
               writing_scores(l, read_pass(l, 2.0 * static_cast<double>(l.shape.rows)))};
     }},
    {"StreamingLLM", "", [](const CudaLoad& l) -> Work { return {writing_scores(l, {})}; }},
    {"Random", "", [](const CudaLoad& l) -> Work { return {writing_scores(l, {})}; }},
};

kvevict::AnyPolicy policy_of(const Case& c) {
  kvevict::AnyPolicy policy = kvevict::AnyPolicy::named(c.policy);
  if (!c.parameters.empty()) policy.set(c.parameters);
  return policy;
}

/// Jacap takes probes when they are there, and its default case is the one without.
template <class T>
kvevict::Evidence<device> evidence_for(const Case& c, const CudaInputs<T>& inputs) {
  kvevict::Evidence<device> evidence{.query_window = inputs.window(),
                                     .query_stats = inputs.stats()};
  if (policy_of(c).needs().contains(kvevict::EvidenceKind::probes)) {
    evidence.probes = inputs.probes();
  }
  // The mean of each group's first query head serves as a filter.
  kvevict::MatrixView<const float, device> filter = evidence.query_stats->mean;
  filter.stride[0] *= filter.shape[0] / inputs.shape().heads;
  filter.shape[0] = inputs.shape().heads;
  evidence.query_filter = {filter};
  return evidence;
}

template <class T>
void score(benchmark::State& state, const Case& c, kvevict::CudaResources& res,
           const CudaInputs<T>& inputs) {
  const kvevict::AnyPolicy policy = policy_of(c);
  const Shape& shape = inputs.shape();
  const CudaBuffer<float> storage(res, shape.total_rows());
  const kvevict::ScoreView<device> scores{
      storage.data(), kvevict::RowLayout<device>::uniform(shape.heads, shape.rows)};
  const kvevict::KvView<const T, device> cache(inputs.cache());
  kvevict::Evidence<device> evidence = evidence_for(c, inputs);
  const Work work = c.work({shape, sizeof(T), inputs.probes().queries.count()});
  const Traffic traffic{inputs.keys().data(), inputs.keys().bytes(), storage.data(),
                        storage.bytes()};
  const bool quick = shape == cuda_smoke_shape;
  if (policy.needs().contains(kvevict::EvidenceKind::attention_mass)) {
    kvevict::H2O::BasicState<device> mass(kvevict::accumulation_of(policy));
    measure(state, res, work, traffic, quick, [&] {
      mass.observe(res, cache, inputs.window());
      evidence.attention_mass = mass.mass();
      kvevict::score_rows(res, policy, cache, evidence, scores);
    });
  } else {
    measure(state, res, work, traffic, quick,
            [&] { kvevict::score_rows(res, policy, cache, evidence, scores); });
  }
}

/// Scores, selects a quarter of the rows and gathers them into a cache of their own, by calls or as
/// a graph that was captured from them.
template <class T>
void evict(benchmark::State& state, const Case& c, kvevict::CudaResources& res,
           const CudaInputs<T>& inputs, bool as_graph) {
  const kvevict::AnyPolicy policy = policy_of(c);
  const Shape& shape = inputs.shape();
  const std::int64_t rows = shape.rows / 4;
  const CudaBuffer<T> keys(res, shape.heads * rows * shape.dim);
  const CudaBuffer<T> values(res, keys.size());
  const auto cache = inputs.cache();
  const auto target =
      kvevict::KvView<T, device>::hnd(keys.data(), values.data(), shape.heads, rows, shape.dim);
  const kvevict::Evidence<device> evidence = evidence_for(c, inputs);
  kvevict::CudaSelection kept;
  const auto body = [&] {
    kvevict::evict_into(res, kept, policy, cache, evidence, kvevict::Budget::rows(rows),
                        {.sinks = 4, .recent = 16});
    kvevict::compact_into(res, kept, cache, target);
  };

  const CudaLoad load{shape, sizeof(T), inputs.probes().queries.count()};
  Work work = c.work(load);
  work.push_back({.read = load.score_bytes()});
  work.push_back({.copy = load.bytes() / 2.0});
  const Traffic traffic{inputs.keys().data(), inputs.keys().bytes(), keys.data(), keys.bytes()};
  const bool quick = shape == cuda_smoke_shape;
  if (as_graph) {
    body();
    measure(state, res, work, traffic, quick, CudaReplay(res.stream(), body));
  } else {
    measure(state, res, work, traffic, quick, body);
  }
}

std::string name_of(const char* kind, const Case& c, const char* type, const Shape& shape) {
  std::string name = kind;
  name.append(c.policy);
  if (!c.parameters.empty()) name.append(",").append(c.parameters);
  return name.append("/cuda/").append(type).append("/").append(cuda_shape_name(shape));
}

template <class T>
void add_cases(CudaSession& session, const std::shared_ptr<CudaInputStore>& store,
               const Shape& shape) {
  for (const Case& c : cases) {
    session.add(name_of("policy/", c, type_name<T>(), shape),
                [&res = session.res(), &c, store, shape](benchmark::State& state) {
                  score(state, c, res, store->get<T>(shape));
                });
    // The cheapest policy and the default one: what selection and compaction add.
    if (!c.parameters.empty() || (c.policy != "KNorm" && c.policy != "Jacap")) continue;
    for (const bool as_graph : {false, true}) {
      session.add(name_of(as_graph ? "evict,graph/" : "evict/", c, type_name<T>(), shape),
                  [&res = session.res(), &c, store, shape, as_graph](benchmark::State& state) {
                    evict(state, c, res, store->get<T>(shape), as_graph);
                  });
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
  return run_cuda_benchmarks(argc, argv, [](CudaSession& session) {
    const auto store = std::make_shared<CudaInputStore>(session.res());
    for (const Shape& shape : cuda_shapes) {
      add_cases<float>(session, store, shape);
      add_cases<kvevict::half>(session, store, shape);
      add_cases<kvevict::bfloat16>(session, store, shape);
    }
  });
}
