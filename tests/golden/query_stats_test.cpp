// SPDX-License-Identifier: Apache-2.0
// Statistics of the queries, rotations and probes.
#include <string>
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/probes.hpp"
#include "support/backend.hpp"

namespace query_stats_test {

using namespace kvevict_test;

namespace {

constexpr std::int64_t heads = GoldenCase::query_heads;
constexpr std::int64_t dim = GoldenCase::dim;

void check(const GoldenEntry& entry, const std::vector<float>& got,
           const std::vector<double>& want) {
  const Comparison comparison = compare(got, want, entry.tolerance);
  INFO(entry.id << ": " << comparison.describe());
  CHECK(comparison.within());
}

}  // namespace

TEST_CASE("golden: the mean of future queries", "[golden]") {
  for (const char* const name : {"gpl3_l09", "code_l17"}) {
    const GoldenEntry& entry = golden_data().entry(std::string(name) + "/tensor/query_mean");
    for (const auto covariance : {kvevict::Covariance::none, kvevict::Covariance::full}) {
      kvevict::QueryStats& stats = golden_case(entry).stats(entry.evidence, covariance);
      check(entry, {stats.mean(0), stats.mean(0) + heads * dim},
            golden_data().array(entry.id).values_double());
    }
  }
}

TEST_CASE("golden: the covariance of future queries, whole and diagonal", "[golden]") {
  const GoldenEntry& entry = golden_data().entry("gpl3_l09/tensor/query_covariance");
  const std::vector<double> want = golden_data().array(entry.id).values_double();
  kvevict::QueryStats& full = golden_case(entry).stats(entry.evidence, kvevict::Covariance::full);
  check(entry, {full.second(0), full.second(0) + heads * dim * dim}, want);
  kvevict::QueryStats& diagonal =
      golden_case(entry).stats(entry.evidence, kvevict::Covariance::diagonal);
  std::vector<double> variances;
  for (std::int64_t i = 0; i < heads * dim; ++i) {
    variances.push_back(want[static_cast<std::size_t>(i * dim + i % dim)]);
  }
  check(entry, {diagonal.second(0), diagonal.second(0) + heads * dim}, variances);
}

TEST_CASE("golden: the average of the future rotations", "[golden]") {
  for (const char* const name : {"gpl3_l09", "code_l17"}) {
    const GoldenEntry& entry = golden_data().entry(std::string(name) + "/tensor/mean_rotation");
    const kvevict::Rope rope = golden_rope(entry.evidence);
    const kvevict::MeanRotation rotation =
        kvevict::mean_rotation(rope, dim,
                               {.next_position = required_integer(entry.evidence, "next_position"),
                                .future = required_integer(entry.evidence, "future")});
    std::vector<float> matrix(static_cast<std::size_t>(dim * dim), 0.0f);
    const auto set = [&](std::int64_t row, std::int64_t column, double value) {
      matrix[static_cast<std::size_t>(row * dim + column)] = static_cast<float>(value);
    };
    for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
      const std::int64_t a = rope.first_channel(pair);
      const std::int64_t b = rope.second_channel(pair, dim);
      const auto p = static_cast<std::size_t>(pair);
      set(a, a, rotation.cosine[p]);
      set(b, b, rotation.cosine[p]);
      set(a, b, -rotation.sine[p]);
      set(b, a, rotation.sine[p]);
    }
    check(entry, matrix, golden_data().array(entry.id).values_double());
  }
}

TEST_CASE("golden: queries rotated to their own positions", "[golden]") {
  TestResources res({.threads = 2});
  for (const char* const name : {"gpl3_l09", "code_l17"}) {
    const GoldenEntry& entry = golden_data().entry(std::string(name) + "/tensor/rotated_queries");
    const auto window = static_cast<std::int32_t>(required_integer(entry.evidence, "window"));
    kvevict::ProbePlan plan;
    for (std::int32_t i = 0; i < window; ++i) {
      plan.rows.push_back(static_cast<std::int32_t>(GoldenCase::rows) - window + i);
    }
    plan.positions = plan.rows;
    kvevict::Probes rotated = kvevict::rotate_probes(res, golden_case(entry).queries_before_rope(),
                                                     golden_rope(entry.evidence), plan);
    const kvevict::MatrixBatchView<float> queries = rotated.queries();
    check(entry, {queries.data, queries.data + queries.size()},
          golden_data().array(entry.id).values_double());
  }
}

TEST_CASE("golden: probes are queries of the context at positions of the future", "[golden]") {
  TestResources res({.threads = 2});
  for (const char* const name : {"gpl3_l09", "code_l17"}) {
    const std::string folder = std::string(name) + "/input/";
    const GoldenEntry& entry = golden_data().entry(folder + "probe_queries");
    const kvevict::ProbePlan plan{golden_data().array(folder + "probe_rows").values_int32(),
                                  golden_data().array(folder + "probe_positions").values_int32()};
    kvevict::Probes probes = kvevict::rotate_probes(res, golden_case(entry).queries_before_rope(),
                                                    golden_rope(entry.evidence), plan);
    const kvevict::MatrixBatchView<float> queries = probes.queries();
    check(entry, {queries.data, queries.data + queries.size()},
          golden_data().array(entry.id).values_double());
  }
}

}  // namespace query_stats_test
