// SPDX-License-Identifier: Apache-2.0
#include "decode/engine.hpp"

namespace kvevict_test {

std::vector<TestPolicy> decode_policies() {
  using kvevict::EvidenceKind;
  std::vector<TestPolicy> policies;
  for (const TestPolicy& policy : TestPolicy::all()) {
    // What a policy needs beyond this no evictor can collect.
    kvevict::EvidenceSet kinds = {EvidenceKind::query_window,
                                  EvidenceKind::query_stats,
                                  EvidenceKind::query_covariance_diagonal,
                                  EvidenceKind::query_covariance_full,
                                  EvidenceKind::probes,
                                  EvidenceKind::attention_mass,
                                  EvidenceKind::output_projection};
    const kvevict::EvidenceSet enough = kinds;
    kinds |= policy.needs();
    if (kinds == enough) policies.push_back(policy);
  }
  TestPolicy from_statistics = TestPolicy::named("Jacap");
  from_statistics.set("evidence=mean");
  policies.push_back(from_statistics);
  TestPolicy projected = from_statistics;
  projected.set("output_projection=factor");
  policies.push_back(projected);
  return policies;
}

kvevict::DecodeEvidenceOptions short_memory() {
  kvevict::DecodeEvidenceOptions options;
  options.recent_queries = 24;
  options.decay = 0.98;
  options.future = 16;
  options.skip_first = 1;
  options.window = 6;
  options.probe_queries = 20;
  options.last_probes = 5;
  options.sampled_probes = 4;
  options.probe_future = 8;
  return options;
}

}  // namespace kvevict_test
