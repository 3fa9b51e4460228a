// SPDX-License-Identifier: Apache-2.0
// What kvevict_score says about a command line or a file that it cannot use.
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kvevict_score/npy.hpp"
#include "program.hpp"

namespace {

using namespace kvevict_test;

// Two KV heads of 8 rows with 4 channels, four query heads; rows and queries match.
class Files {
 public:
  Files() {
    write_random(folder / "k.npy", 1, {2, 8, 4});
    write_random(folder / "v.npy", 2, {2, 8, 4});
    write_random(folder / "q.npy", 3, {4, 8, 4});
    write_random(folder / "wo.npy", 4, {16, 16});
  }

  Arguments cache(const std::string& policy) const {
    return {"--policy", policy, "--keys", folder / "k.npy", "--values", folder / "v.npy"};
  }
  Arguments post_rope() const {
    return {"--queries", folder / "q.npy", "--queries-are", "post_rope"};
  }
  Arguments pre_rope() const {
    return {"--queries", folder / "q.npy", "--queries-are", "pre_rope",        "--rope-theta",
            "1e4",       "--rope-pairing", "adjacent",      "--next-position", "8"};
  }
  Arguments scores() const { return {"--scores", folder / "s.npy"}; }

  TemporaryFolder folder;
};

// The run fails with this code, says all of these things, and has written no result.
void check_failure(const Files& files, const Arguments& arguments, int exit_code,
                   const std::vector<std::string>& parts) {
  const Outcome outcome = run_score(arguments);
  CAPTURE(arguments, outcome.output, outcome.errors);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.errors.starts_with("kvevict_score: "));
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(outcome.errors.find(part) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(files.folder / "s.npy"));
  CHECK_FALSE(std::filesystem::exists(files.folder / "kept.npy"));
}

}  // namespace

TEST_CASE("kvevict_score: options that are wrong, with exit code 2") {
  const Files files;
  const Arguments base = files.cache("KNorm") + files.scores();
  const auto refused = [&](const Arguments& arguments, const std::vector<std::string>& parts) {
    check_failure(files, arguments, 2, parts);
  };
  refused({}, {"--policy is missing"});
  refused({"--policy", "KNorm"}, {"--keys is missing"});
  refused(base + Arguments{"--ratio", "0.5"}, {"'--ratio'", "--evict-ratio", "--keep-rows"});
  refused(base + Arguments{"stray"}, {"'stray'"});
  refused(base + Arguments{"--help=yes"}, {"--help takes no value"});
  refused(base + Arguments{"--keys="}, {"--keys is empty"});
  refused(base + Arguments{"--evict-ratio", "half"}, {"--evict-ratio", "'half'", "a number"});
  refused(base + Arguments{"--evict-ratio", "1.5"}, {"--evict-ratio", "1.5", "[0, 1]"});
  refused(base + Arguments{"--evict-ratio", "nan"}, {"--evict-ratio", "[0, 1]"});
  refused(base + Arguments{"--keep-rows", "4.5"}, {"--keep-rows", "'4.5'", "an integer"});
  refused(base + Arguments{"--keep-rows", "-1"}, {"--keep-rows", "-1", ">= 0"});
  refused(base + Arguments{"--keep-bytes", "99999999999999999999"}, {"--keep-bytes"});
  refused(base + Arguments{"--sinks", "-4"}, {"--sinks", "-4", ">= 0"});
  refused(base + Arguments{"--recent=-1"}, {"--recent", "-1"});
  refused(base + Arguments{"--future", "0"}, {"--future", "0", ">= 1"});
  refused(base + Arguments{"--rounding", "up"}, {"'up'", "exact, reference"});
  refused(base + Arguments{"--budget", "shared"}, {"'shared'", "uniform, global"});
  refused(base + Arguments{"--queries-are", "raw"}, {"'raw'", "pre_rope, post_rope"});
  refused(base + Arguments{"--rope-pairing", "odd"}, {"'odd'", "half, adjacent"});
  refused(base + Arguments{"--probe-mask", "causal"}, {"'causal'", "none, by_position"});
  refused(base + Arguments{"--queries", files.folder / "q.npy"}, {"--queries-are is missing"});
  refused(base + Arguments{"--keep-rows", "4", "--evict-ratio", "0.5"}, {"exclude each other"});
  refused(files.cache("KNorm"), {"nothing to do"});
  refused(files.cache("KNorm") + Arguments{"--kept", files.folder / "kept.npy"},
          {"--kept needs a budget"});
}

