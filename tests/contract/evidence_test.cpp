// SPDX-License-Identifier: Apache-2.0
// A policy given less than it needs says what is missing, before any work.
#include <string>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::Error;
using kvevict::ErrorKind;
using kvevict::Evidence;
using kvevict::EvidenceKind;

namespace {

Evidence<> without(Evidence<> evidence, EvidenceKind kind) {
  switch (kind) {
    case EvidenceKind::query_window:
      evidence.query_window.reset();
      break;
    case EvidenceKind::query_stats:
      evidence.query_stats.reset();
      break;
    case EvidenceKind::query_covariance_diagonal:
      evidence.query_stats->diagonal = {};
      evidence.query_stats->covariance = {};
      break;
    case EvidenceKind::query_covariance_full:
      evidence.query_stats->covariance = {};
      break;
    case EvidenceKind::probes:
      evidence.probes.reset();
      break;
    case EvidenceKind::attention_mass:
      evidence.attention_mass.reset();
      break;
    case EvidenceKind::output_projection:
      evidence.output_projection.reset();
      break;
    case EvidenceKind::query_filter:
      evidence.query_filter.reset();
      break;
    case EvidenceKind::keys_before_rope:
      evidence.keys_before_rope.reset();
      break;
    case EvidenceKind::key_norms:
      evidence.key_norms.reset();
      break;
    case EvidenceKind::mean_key_direction:
      evidence.mean_key_direction.reset();
      break;
  }
  return evidence;
}

Evidence<> restricted(const Evidence<>& all, kvevict::EvidenceSet needs) {
  Evidence<> given = all;
  for (const EvidenceKind kind : kvevict::all_evidence_kinds) {
    const bool covariance = kind == EvidenceKind::query_covariance_diagonal ||
                            kind == EvidenceKind::query_covariance_full;
    if (needs.contains(kind) || (covariance && !given.query_stats)) continue;
    if (kind == EvidenceKind::query_covariance_diagonal &&
        needs.contains(EvidenceKind::query_covariance_full)) {
      continue;
    }
    given = without(given, kind);
  }
  return given;
}

// Whether a policy with these needs can do without the kind: a full covariance serves as a diagonal
// one as well, and a policy may choose the best of what is given.
bool dispensable(kvevict::EvidenceSet needs, EvidenceKind kind) {
  if (kind == EvidenceKind::query_covariance_diagonal) {
    return !needs.contains(EvidenceKind::query_covariance_full);
  }
  return kind != EvidenceKind::probes;
}

// The argument that evict names, with no workspace to begin any work in.
std::string refused_by_evict(const TestPolicy& policy, const kvevict::KvView<const float>& cache,
                             const Evidence<>& evidence) {
  char nothing = 0;
  TestResources res({.threads = 1, .workspace = &nothing, .workspace_bytes = 0});
  try {
    kvevict::evict(res, policy, cache, evidence, kvevict::Budget::rows(3));
  } catch (const Error& error) {
    return error.argument();
  }
  return {};
}

// Scores and evicts; returns the refused argument, or nothing. Nothing may have been done then.
std::string refused(const TestPolicy& policy, const kvevict::KvView<const float>& cache,
                    const Evidence<>& evidence) {
  TestResources res({.threads = 1});
  std::vector<float> scores(static_cast<std::size_t>(cache.layout().total()), unwritten());
  const std::vector<float> untouched = scores;
  try {
    kvevict::score_rows(res, policy, cache, evidence,
                        kvevict::ScoreView<>{scores.data(), cache.layout()});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::invalid_argument);
    CHECK(same_bits(scores, untouched));
    CHECK(res.workspace().peak_bytes() == 0);
    CHECK(res.report() == kvevict::Report{});
    // A policy that chooses its evidence itself cannot name it before it is asked for scores.
    if (!chooses_its_evidence(policy)) {
      CHECK(refused_by_evict(policy, cache, evidence) == error.argument());
    }
    return error.argument();
  }
  return {};
}

}  // namespace

TEST_CASE("contract: missing evidence is named before any work", "[contract][evidence]") {
  ContractCase given(contract_inputs());
  for (const auto& [name, policy] : policy_variants()) {
    const Evidence<> all = given.evidence_for(policy);
    for (const EvidenceKind kind : kvevict::all_evidence_kinds) {
      const std::string missing = refused(policy, given.view(), without(all, kind));
      INFO(name << " without " << to_string(kind));
      if (policy.needs().contains(kind)) {
        CHECK(missing == "evidence." + std::string(to_string(kind)));
      } else if (dispensable(policy.needs(), kind)) {
        CHECK(missing.empty());
      }
    }
  }
}

TEST_CASE("contract: evidence that is not needed is not read", "[contract][evidence]") {
  ContractCase given(contract_inputs());
  for (const auto& [name, policy] : policy_variants()) {
    if (chooses_its_evidence(policy)) continue;
    INFO(name);
    const Evidence<> all = given.evidence_for(policy);
    TestResources res({.threads = 1});
    CHECK(same_bits(scores_of(res, policy, given.view(), restricted(all, policy.needs())),
                    scores_of(res, policy, given.view(), all)));
  }
}

TEST_CASE("contract: no evidence at all", "[contract][evidence]") {
  ContractCase given(contract_inputs());
  for (const auto& [name, policy] : policy_variants()) {
    const std::string missing = refused(policy, given.view(), {});
    INFO(name << ": " << missing);
    if (!policy.needs().empty()) CHECK_FALSE(missing.empty());
    if (!missing.empty()) CHECK(missing.rfind("evidence.", 0) == 0);
  }
}

TEST_CASE("contract: evidence of another shape is refused", "[contract][evidence]") {
  const reference::InputShape shape = {
      .group = 2, .rows = {20, 20}, .dim = 16, .value_dim = 12, .queries = 8, .probes = 5};
  ContractCase given(reference::random_inputs(shape, 8));
  reference::InputShape other_dim = shape;
  other_dim.dim = 15;
  other_dim.value_dim = 11;
  reference::InputShape other_heads = shape;
  other_heads.group = 1;
  other_heads.rows = {20, 20, 20};
  reference::InputShape other_rows = shape;
  other_rows.rows = {20, 19};
  ContractCase by_dim(reference::random_inputs(other_dim, 9));
  ContractCase by_heads(reference::random_inputs(other_heads, 9));
  ContractCase by_rows(reference::random_inputs(other_rows, 9));
  const auto check_refused = [&](const TestPolicy& policy, const Evidence<>& evidence) {
    TestResources res({.threads = 1});
    std::vector<float> scores(40);
    CHECK_THROWS_AS(kvevict::score_rows(res, policy, given.view(), evidence,
                                        kvevict::ScoreView<>{scores.data(), given.cache.layout()}),
                    Error);
  };
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    if (policy.needs().contains(EvidenceKind::attention_mass)) {
      check_refused(policy, by_rows.evidence_for(policy));
      continue;
    }
    // Policies that take what they need from the cache do not look at evidence at all.
    if (refused(policy, given.view(), {}).empty()) continue;
    check_refused(policy, by_dim.evidence.view());
    check_refused(policy, by_heads.evidence.view());
  }
}
