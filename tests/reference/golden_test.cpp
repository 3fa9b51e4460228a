// SPDX-License-Identifier: Apache-2.0
// The stored reference data and these loops must tell the same story before either judges the
// library.
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "reference/reference.hpp"
#include "support/golden.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {

// Both sides are double here; the stored one was rounded once to float32 after another order of
// summation and another factorisation.
constexpr Tolerance float64_stored_as_float32{1e-6, 1e-12};

Tolerance tolerance_of(const GoldenEntry& entry) {
  return entry.source == "float64" ? float64_stored_as_float32 : entry.tolerance;
}

Comparison compare_scores(const GoldenData& data, const GoldenEntry& entry, const Scores& scores) {
  const NpyArray array = data.array(entry.id);
  const std::vector<double> want = array.values_double();
  const std::int64_t rows = array.dim(1);
  Comparison comparison;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    for (std::int64_t row = entry.forced_first; row < rows - entry.forced_last; ++row) {
      add(comparison, scores[head].at(static_cast<std::size_t>(row)),
          want.at(head * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row)),
          tolerance_of(entry));
    }
  }
  return comparison;
}

std::vector<double> flattened(const std::vector<std::vector<double>>& values) {
  std::vector<double> out;
  for (const std::vector<double>& part : values) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// Scores of an entry; a kept set has those of the score entry with the same line, computed once.
const Scores& scores_of(const GoldenData& data, const GoldenEntry& entry) {
  static std::map<std::tuple<std::string, std::string, Pairs, Pairs>, Scores> known;
  const auto [place, is_new] = known.try_emplace(
      {entry.case_name(), entry.policy, entry.parameters, entry.evidence}, Scores());
  if (is_new) {
    place->second = score(entry.policy, entry.parameters, golden_inputs(data, entry));
  }
  return place->second;
}

std::vector<std::vector<std::int32_t>> select(const GoldenEntry& entry, const Scores& scores) {
  std::vector<Rows> fixed;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    Positions positions(scores[head].size());
    std::iota(positions.begin(), positions.end(), std::int64_t{0});
    fixed.push_back(protected_rows(positions, required_integer(entry.selection, "sinks"),
                                   required_integer(entry.selection, "recent")));
  }
  std::vector<Rows> kept;
  const auto rows = static_cast<std::size_t>(required_integer(entry.selection, "rows"));
  if (required(entry.selection, "budget") == "global") {
    kept = select_global(scores, rows, fixed, 0, scores[0].size());
  } else {
    for (std::size_t head = 0; head < scores.size(); ++head) {
      kept.push_back(select_top(scores[head], rows, fixed[head]));
    }
  }
  std::vector<std::vector<std::int32_t>> out;
  for (const Rows& head : kept) out.emplace_back(head.begin(), head.end());
  return out;
}

}  // namespace

TEST_CASE("stored scores are reproduced") {
  const GoldenData& data = golden_data();
  std::size_t count = 0;
  for (const GoldenEntry& entry : data.entries("score")) {
    const Comparison comparison = compare_scores(data, entry, scores_of(data, entry));
    INFO(entry.id << ": " << comparison.describe());
    CHECK(comparison.within());
    CHECK(comparison.size >= 3 * (256 - 128));
    ++count;
  }
  CHECK(count == 138);
}

TEST_CASE("stored kept sets are reproduced exactly") {
  const GoldenData& data = golden_data();
  std::size_t count = 0;
  for (const GoldenEntry& entry : data.entries("kept")) {
    INFO(entry.id);
    CHECK(select(entry, scores_of(data, entry)) == kept_rows(data, entry));
    const std::int64_t rows = 256;
    const double ratio = required_number(entry.selection, "evict_ratio");
    const std::int64_t heads = required(entry.selection, "budget") == "global" ? 3 : 1;
    CHECK(heads * reference_kept_rows(rows, ratio) == required_integer(entry.selection, "rows"));
    CHECK(exact_kept_rows(rows, ratio) == reference_kept_rows(rows, ratio));
    ++count;
  }
  CHECK(count == 205);
}

