// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <vector>

#include "catch.hpp"
#include "golden/golden_case.hpp"
#include "refit/refit_case.hpp"
#include "support/golden.hpp"

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::RefitKind;
using kvevict::RefitMass;
using kvevict::RefitOptions;

namespace {

// The run behind an entry: its kept set, refitted from the probes of its case.
Refitted<float> run(const GoldenEntry& entry, RefitMass mass) {
  const GoldenEntry& kept_entry = golden_data().entry(required(entry.selection, "kept"));
  const kvevict::Selection kept = selection_of(kept_rows(golden_data(), kept_entry));
  const RefitOptions options{
      .mass = mass,
      .ridge = required_number(entry.parameters, "ridge"),
      .mass_ridge = required_number(entry.parameters, "mass_ridge"),
      .weight_floor = required_number(entry.parameters, "weight_floor"),
      .direction_ridge = required_number(entry.parameters, "direction_ridge"),
      .check_every = 0};
  CpuResources res({.threads = 2});
  GoldenCase& given = golden_case(entry);
  return refitted(res, kept, given.cache(), given.probes(), options);
}

void check_against(const GoldenEntry& entry, const std::vector<float>& got) {
  const Comparison comparison =
      compare(got, golden_data().array(entry.id).values_float(), entry.tolerance);
  INFO(entry.id << ": " << comparison.describe());
  CHECK(comparison.within());
}

}  // namespace

TEST_CASE("golden: stored refits are reproduced", "[golden][refit]") {
  std::size_t count = 0;
  for (const GoldenEntry& entry : golden_data().entries("refit")) {
    const std::string name = entry.id.substr(entry.id.rfind('/') + 1);
    const auto ends_with = [&](const std::string& end) {
      return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
    };
    ++count;
    if (ends_with("_errors")) {
      const std::vector<float> want = golden_data().array(entry.id).values_float();
      const Refitted<float> values = run(entry, RefitMass::none);
      const Refitted<float> biased = run(entry, RefitMass::bias);
      const Refitted<float> absorbed = run(entry, RefitMass::absorbed);
      std::vector<float> got;
      for (std::size_t h = 0; h < values.heads.size(); ++h) {
        got.insert(got.end(),
                   {values.heads[h].evict_error, values.heads[h].error, biased.heads[h].error,
                    absorbed.heads[h].error, absorbed.heads[h].spread});
      }
      check_against(entry, got);
    } else if (ends_with("_mass_weights")) {
      std::vector<float> got = run(entry, RefitMass::bias).bias;
      for (float& bias : got) bias = std::exp(bias);
      check_against(entry, got);
    } else if (ends_with("_bias_values")) {
      check_against(entry, run(entry, RefitMass::bias).values);
    } else if (ends_with("_absorbed_values")) {
      check_against(entry, run(entry, RefitMass::absorbed).values);
    } else if (ends_with("_keys")) {
      check_against(entry, run(entry, RefitMass::absorbed).keys);
    } else if (ends_with("_values")) {
      check_against(entry, run(entry, RefitMass::none).values);
    } else {
      FAIL("no check for " << entry.id);
    }
  }
  CHECK(count == 18);
}
