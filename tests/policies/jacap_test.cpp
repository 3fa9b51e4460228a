// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/jacap.hpp"

#include <string>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::Jacap;
using kvevict::Noise;
using kvevict::WeightEvidence;

TEST_CASE("Jacap: scores from the mean query are those of the double-precision loops",
          "[policies][jacap]") {
  const Pairs mean = {{"evidence", "mean"}};
  const auto with = [&](Pairs more) {
    more.insert(mean.begin(), mean.end());
    return more;
  };
  for (const char* const pooled : {"false", "true"}) {
    for (const char* const covariance : {"none", "diagonal", "full"}) {
      check_varied("Jacap", with({{"pooled", pooled}, {"covariance", covariance}}), capacity_score);
    }
    for (const char* const noise : {"absolute:1", "absolute:1e-6", "relative:0.001"}) {
      check_varied("Jacap", with({{"pooled", pooled}, {"noise", noise}}), capacity_score);
    }
    check_varied("Jacap", with({{"pooled", pooled}, {"output_projection", "factor"}}),
                 capacity_score);
    for (const char* const reduction : {"max", "sum"}) {
      check_varied("Jacap", with({{"pooled", pooled}, {"reduction", reduction}}), capacity_score);
    }
    for (const char* const temperature : {"0.5", "10"}) {
      check_varied("Jacap", with({{"pooled", pooled}, {"temperature", temperature}}),
                   capacity_score);
    }
  }
}

TEST_CASE("Jacap: scores from probes are those of the double-precision loops",
          "[policies][jacap]") {
  for (const char* const pooled : {"false", "true"}) {
    for (const char* const evidence : {"automatic", "probes"}) {
      Pairs parameters = {{"pooled", pooled}};
      if (std::string(evidence) == "probes") parameters["evidence"] = evidence;
      check_varied("Jacap", parameters, capacity_score);
    }
    for (const char* const reduction : {"max", "sum"}) {
      check_varied("Jacap", {{"pooled", pooled}, {"reduction", reduction}}, capacity_score);
    }
    check_varied("Jacap", {{"pooled", pooled}, {"output_projection", "factor"}}, capacity_score);
    check_varied("Jacap", {{"pooled", pooled}, {"temperature", "4"}}, capacity_score);
    check_varied("Jacap", {{"pooled", pooled}, {"noise", "absolute:1"}}, capacity_score);
  }
}

TEST_CASE("Jacap: takes probes when they are given, else the mean query", "[policies][jacap]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {60}}, 1);
  const std::vector<float> probes =
      library_scores(Jacap{.evidence = WeightEvidence::probes}, inputs);
  const std::vector<float> mean = library_scores(Jacap{.evidence = WeightEvidence::mean}, inputs);
  CHECK(probes != mean);
  CHECK(library_scores(Jacap{}, inputs) == probes);
  inputs.probes.clear();
  CHECK(library_scores(Jacap{}, inputs) == mean);
}

TEST_CASE("Jacap: the published preset is the paper's algorithm", "[policies][jacap]") {
  const Jacap published = Jacap::published();
  CHECK(published.temperature == 10);
  CHECK(published.noise == Noise::absolute(1));
  CHECK(published.covariance == Covariance::diagonal);
  CHECK(published.evidence == WeightEvidence::mean);
  CHECK_FALSE(published.pooled);
  CHECK(Jacap::measured() == Jacap{});
  const Jacap measured;
  CHECK(measured.temperature == 1);
  CHECK(measured.noise == Noise::relative(0.1));
  CHECK(measured.pooled);
}

TEST_CASE("Jacap: needs follow the parameters", "[policies][jacap]") {
  using kvevict::EvidenceKind;
  using kvevict::EvidenceSet;
  const auto needs = [](Covariance covariance, WeightEvidence evidence) {
    return Jacap{.covariance = covariance, .evidence = evidence}.needs();
  };
  CHECK(needs(Covariance::none, WeightEvidence::mean) == EvidenceSet{EvidenceKind::query_stats});
  CHECK(needs(Covariance::diagonal, WeightEvidence::mean)
            .contains(EvidenceKind::query_covariance_diagonal));
  CHECK(
      needs(Covariance::full, WeightEvidence::mean).contains(EvidenceKind::query_covariance_full));
  CHECK(needs(Covariance::full, WeightEvidence::probes) == EvidenceSet{EvidenceKind::probes});
  CHECK(needs(Covariance::full, WeightEvidence::automatic).empty());
  CHECK(Jacap{.output_projection = kvevict::ProjectionUse::factor}.needs().contains(
      EvidenceKind::output_projection));
  CHECK_FALSE(Jacap{}.comparable_across_heads());
}
