// SPDX-License-Identifier: Apache-2.0
#include "support/golden.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "catch.hpp"

using namespace kvevict_test;

TEST_CASE("name=value pairs are parsed") {
  CHECK(parse_pairs("-").empty());
  const Pairs pairs = parse_pairs("noise=relative:0.01 window=32 offsets=0,5,9");
  CHECK(required(pairs, "noise") == "relative:0.01");
  CHECK(required_integer(pairs, "window") == 32);
  CHECK(required_number(pairs, "window") == 32.0);
  CHECK(required_list(pairs, "offsets") == std::vector<std::int64_t>{0, 5, 9});
  CHECK_THROWS_WITH(required(pairs, "kernel"), "'kernel' is missing");
  CHECK_THROWS_WITH(required_integer(pairs, "noise"), "'relative:0.01' is not an integer");
  CHECK_THROWS_WITH(parse_pairs("window"), "'window' is not name=value");
  CHECK_THROWS_WITH(parse_pairs("a=1 a=2"), "'a' is given twice");
  CHECK_THROWS_WITH(parse_number("1.5x"), "'1.5x' is not a number");
}

TEST_CASE("every entry of the index is complete and its array can be read") {
  const GoldenData& data = golden_data();
  const std::set<std::string> kinds{"input", "score",  "kept", "composed",
                                    "refit", "tensor", "table"};
  std::set<std::string> ids;
  for (const GoldenEntry& entry : data.entries()) {
    INFO(entry.id);
    CHECK(ids.insert(entry.id).second);
    CHECK(kinds.count(entry.kind) == 1);
    const NpyArray array = data.array(entry.id);
    CHECK(array.size() > 0);
    if (entry.kind == "score") {
      CHECK_FALSE(entry.policy.empty());
      CHECK(entry.evidence.count("kind") == 1);
      CHECK(entry.tolerance.rel > 0);
      CHECK(entry.tolerance.abs > 0);
      CHECK(array.type() == NpyType::float32);
      CHECK(array.shape().size() == 2);
    }
  }
  CHECK(ids.size() == 471);
}

TEST_CASE("kept sets are ascending and of the size that the index says") {
  const GoldenData& data = golden_data();
  std::vector<GoldenEntry> entries = data.entries("kept");
  for (const GoldenEntry& entry : data.entries("composed")) entries.push_back(entry);
  for (const GoldenEntry& entry : entries) {
    INFO(entry.id);
    const std::vector<std::vector<std::int32_t>> heads = kept_rows(data, entry);
    const bool global = required(entry.selection, "budget") != "uniform";
    std::int64_t total = 0;
    CHECK(heads.size() == 3);
    for (const std::vector<std::int32_t>& rows : heads) {
      total += static_cast<std::int64_t>(rows.size());
      CHECK(std::set<std::int32_t>(rows.begin(), rows.end()).size() == rows.size());
      CHECK(std::is_sorted(rows.begin(), rows.end()));
      if (!global) {
        CHECK(static_cast<std::int64_t>(rows.size()) == required_integer(entry.selection, "rows"));
      }
    }
    if (global) CHECK(total == required_integer(entry.selection, "rows"));
  }
}

TEST_CASE("unknown ids and a folder without an index are refused") {
  CHECK_THROWS_AS(golden_data().array("gpl3_l09/score/none"), std::runtime_error);
  CHECK_THROWS_WITH(GoldenData("no_such_folder"), "no_such_folder/index.tsv: cannot be opened");
  CHECK(golden_data().entry("gpl3_l09/score/knorm").case_name() == "gpl3_l09");
}