TEST_CASE("stored query statistics and rotations are reproduced") {
  const GoldenData& data = golden_data();
  for (const char* const name : {"gpl3_l09", "code_l17"}) {
    const std::string folder = std::string(name) + "/";
    const Heads queries = golden_heads(data, folder + "input/queries_pre_rope");
    const std::size_t dim = queries[0].cols;

    const GoldenEntry& mean_entry = data.entry(folder + "tensor/query_mean");
    const Rope rope = golden_rope(mean_entry.evidence, dim);
    const QueryStats stats = future_query_stats(
        queries, static_cast<std::size_t>(required_integer(mean_entry.evidence, "skip_first")),
        required_integer(mean_entry.evidence, "next_position"),
        required_integer(mean_entry.evidence, "future"), rope);
    const Comparison means = compare(
        flattened(stats.mean), data.array(mean_entry.id).values_double(), mean_entry.tolerance);
    INFO(mean_entry.id << ": " << means.describe());
    CHECK(means.within());

    const GoldenEntry& rotation_entry = data.entry(folder + "tensor/mean_rotation");
    const Comparison rotation =
        compare(mean_rotation(rope, required_integer(rotation_entry.evidence, "next_position"),
                              required_integer(rotation_entry.evidence, "future"), dim)
                    .data,
                data.array(rotation_entry.id).values_double(), rotation_entry.tolerance);
    INFO(rotation_entry.id << ": " << rotation.describe());
    CHECK(rotation.within());

    const GoldenEntry& rotated_entry = data.entry(folder + "tensor/rotated_queries");
    const Heads want = golden_heads(data, rotated_entry.id);
    for (std::size_t h = 0; h < queries.size(); ++h) {
      const std::size_t first = queries[h].rows - want[h].rows;
      Matrix last(want[h].rows, dim);
      Positions positions;
      for (std::size_t i = 0; i < last.rows; ++i) {
        positions.push_back(static_cast<std::int64_t>(first + i));
        for (std::size_t c = 0; c < dim; ++c) last(i, c) = queries[h](first + i, c);
      }
      const Comparison turned =
          compare(rotated(last, positions, rope).data, want[h].data, rotated_entry.tolerance);
      INFO(rotated_entry.id << " head " << h << ": " << turned.describe());
      CHECK(turned.within());
    }
  }
}

