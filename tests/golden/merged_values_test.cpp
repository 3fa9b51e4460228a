// SPDX-License-Identifier: Apache-2.0
// Evicted values merged into the kept ones.
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/selections.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/merge_rows.hpp"
#include "kvevict/merge.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

TEST_CASE("golden: evicted values are merged into the most similar kept ones", "[golden]") {
  TestResources res({.threads = 2});
  for (const char* const name : {"gpl3_l09", "code_l17"}) {
    for (const char* const form : {"merged_knorm_r75", "merged_knorm_t50_f75_r75"}) {
      const GoldenEntry& entry =
          golden_data().entry(std::string(name).append("/tensor/").append(form));
      const GoldenEntry& of_kept =
          golden_data().entry(std::string(name) + "/kept/" + required(entry.evidence, "kept"));
      const kvevict::Selection kept = selection_of(kept_rows(golden_data(), of_kept));
      const kvevict::KvView<const float> cache = golden_case(entry).cache();
      // A copy to write to.
      std::vector<std::vector<std::int32_t>> all(static_cast<std::size_t>(cache.heads()));
      for (std::size_t h = 0; h < all.size(); ++h) {
        for (std::int32_t i = 0; i < cache.layout().rows(static_cast<std::int64_t>(h)); ++i) {
          all[h].push_back(i);
        }
      }
      const kvevict::Selection everything = selection_of(all);
      const auto size = static_cast<std::size_t>(cache.layout().total() * GoldenCase::dim);
      std::vector<float> keys(size);
      std::vector<float> values(size);
      const auto copy = kvevict::KvView<float>::hnd(keys.data(), values.data(), cache.heads(),
                                                    cache.layout().longest(), GoldenCase::dim);
      compact_into(res, everything, cache, copy);
      merge_evicted(res, kept, copy,
                    {.threshold = std::stof(required(entry.evidence, "threshold")),
                     .fraction = std::stod(required(entry.evidence, "fraction"))});
      std::vector<float> merged(static_cast<std::size_t>(kept.total() * GoldenCase::dim));
      gather_rows(res, kept.view(), kvevict::RowsView<const float>(copy.values()),
                  kvevict::RowsView<float>::packed(merged.data(), kept.layout(), GoldenCase::dim,
                                                   GoldenCase::dim));
      const Comparison comparison =
          compare(merged, golden_data().array(entry.id).values_double(), entry.tolerance);
      INFO(entry.id << ": " << comparison.describe());
      CHECK(comparison.within());
      CHECK(keys ==
            std::vector<float>(cache.keys().head(0).row(0), cache.keys().head(0).row(0) + size));
    }
  }
}