TEST_CASE("kvevict_score: a last option without its value, with exit code 2") {
  // run_score puts options behind the given ones, so the missing value has to be theirs.
  const Outcome outcome = run_score({"--policy", "KNorm", "--threads"});
  CAPTURE(outcome.errors);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.errors.find("--threads is '--threads', must be an integer") != std::string::npos);
}

TEST_CASE("kvevict_score: policies and parameters that do not exist, with exit code 2") {
  const Files files;
  const auto refused = [&](const Arguments& arguments, const std::vector<std::string>& parts) {
    check_failure(files, arguments + files.scores(), 2, parts);
  };
  refused(files.cache("Jakap"), {"'Jakap'", "Jacap", "CapKV", "SnapKV", "StreamingLLM"});
  refused(files.cache("Jacap") + Arguments{"--set", "tau=1"}, {"'tau'", "temperature", "noise"});
  refused(files.cache("Jacap") + Arguments{"--set", "temperature"}, {"name=value"});
  refused(files.cache("Jacap") + Arguments{"--set", "temperature=0"}, {"temperature", "> 0"});
  refused(files.cache("Jacap") + Arguments{"--set", "covariance=some"},
          {"'some'", "none, diagonal, full"});
  refused(files.cache("KNorm") + Arguments{"--set", "p=2"}, {"'p'", "none"});
}

TEST_CASE("kvevict_score: evidence that was not given, with exit code 2") {
  const Files files;
  const auto refused = [&](const Arguments& arguments, const std::vector<std::string>& parts) {
    check_failure(files, arguments + files.scores(), 2, parts);
  };
  refused(files.cache("SnapKV"), {"SnapKV", "--queries", "post_rope"});
  refused(files.cache("SnapKV") + files.pre_rope(), {"SnapKV", "post_rope"});
  refused(files.cache("H2O") + files.pre_rope(), {"H2O", "post_rope"});
  refused(files.cache("CapKV"), {"CapKV", "--queries"});
  refused(files.cache("Jacap"), {"Jacap", "--queries"});
  refused(files.cache("Jacap") + Arguments{"--set", "evidence=probes"} + files.post_rope(),
          {"Jacap", "--probes", "pre_rope"});
  refused(files.cache("Jacap") + Arguments{"--set", "output_projection=factor"} + files.post_rope(),
          {"Jacap", "--output-projection"});
  const Arguments bare = {"--queries", files.folder / "q.npy", "--queries-are", "pre_rope"};
  for (const std::string policy : {"Jacap", "CapKV"}) {
    refused(files.cache(policy) + bare, {"--rope-theta", "--rope-pairing", "--next-position"});
  }
}

