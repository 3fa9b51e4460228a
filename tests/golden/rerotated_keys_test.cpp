// SPDX-License-Identifier: Apache-2.0
// Kept keys turned to the positions of a cache without holes.
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/selections.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/rerotate_keys.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

TEST_CASE("golden: kept keys are turned to their places", "[golden]") {
  TestResources res({.threads = 2});
  for (const char* const name : {"gpl3_l09", "code_l17"}) {
    const GoldenEntry& entry =
        golden_data().entry(std::string(name) + "/tensor/rerotated_knorm_r75");
    const GoldenEntry& of_kept =
        golden_data().entry(std::string(name) + "/kept/" + required(entry.evidence, "kept"));
    const kvevict::Selection kept = selection_of(kept_rows(golden_data(), of_kept));
    const kvevict::KvView<const float> cache = golden_case(entry).cache();
    std::vector<float> keys(static_cast<std::size_t>(kept.total() * GoldenCase::dim));
    const auto rows = kvevict::RowsView<float>::packed(keys.data(), kept.layout(), GoldenCase::dim,
                                                       GoldenCase::dim);
    gather_rows(res, kept.view(), cache.keys(), rows);
    rerotate_keys(res, rows, kvevict::Positions<>::packed(kept.indices().data()),
                  kvevict::Positions<>::consecutive(), golden_rope(entry.evidence));
    const Comparison comparison =
        compare(keys, golden_data().array(entry.id).values_double(), entry.tolerance);
    INFO(entry.id << ": " << comparison.describe());
    CHECK(comparison.within());
  }
}
