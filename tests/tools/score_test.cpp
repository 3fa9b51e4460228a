// SPDX-License-Identifier: Apache-2.0
// What kvevict_score does beside the numbers of the reference data.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kvevict_score/npy.hpp"
#include "program.hpp"
#include "support/golden.hpp"
#include "support/npy.hpp"
#include "support/tolerance.hpp"

namespace score_test {

namespace {

using namespace kvevict_test;

std::string data(const std::string& name) { return golden_data().file("gpl3_l09/input/" + name); }

Arguments real_cache(const std::string& policy) {
  return {"--policy", policy, "--keys", data("keys"), "--values", data("values")};
}

Arguments real_queries(const std::string& frame) {
  const Arguments arguments = {"--queries", data("queries_" + frame), "--queries-are", frame};
  if (frame == "post_rope") return arguments;
  return arguments +
         Arguments{"--rope-theta", "1e5", "--rope-pairing", "half", "--next-position", "256"};
}

bool says(const Outcome& outcome, const std::string& part) {
  return outcome.output.find(part) != std::string::npos;
}

// Runs it, requires success, and returns what it printed.
Outcome successful(const Arguments& arguments) {
  const Outcome outcome = run_score(arguments);
  CAPTURE(outcome.errors);
  REQUIRE(outcome.exit_code == 0);
  return outcome;
}

}  // namespace

TEST_CASE("kvevict_score: help names every option, the list every policy") {
  const Outcome help = successful({"--help"});
  for (const std::string option : {"--policy",       "--set",
                                   "--keys",         "--values",
                                   "--queries",      "--queries-are",
                                   "--rope-theta",   "--rope-pairing",
                                   "--rope-dim",     "--next-position",
                                   "--stats-window", "--skip-queries",
                                   "--future",       "--output-projection",
                                   "--query-filter", "--keys-pre-rope",
                                   "--probes",       "--probe-mask",
                                   "--probe-last",   "--probe-sampled",
                                   "--probe-future", "--probe-seed",
                                   "--evict-ratio",  "--keep-rows",
                                   "--keep-bytes",   "--rounding",
                                   "--budget",       "--allow-incomparable",
                                   "--sinks",        "--recent",
                                   "--scores",       "--kept",
                                   "--threads",      "--list-policies",
                                   "--help"}) {
    CAPTURE(option);
    CHECK(says(help, "  " + option + " "));
  }
  const Outcome list = successful({"--list-policies"});
  for (const std::string policy : {"Jacap",
                                   "CapKV",
                                   "SnapKV",
                                   "KeyDiff",
                                   "KNorm",
                                   "H2O",
                                   "ExpectedAttention",
                                   "ProbeAttention",
                                   "DropLoss",
                                   "KVzip",
                                   "RKV",
                                   "NonCausalAttention",
                                   "LeverageScore",
                                   "Compactor",
                                   "TOVA",
                                   "LagKV",
                                   "QFilter",
                                   "CurDKV",
                                   "StreamingLLM",
                                   "Random"}) {
    CAPTURE(policy);
    CHECK(("\n" + list.output).find("\n" + policy + "\n") != std::string::npos);
  }
  CHECK(says(list, "  noise=relative:0.1 "));
}

TEST_CASE("kvevict_score: float32 files give the scores of the same values in float16") {
  const TemporaryFolder folder;
  for (const std::string name : {"keys", "values", "queries_post_rope", "output_projection"}) {
    const NpyArray array = read_npy(data(name));
    REQUIRE(array.type() == NpyType::float16);
    kvevict_score::write_npy(folder / (name + ".npy"), array.values_float(), array.shape());
  }
  const Arguments settings = {"--set", "output_projection=factor"};
  successful(
      real_cache("Jacap") + settings + real_queries("post_rope") +
      Arguments{"--output-projection", data("output_projection"), "--scores", folder / "half.npy"});
  const Outcome wide =
      successful(Arguments{"--policy", "Jacap", "--keys", folder / "keys.npy", "--values",
                           folder / "values.npy", "--queries", folder / "queries_post_rope.npy",
                           "--queries-are", "post_rope", "--output-projection",
                           folder / "output_projection.npy", "--scores", folder / "float.npy"} +
                 settings);
  CHECK(says(wide, "float32"));
  const Comparison comparison =
      compare(read_npy(folder / "float.npy").values_float(),
              read_npy(folder / "half.npy").values_float(), tolerance::float32_solve);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("kvevict_score: a global budget gives one file a head, split by one threshold") {
  const TemporaryFolder folder;
  const Outcome outcome =
      successful(real_cache("SnapKV") + real_queries("post_rope") +
                 Arguments{"--keep-rows", "100", "--budget", "global", "--allow-incomparable",
                           "--scores", folder / "s.npy", "--kept", folder / "out.kept.npy"});
  CHECK_FALSE(std::filesystem::exists(folder / "out.kept.npy"));
  const NpyArray array = read_npy(folder / "s.npy");
  const std::vector<float> scores = array.values_float();
  std::size_t total = 0;
  float worst_kept = std::numeric_limits<float>::infinity();
  float best_dropped = -worst_kept;
  for (std::int64_t h = 0; h < 3; ++h) {
    const std::string file = "out.kept_h" + std::to_string(h) + ".npy";
    CHECK(says(outcome, file));
    const std::vector<std::int32_t> kept = read_npy(folder / file).values_int32();
    REQUIRE(std::is_sorted(kept.begin(), kept.end()));
    total += kept.size();
    for (std::int64_t i = 0; i < array.dim(1); ++i) {
      const float score = scores[static_cast<std::size_t>(h * array.dim(1) + i)];
      const bool is_kept = std::binary_search(kept.begin(), kept.end(), i);
      if (is_kept) worst_kept = std::min(worst_kept, score);
      if (!is_kept) best_dropped = std::max(best_dropped, score);
    }
  }
  CHECK(total == 300);
  CHECK(worst_kept >= best_dropped);
}

TEST_CASE("kvevict_score: evidence follows from the queries and the policy") {
  const TemporaryFolder folder;
  const Arguments scores = {"--scores", folder / "s.npy"};
  const auto prepared = [&](const Arguments& arguments) { return successful(arguments + scores); };
  CHECK(says(prepared(real_cache("KNorm") + real_queries("post_rope")), "policy    KNorm\n"));
  CHECK(says(prepared(real_cache("SnapKV") + real_queries("post_rope")), "256 queries after RoPE"));
  CHECK(says(prepared(real_cache("ExpectedAttention") + real_queries("pre_rope")),
             "covariance full: 252 queries before RoPE, moved to 512 future positions"));
  CHECK(says(prepared(real_cache("CapKV") + real_queries("post_rope")),
             "covariance none: the last 64 queries after RoPE"));
  // Jacap chooses by itself: probes when they can be had.
  CHECK(says(prepared(real_cache("Jacap") + real_queries("pre_rope")), "probes: 192 queries"));
  CHECK(says(prepared(real_cache("Jacap") + real_queries("post_rope")), "covariance diagonal"));
  CHECK(says(prepared(real_cache("Jacap") + Arguments{"--probes", data("probe_queries")}),
             "probes: 64 from the file"));
  CHECK(says(prepared(real_cache("Jacap") + real_queries("pre_rope") +
                      Arguments{"--probe-last", "10", "--probe-sampled", "7"}),
             "probes: 17 queries"));
}

TEST_CASE("kvevict_score: one command line serves every policy that its queries suit") {
  const TemporaryFolder folder;
  const Arguments rest = {"--output-projection",
                          data("output_projection"),
                          "--probe-mask",
                          "none",
                          "--stats-window",
                          "32",
                          "--skip-queries",
                          "4",
                          "--future",
                          "128",
                          "--rope-dim",
                          "64",
                          "--evict-ratio",
                          "0.5",
                          "--rounding",
                          "exact",
                          "--budget",
                          "uniform",
                          "--sinks",
                          "4",
                          "--recent",
                          "32",
                          "--scores",
                          folder / "s.npy",
                          "--kept",
                          folder / "kept.npy"};
  for (const std::string policy :
       {"Jacap", "CapKV", "ExpectedAttention", "KeyDiff", "KNorm", "StreamingLLM", "Random"}) {
    CAPTURE(policy);
    successful(real_cache(policy) + real_queries("pre_rope") + rest);
    const NpyArray kept = read_npy(folder / "kept.npy");
    CHECK(kept.shape() == std::vector<std::int64_t>{3, 128});
    const std::vector<std::int32_t> rows = kept.values_int32();
    CHECK(rows[3] == 3);
    CHECK(rows[96] == 224);
  }
  const Outcome preset = successful(real_cache("Jacap") + real_queries("pre_rope") + rest +
                                    Arguments{"--set", "preset=published"});
  CHECK(says(preset, "temperature=10 covariance=diagonal noise=absolute:1 "));
}

TEST_CASE("kvevict_score: a probe masked by position does not see the rows behind it") {
  const TemporaryFolder folder;
  write_random(folder / "k.npy", 1, {1, 6, 4});
  write_random(folder / "v.npy", 2, {1, 6, 4});
  write_random(folder / "p.npy", 3, {2, 6, 4});
  write_random(folder / "one.npy", 4, {2, 1, 4});
  const auto scores = [&](const std::string& probes, const std::string& mask) {
    successful({"--policy", "Jacap", "--keys", folder / "k.npy", "--values", folder / "v.npy",
                "--probes", folder / probes, "--probe-mask", mask, "--scores", folder / "s.npy"});
    return read_npy(folder / "s.npy").values_float();
  };
  // As many probes as rows: the first one sees the first row alone, which then has p (1 - p) = 0.
  CHECK(scores("p.npy", "by_position") != scores("p.npy", "none"));
  // A single probe stands at the last row and sees all of them.
  CHECK(scores("one.npy", "by_position") == scores("one.npy", "none"));
}

TEST_CASE("kvevict_score: NaN is counted and ranked last") {
  const TemporaryFolder folder;
  std::vector<float> keys(2 * 5 * 4, 1.0F);
  keys[4] = std::nanf("");  // head 0, row 1
  kvevict_score::write_npy(folder / "k.npy", keys, std::vector<std::int64_t>{2, 5, 4});
  write_random(folder / "v.npy", 2, {2, 5, 4});
  const Outcome outcome =
      successful({"--policy", "KNorm", "--keys", folder / "k.npy", "--values", folder / "v.npy",
                  "--keep-rows", "4", "--kept", folder / "kept.npy"});
  CHECK(says(outcome, "1 of 10 scores"));
  CHECK(read_npy(folder / "kept.npy").values_int32() ==
        std::vector<std::int32_t>{0, 2, 3, 4, 0, 1, 2, 3});
}

TEST_CASE("kvevict_score: heads without rows, or with one") {
  const TemporaryFolder folder;
  for (const std::int64_t rows : {0, 1}) {
    CAPTURE(rows);
    write_random(folder / "k.npy", 1, {2, rows, 4});
    write_random(folder / "v.npy", 2, {2, rows, 4});
    for (const std::string policy : {"KNorm", "KeyDiff", "StreamingLLM", "Random"}) {
      CAPTURE(policy);
      successful({"--policy", policy, "--keys", folder / "k.npy", "--values", folder / "v.npy",
                  "--scores", folder / "s.npy", "--evict-ratio", "0.9", "--kept",
                  folder / "kept.npy"});
      CHECK(read_npy(folder / "s.npy").shape() == std::vector<std::int64_t>{2, rows});
      CHECK(read_npy(folder / "kept.npy").shape() == std::vector<std::int64_t>{2, rows});
    }
  }
}

TEST_CASE("kvevict_score: keys and values may have different numbers of channels") {
  const TemporaryFolder folder;
  write_random(folder / "k.npy", 1, {2, 8, 6});
  write_random(folder / "v.npy", 2, {2, 8, 4});
  write_random(folder / "q.npy", 3, {4, 8, 6});
  write_random(folder / "wo.npy", 4, {20, 16});
  const Outcome outcome = successful(
      {"--policy", "Jacap", "--set", "output_projection=factor", "--keys", folder / "k.npy",
       "--values", folder / "v.npy", "--queries", folder / "q.npy", "--queries-are", "post_rope",
       "--output-projection", folder / "wo.npy", "--scores", folder / "s.npy"});
  CHECK(says(outcome, "6 + 4 channels"));
  CHECK(says(outcome, "output projection: 4 query heads"));
}

TEST_CASE("kvevict_score: a budget in bytes counts both keys and values") {
  const TemporaryFolder folder;
  // One row of one head is (64 + 64) * 2 bytes; 301 rows for three heads.
  const Outcome outcome = successful(
      real_cache("KNorm") + Arguments{"--keep-bytes", "77056", "--kept", folder / "k.npy"});
  CHECK(says(outcome, "100 to 101 of 256 rows"));
  CHECK(says(outcome, "77056 of 196608 bytes"));
  CHECK(read_npy(folder / "k_h0.npy").dim(0) == 101);
  CHECK(read_npy(folder / "k_h2.npy").dim(0) == 100);
}

}  // namespace score_test