TEST_CASE("kvevict_score: arrays that do not fit each other, with exit code 1") {
  const Files files;
  const TemporaryFolder& folder = files.folder;
  const auto refused = [&](const Arguments& arguments, const std::vector<std::string>& parts) {
    check_failure(files, arguments + files.scores(), 1, parts);
  };
  const auto with = [&](const std::string& option, const std::string& file,
                        std::initializer_list<std::int64_t> shape) {
    return Arguments{option, write_random(folder / file, 9, shape)};
  };
  const Arguments norm = files.cache("KNorm");
  refused(norm + Arguments{"--keys", folder / "absent.npy"}, {"absent.npy", "does not exist"});
  refused(norm + with("--keys", "flat.npy", {16, 4}), {"flat.npy", "[16, 4]", "kv_head, row, dim"});
  refused(norm + with("--keys", "none.npy", {0, 8, 4}), {"none.npy", "at least one head"});
  refused(norm + with("--keys", "thin.npy", {2, 8, 0}), {"thin.npy", "channel"});
  refused(norm + with("--values", "v3.npy", {3, 8, 4}), {"v3.npy", "3 heads", "k.npy, 2"});
  refused(norm + with("--values", "v9.npy", {2, 9, 4}), {"v9.npy", "9 rows", "k.npy, 8"});

  const Arguments window = files.cache("SnapKV") + files.post_rope();
  refused(window + with("--queries", "q5.npy", {4, 8, 5}), {"q5.npy", "5 channels", "k.npy, 4"});
  refused(window + with("--queries", "q3.npy", {3, 8, 4}), {"q3.npy", "3 query heads", "2"});
  refused(window + with("--queries", "q9.npy", {4, 9, 4}), {"q9.npy", "9 queries", "8"});
  refused(window + with("--queries", "q0.npy", {4, 0, 4}), {"q0.npy", "0 queries", "at least 1"});

  const Arguments stats = files.cache("CapKV");
  refused(stats + files.post_rope() + Arguments{"--stats-window", "9"},
          {"q.npy", "8 queries", "--stats-window, 9"});
  refused(stats + files.pre_rope() + Arguments{"--skip-queries", "8"},
          {"q.npy", "8 queries", "at least 9", "--skip-queries"});
  refused(stats + files.pre_rope() + Arguments{"--rope-dim", "5"}, {"rotary_dim", "5"});
  refused(stats + files.pre_rope() + Arguments{"--rope-theta", "-1"}, {"theta", "-1"});

  const Arguments projected =
      files.cache("Jacap") + files.post_rope() + Arguments{"--set", "output_projection=factor"};
  refused(projected + with("--output-projection", "w15.npy", {16, 15}), {"w15.npy", "15 columns"});
  refused(projected + with("--output-projection", "w12.npy", {16, 12}), {"w12.npy", "12 columns"});
  refused(projected + with("--output-projection", "w8.npy", {16, 8}),
          {"w8.npy", "2 query heads", "q.npy, 4"});
  refused(projected + with("--output-projection", "w.npy", {16}), {"w.npy", "[hidden, "});
}

TEST_CASE("kvevict_score: files that are damaged or of another type, with exit code 1") {
  const Files files;
  const TemporaryFolder& folder = files.folder;
  const auto refused = [&](const std::string& file, const std::vector<std::string>& parts) {
    check_failure(files, files.cache("KNorm") + Arguments{"--values", file} + files.scores(), 1,
                  parts);
  };
  const auto with_header = [&](const std::string& descr, const std::string& order) {
    std::string header =
        "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (2, 8, 4), }\n";
    return write_file(folder / "odd.npy", std::string("\x93NUMPY\x01") + '\0' +
                                              static_cast<char>(header.size()) + '\0' + header +
                                              std::string(256, '\0'));
  };
  refused(with_header("<f2", "False"), {"odd.npy", "holds 256 bytes of data", "needs 128"});
  refused(with_header(">f4", "False"), {"odd.npy", "big-endian"});
  refused(with_header("<f4", "True"), {"odd.npy", "Fortran order"});
  refused(with_header("<f8", "False"), {"odd.npy", "'<f8'", "float16"});
  refused(write_file(folder / "text.npy", "1 2 3\n"), {"text.npy", "not a NumPy file"});
  refused(folder / ".", {"not a regular file"});

  std::string half_header = "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 8, 4), }\n";
  refused(write_file(folder / "half.npy", std::string("\x93NUMPY\x01") + '\0' +
                                              static_cast<char>(half_header.size()) + '\0' +
                                              half_header + std::string(128, '\0')),
          {"half.npy", "float16", "k.npy"});
}

TEST_CASE("kvevict_score: budgets that cannot be met, with exit code 1") {
  const Files files;
  const auto refused = [&](const Arguments& arguments, const std::vector<std::string>& parts) {
    check_failure(files,
                  files.cache("KNorm") + arguments + Arguments{"--kept", files.folder / "kept.npy"},
                  1, parts);
  };
  refused({"--keep-rows", "3", "--sinks", "2", "--recent", "2"}, {"budget", "4", "3"});
  refused({"--keep-bytes", "40"}, {"budget.bytes", "40", "one row of each head"});
  refused({"--keep-rows", "4", "--budget", "global"}, {"GlobalBudget", "allow_incomparable"});
  check_failure(files,
                files.cache("KNorm") +
                    Arguments{"--keep-rows", "4", "--kept", files.folder / "absent/kept.npy"},
                1, {"absent/kept.npy", "cannot be opened"});
}