TEST_CASE("the stored query covariance is reproduced") {
  const GoldenData& data = golden_data();
  const GoldenEntry& entry = data.entry("gpl3_l09/tensor/query_covariance");
  const Heads queries = golden_heads(data, "gpl3_l09/input/queries_pre_rope");
  const QueryStats stats = future_query_stats(
      queries, static_cast<std::size_t>(required_integer(entry.evidence, "skip_first")),
      required_integer(entry.evidence, "next_position"), required_integer(entry.evidence, "future"),
      golden_rope(entry.evidence, queries[0].cols));
  std::vector<double> got;
  for (const Matrix& head : stats.covariance) {
    got.insert(got.end(), head.data.begin(), head.data.end());
  }
  const Comparison comparison = compare(got, data.array(entry.id).values_double(), entry.tolerance);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("stored probe queries are the rotated queries of their rows") {
  const GoldenData& data = golden_data();
  for (const GoldenEntry& entry : data.entries("tensor")) {
    if (entry.evidence.count("kind") == 0 || entry.evidence.at("kind") != "future_probes") continue;
    const std::string folder = entry.case_name() + "/input/";
    const Heads queries = golden_heads(data, folder + "queries_pre_rope");
    const std::vector<std::int32_t> rows = data.array(folder + "probe_rows").values_int32();
    const Heads got = future_probes(queries, Rows(rows.begin(), rows.end()),
                                    data.array(folder + "probe_positions").values_int64(),
                                    golden_rope(entry.evidence, queries[0].cols));
    const Heads want = golden_heads(data, entry.id);
    for (std::size_t h = 0; h < want.size(); ++h) {
      const Comparison comparison = compare(got[h].data, want[h].data, float64_stored_as_float32);
      INFO(entry.id << " head " << h << ": " << comparison.describe());
      CHECK(comparison.within());
    }
  }
}

TEST_CASE("the stored decoding run of H2O is reproduced step by step") {
  const GoldenData& data = golden_data();
  std::size_t runs = 0;
  for (const GoldenEntry& entry : data.entries("table", "H2O")) {
    const auto steps = static_cast<std::size_t>(required_integer(entry.selection, "steps"));
    const auto heavy = static_cast<std::size_t>(required_integer(entry.selection, "heavy"));
    const auto recent = static_cast<std::size_t>(required_integer(entry.selection, "recent"));
    const H2ODecode got = h2o_decode(H2O{}, golden_inputs(data, entry), steps, heavy, recent);
    const std::vector<std::int64_t> want = data.array(entry.id).values_int64();
    std::vector<std::int64_t> padded;
    for (const std::vector<Positions>& head : got.kept) {
      for (Positions rows : head) {
        rows.resize(heavy + recent, -1);
        padded.insert(padded.end(), rows.begin(), rows.end());
      }
    }
    INFO(entry.id);
    CHECK(padded == want);
    const GoldenEntry& mass = data.entry(entry.case_name() + "/tensor/h2o_decode_mass");
    const Comparison comparison = compare(flattened(got.final_scores),
                                          data.array(mass.id).values_double(), tolerance_of(mass));
    INFO(comparison.describe());
    CHECK(comparison.within());
    ++runs;
  }
  CHECK(runs == 2);
}

TEST_CASE("the stored orders of selection are reproduced") {
  const GoldenData& data = golden_data();
  const NpyArray scores = data.array("tables/select_scores");
  const std::vector<double> values = scores.values_double();
  const std::vector<std::int64_t> order = data.array("tables/select_order").values_int64();
  const std::vector<std::int64_t> kept = data.array("tables/select_kept").values_int64();
  const std::vector<std::int64_t> counts =
      required_list(data.entry("tables/select_kept").selection, "counts");
  const auto rows = static_cast<std::size_t>(scores.dim(1));
  std::size_t next_kept = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(scores.dim(0)); ++i) {
    INFO("case " << i);
    const std::vector<double> one(values.begin() + static_cast<std::ptrdiff_t>(i * rows),
                                  values.begin() + static_cast<std::ptrdiff_t>((i + 1) * rows));
    const Rows got = selection_order(one);
    CHECK(std::vector<std::int64_t>(got.begin(), got.end()) ==
          std::vector<std::int64_t>(order.begin() + static_cast<std::ptrdiff_t>(i * rows),
                                    order.begin() + static_cast<std::ptrdiff_t>((i + 1) * rows)));
    for (const std::int64_t count : counts) {
      for (const std::size_t row : select_top(one, static_cast<std::size_t>(count), {})) {
        CHECK(static_cast<std::int64_t>(row) == kept.at(next_kept++));
      }
    }
  }
  CHECK(next_kept == kept.size());
}

TEST_CASE("the stored roundings of kvpress are reproduced") {
  const NpyArray table = golden_data().array("tables/reference_rounding");
  const std::vector<double> values = table.values_double();
  std::size_t below_exact = 0;
  for (std::size_t i = 0; i < values.size(); i += 3) {
    const auto rows = static_cast<std::int64_t>(values[i]);
    INFO("rows " << rows << " ratio " << values[i + 1]);
    CHECK(reference_kept_rows(rows, values[i + 1]) == static_cast<std::int64_t>(values[i + 2]));
    const std::int64_t exact = exact_kept_rows(rows, values[i + 1]);
    if (exact > reference_kept_rows(rows, values[i + 1])) ++below_exact;
  }
  CHECK(below_exact > 0);
}
