// SPDX-License-Identifier: Apache-2.0
// Every score and kept set of the reference data that belongs to a policy of the library, from the
// command line of kvevict_score.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "program.hpp"
#include "support/golden.hpp"
#include "support/tolerance.hpp"

namespace {

using namespace kvevict_test;

std::string input(const GoldenEntry& entry, const std::string& name) {
  return golden_data().file(entry.case_name() + "/input/" + name);
}

Arguments policy_arguments(const GoldenEntry& entry) {
  Arguments arguments = {"--policy",           entry.policy, "--keys",
                         input(entry, "keys"), "--values",   input(entry, "values")};
  for (const auto& [name, value] : entry.parameters) {
    arguments = arguments + Arguments{"--set", name + "=" + value};
    if (name == "output_projection" && value == "factor") {
      arguments = arguments + Arguments{"--output-projection", input(entry, "output_projection")};
    }
  }
  return arguments;
}

// What the evidence column says, as options.
Arguments evidence_arguments(const GoldenEntry& entry) {
  const Pairs& evidence = entry.evidence;
  const std::string& kind = required(evidence, "kind");
  if (kind == "none") return {};
  if (kind == "probes") return {"--probes", input(entry, "probe_queries")};
  if (kind == "query_filter") return {"--query-filter", input(entry, "query_filter")};
  const Arguments before_rope = {"--keys-pre-rope", input(entry, "keys_pre_rope")};
  if (kind == "keys_before_rope") return before_rope;
  const std::string& frame = required(evidence, "queries");
  const Arguments queries = {"--queries", input(entry, "queries_" + frame), "--queries-are", frame};
  // SnapKV takes its window from its own parameter, H2O observes all queries.
  if (kind == "query_window" || kind == "all_queries") {
    return evidence.count("keys") == 0 ? queries : queries + before_rope;
  }
  if (kind != "query_stats") throw std::runtime_error(entry.id + ": unknown evidence " + kind);
  if (frame == "post_rope") {
    return queries + Arguments{"--stats-window", required(evidence, "window")};
  }
  return queries + Arguments{"--skip-queries",  required(evidence, "skip_first"),
                             "--next-position", required(evidence, "next_position"),
                             "--future",        required(evidence, "future"),
                             "--rope-theta",    required(evidence, "rope_theta"),
                             "--rope-pairing",  required(evidence, "rope_pairing")};
}

// The reference's sentinels at both ends are left out.
Comparison compare_scores(const NpyArray& got, const NpyArray& want, const GoldenEntry& entry) {
  const std::vector<float> got_values = got.values_float();
  const std::vector<float> want_values = want.values_float();
  Comparison comparison;
  for (std::int64_t h = 0; h < want.dim(0); ++h) {
    for (std::int64_t i = entry.forced_first; i < want.dim(1) - entry.forced_last; ++i) {
      const auto at = static_cast<std::size_t>(h * want.dim(1) + i);
      add(comparison, got_values[at], want_values[at], entry.tolerance);
    }
  }
  return comparison;
}

// Entries of a kind whose policy kvevict_score has.
std::vector<GoldenEntry> known_entries(const std::string& kind) {
  std::istringstream listing(run_score({"--list-policies"}).output);
  std::set<std::string> names;
  for (std::string line; std::getline(listing, line);) names.insert(line);
  std::vector<GoldenEntry> known;
  for (const GoldenEntry& entry : golden_data().entries(kind)) {
    if (names.count(entry.policy) != 0) known.push_back(entry);
  }
  return known;
}

// The kept rows of every head, from one file or from one for each head.
std::vector<std::vector<std::int32_t>> read_kept(const TemporaryFolder& folder,
                                                 std::int64_t heads) {
  std::vector<std::vector<std::int32_t>> rows;
  const bool one_file = std::filesystem::exists(folder / "kept.npy");
  for (std::int64_t h = 0; h < heads; ++h) {
    const NpyArray array =
        read_npy(folder / (one_file ? "kept.npy" : "kept_h" + std::to_string(h) + ".npy"));
    const std::vector<std::int32_t> all = array.values_int32();
    const std::int64_t count = array.dim(one_file ? 1 : 0);
    const auto begin = all.begin() + (one_file ? h * count : 0);
    rows.emplace_back(begin, begin + count);
  }
  return rows;
}

bool has_all(const std::set<std::string>& found, const std::set<std::string>& expected) {
  return std::includes(found.begin(), found.end(), expected.begin(), expected.end());
}

}  // namespace

TEST_CASE("kvevict_score reproduces the scores of the reference data") {
  std::set<std::string> policies;
  for (const GoldenEntry& entry : known_entries("score")) {
    CAPTURE(entry.id);
    policies.insert(entry.policy);
    const TemporaryFolder folder;
    const Outcome outcome = run_score(policy_arguments(entry) + evidence_arguments(entry) +
                                      Arguments{"--scores", folder / "scores.npy"});
    CAPTURE(outcome.errors);
    REQUIRE(outcome.exit_code == 0);
    const NpyArray got = read_npy(folder / "scores.npy");
    const NpyArray want = golden_data().array(entry.id);
    REQUIRE(got.shape() == want.shape());
    const Comparison comparison = compare_scores(got, want, entry);
    INFO(comparison.describe());
    CHECK(comparison.within());
  }
  CHECK(has_all(policies, {"CapKV", "CurDKV", "ExpectedAttention", "H2O", "Jacap", "KNorm",
                           "KeyDiff", "LagKV", "LeverageScore", "QFilter", "SnapKV"}));
}

TEST_CASE("kvevict_score reproduces the kept sets of the reference data") {
  std::set<std::string> policies;
  for (const GoldenEntry& entry : known_entries("kept")) {
    CAPTURE(entry.id);
    policies.insert(entry.policy);
    const TemporaryFolder folder;
    const Pairs& selection = entry.selection;
    const Outcome outcome =
        run_score(policy_arguments(entry) + evidence_arguments(entry) +
                  Arguments{"--evict-ratio", required(selection, "evict_ratio"), "--rounding",
                            "reference", "--budget", required(selection, "budget"), "--sinks",
                            required(selection, "sinks"), "--recent", required(selection, "recent"),
                            "--kept", folder / "kept.npy"});
    CAPTURE(outcome.errors);
    REQUIRE(outcome.exit_code == 0);
    const auto want = kept_rows(golden_data(), entry);
    CHECK(read_kept(folder, static_cast<std::int64_t>(want.size())) == want);
  }
  CHECK(has_all(policies, {"CapKV", "CurDKV", "ExpectedAttention", "H2O", "Jacap", "KNorm",
                           "KeyDiff", "LagKV", "LeverageScore", "NonCausalAttention", "QFilter",
                           "SnapKV", "StreamingLLM"}));
}
