// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/evidence.hpp"

#include <string>

#include "catch.hpp"
#include "core/errors.hpp"

using kvevict::Evidence;
using kvevict::EvidenceKind;
using kvevict::EvidenceSet;
using kvevict_test::refused;

namespace {

kvevict::QueryStatsView<> stats(bool diagonal, bool full) {
  static const float number = 0;
  kvevict::QueryStatsView<> view;
  view.mean = kvevict::MatrixView<const float>::packed(&number, 1, 1);
  if (diagonal) view.diagonal = kvevict::MatrixView<const float>::packed(&number, 1, 1);
  if (full) view.covariance = kvevict::MatrixBatchView<const float>::packed(&number, 1, 1, 1);
  return view;
}

}  // namespace

TEST_CASE("a set of evidence is a set", "[core][evidence]") {
  constexpr EvidenceSet none;
  constexpr EvidenceSet two = {EvidenceKind::probes, EvidenceKind::query_stats};
  STATIC_REQUIRE(none.empty());
  STATIC_REQUIRE_FALSE(two.empty());
  STATIC_REQUIRE(two.contains(EvidenceKind::probes));
  STATIC_REQUIRE_FALSE(two.contains(EvidenceKind::query_window));
  STATIC_REQUIRE(two == EvidenceSet{EvidenceKind::query_stats, EvidenceKind::probes});
  EvidenceSet united = two;
  united |= EvidenceSet{EvidenceKind::attention_mass, EvidenceKind::probes};
  united |= EvidenceKind::output_projection;
  REQUIRE(united == EvidenceSet{EvidenceKind::query_stats, EvidenceKind::probes,
                                EvidenceKind::attention_mass, EvidenceKind::output_projection});
}

TEST_CASE("each kind is there when its field is", "[core][evidence]") {
  const Evidence<> nothing;
  for (const EvidenceKind kind : kvevict::all_evidence_kinds) REQUIRE_FALSE(nothing.has(kind));

  REQUIRE(Evidence<>{.query_window = kvevict::QueryWindow<>{}}.has(EvidenceKind::query_window));
  REQUIRE(Evidence<>{.probes = kvevict::ProbeQueries<>{}}.has(EvidenceKind::probes));
  REQUIRE(
      Evidence<>{.attention_mass = kvevict::AttentionMass<>{}}.has(EvidenceKind::attention_mass));
  REQUIRE(Evidence<>{.output_projection = kvevict::OutputProjection<>{}}.has(
      EvidenceKind::output_projection));

  const Evidence<> mean{.query_stats = stats(false, false)};
  REQUIRE(mean.has(EvidenceKind::query_stats));
  REQUIRE_FALSE(mean.has(EvidenceKind::query_covariance_diagonal));
  REQUIRE_FALSE(mean.has(EvidenceKind::query_covariance_full));
  const Evidence<> diagonal{.query_stats = stats(true, false)};
  REQUIRE(diagonal.has(EvidenceKind::query_covariance_diagonal));
  REQUIRE_FALSE(diagonal.has(EvidenceKind::query_covariance_full));
  // A full covariance has a diagonal.
  const Evidence<> full{.query_stats = stats(false, true)};
  REQUIRE(full.has(EvidenceKind::query_covariance_diagonal));
  REQUIRE(full.has(EvidenceKind::query_covariance_full));
}

TEST_CASE("missing evidence is named", "[core][evidence]") {
  const auto missing = [](const Evidence<>& evidence, EvidenceSet needs) {
    return refused([&] { require_evidence(evidence, needs, "Needy"); });
  };
  for (const EvidenceKind kind : kvevict::all_evidence_kinds) {
    REQUIRE(missing({}, {kind}) ==
            "evidence." + std::string(to_string(kind)) + " is missing, must be given for Needy");
  }
  REQUIRE(to_string(EvidenceKind::query_covariance_full) == "query_stats.covariance");
  REQUIRE(to_string(EvidenceKind::query_covariance_diagonal) == "query_stats.diagonal");
  // The first of several, in a fixed order; nothing when all is there.
  REQUIRE(missing({.query_stats = stats(true, false)},
                  {EvidenceKind::output_projection, EvidenceKind::query_stats,
                   EvidenceKind::query_covariance_full}) ==
          "evidence.query_stats.covariance is missing, must be given for Needy");
  REQUIRE_NOTHROW(require_evidence(Evidence<>{.query_stats = stats(false, true)},
                                   {EvidenceKind::query_covariance_full}, "Needy"));
  REQUIRE_NOTHROW(require_evidence(Evidence<>{}, {}, "Needy"));
}
