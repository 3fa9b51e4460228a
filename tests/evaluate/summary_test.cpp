// SPDX-License-Identifier: Apache-2.0
#include "kvevict_evaluate/summary.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "catch.hpp"
#include "kvevict_evaluate/text_list.hpp"
#include "model_eviction/metrics.hpp"

namespace summary_test {

namespace {

using namespace evaluate;

Cell cell_of(const std::string& context, const std::string& policy, double error, double kl,
             const std::string& budget = "uniform", const std::string& refit = "none") {
  Cell cell;
  cell.model = "tiny";
  cell.context = context;
  cell.queries = "agnostic";
  cell.policy = policy;
  cell.budget = budget;
  cell.refit = refit;
  cell.evict_ratio = policy == "full" ? 0.0 : 0.75;
  cell.error = error;
  cell.mean_kl = kl;
  return cell;
}

const SummaryRow& row_of(const std::vector<SummaryRow>& rows, const std::string& policy,
                         const std::string& budget = "uniform") {
  return *std::find_if(rows.begin(), rows.end(), [&](const SummaryRow& row) {
    return row.name.policy == policy && row.name.budget == budget;
  });
}

}  // namespace

TEST_CASE("a quantile is the value that the share does not exceed", "[evaluate]") {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  CHECK(demo::quantile(values, 0.99) == 99.0);
  CHECK(demo::quantile(values, 1.0) == 100.0);
  CHECK(demo::quantile(values, 0.5) == 50.0);
  CHECK(demo::quantile(values, 0.001) == 1.0);
  CHECK(demo::quantile({3.0}, 0.99) == 3.0);
  CHECK(demo::quantile({1.0, 2.0}, 0.51) == 2.0);
}

TEST_CASE("the bootstrap's interval is about the mean", "[evaluate]") {
  CHECK(std::isnan(bootstrap_mean({}).value));
  const std::vector<double> constant(7, 0.3);
  const Estimate same = bootstrap_mean(constant);
  CHECK(same.value == Approx(0.3));
  CHECK(same.low == Approx(0.3));
  CHECK(same.high == Approx(0.3));

  std::vector<double> values;
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) values.push_back(static_cast<double>(random() % 1000) / 1000.0);
  const Estimate estimate = bootstrap_mean(values);
  double mean = 0.0;
  double square = 0.0;
  for (const double value : values) mean += value / 400.0;
  for (const double value : values) square += (value - mean) * (value - mean) / 400.0;
  // Normal by the central limit theorem; 10,000 resamples place a 2.5 % quantile to about 3 % of
  // its distance.
  const double distance = 1.96 * std::sqrt(square / 400.0);
  CHECK(estimate.value == Approx(mean));
  CHECK(estimate.low == Approx(mean - distance).margin(0.1 * distance));
  CHECK(estimate.high == Approx(mean + distance).margin(0.1 * distance));

  const Estimate again = bootstrap_mean(values);
  CHECK(again.low == estimate.low);
  CHECK(again.high == estimate.high);
  CHECK(bootstrap_mean(values, 1).low != estimate.low);
}

TEST_CASE("a summary places policies between Random and the Oracle", "[evaluate]") {
  std::vector<Cell> cells;
  for (const std::string context : {"a", "b"}) {
    const double scale = context == "a" ? 1.0 : 3.0;
    cells.push_back(cell_of(context, "full", 0.0, 0.0));
    cells.push_back(cell_of(context, "Random", 0.5 * scale, 0.4));
    cells.push_back(cell_of(context, "Oracle", 0.1 * scale, 0.001));
    cells.push_back(cell_of(context, "SnapKV", 0.3 * scale, 0.1 * scale));
    cells.push_back(cell_of(context, "Jacap", 0.2 * scale, context == "a" ? 0.025 : 0.3));
    cells.push_back(cell_of(context, "Jacap", 0.05 * scale, 0.01 * scale, "global"));
  }
  // A context without the others: nothing to compare with.
  cells.push_back(cell_of("c", "Jacap", 0.7, 0.5));

  const std::vector<SummaryRow> rows = summarise(cells);
  REQUIRE(rows.size() == 6);
  CHECK(rows[0].name.policy == "full");
  CHECK(row_of(rows, "Random").recovered.value == Approx(0.0).margin(1e-12));
  CHECK(row_of(rows, "Oracle").recovered.value == Approx(1.0));
  CHECK(row_of(rows, "SnapKV").recovered.value == Approx(0.5));
  CHECK(row_of(rows, "SnapKV").kl_ratio.value == Approx(1.0));
  CHECK(row_of(rows, "SnapKV").kl_ratio.low == Approx(1.0));
  CHECK(row_of(rows, "SnapKV").mean_kl == Approx(std::sqrt(0.1 * 0.3)));
  const SummaryRow& jacap = row_of(rows, "Jacap");
  CHECK(jacap.contexts == 3);
  CHECK(jacap.recovered.value == Approx(0.75));
  CHECK(jacap.kl_ratio.value == Approx(std::sqrt(0.25 * 1.0)));
  CHECK(jacap.kl_ratio.low == Approx(0.25));
  CHECK(jacap.kl_ratio.high == Approx(1.0));
  // A global budget too is compared with SnapKV's uniform one.
  CHECK(row_of(rows, "Jacap", "global").kl_ratio.value == Approx(0.1));
  CHECK(row_of(rows, "Jacap", "global").recovered.value == Approx(1.125));
  CHECK(jacap.worst_kl == 0.5);
  CHECK(jacap.worst_ratio == Approx(1.0));
  CHECK(jacap.worst_context == "b");
  CHECK(row_of(rows, "Jacap").answers == 0);
  CHECK(std::isnan(jacap.answer_difference.value));
}

TEST_CASE("contexts for tuning and for confirming are summarised apart when asked", "[evaluate]") {
  std::vector<Cell> cells;
  for (const std::string context : {"a", "b", "c"}) {
    for (const std::string policy : {"SnapKV", "Jacap"}) {
      cells.push_back(cell_of(context, policy, 0.3, policy == "SnapKV" ? 0.1 : 0.05));
      cells.back().use = context == "a" ? "tuning" : "confirming";
    }
  }
  cells[1].mean_kl = 0.4;
  CHECK(summarise(cells).size() == 2);
  const std::vector<SummaryRow> rows = summarise(cells, true);
  REQUIRE(rows.size() == 4);
  CHECK(rows[1].name.policy == "Jacap");
  CHECK(rows[1].name.use == "tuning");
  CHECK(rows[1].contexts == 1);
  CHECK(rows[1].kl_ratio.value == Approx(4.0));
  CHECK(rows[3].name.use == "confirming");
  CHECK(rows[3].contexts == 2);
  CHECK(rows[3].kl_ratio.value == Approx(0.5));
}

TEST_CASE("answers are compared with the full cache's, by their own context", "[evaluate]") {
  std::vector<Cell> cells = {cell_of("a", "full", 0.0, 0.0), cell_of("a", "Random", 0.5, 0.4),
                             cell_of("b", "full", 0.0, 0.0), cell_of("b", "Random", 0.5, 0.4)};
  cells[0].answers = {{0.1, -0.1, 1.0}, {0.9, -0.3, 1.0}};
  cells[1].answers = {{0.1, -2.1, 0.25}, {0.9, -0.3, 0.75}};
  cells[2].answers = {{0.5, -0.5, 1.0}};
  cells[3].answers = {{0.5, -0.5, 0.1}};
  const std::vector<SummaryRow> rows = summarise(cells);
  const SummaryRow& random = row_of(rows, "Random");
  CHECK(random.answers == 3);
  CHECK(random.answer_difference.value == Approx(-0.5));
  CHECK(random.answer_survival == Approx(0.3));
  CHECK(random.name.kind == "tasks");
  CHECK(row_of(rows, "full").answer_difference.value == Approx(0.0).margin(1e-12));
}

TEST_CASE("a summary's files have a line for each row", "[evaluate]") {
  const std::vector<Cell> cells = {cell_of("a", "full", 0.0, 0.0),
                                   cell_of("a", "Random", 0.5, 0.4)};
  const std::vector<SummaryRow> rows = summarise(cells);
  std::ostringstream csv;
  write_summary_csv(csv, rows);
  const std::vector<std::string> lines = split(csv.str(), '\n');
  REQUIRE(lines.size() == 4);  // the last is empty
  for (int i = 1; i < 3; ++i) {
    CHECK(split(lines[static_cast<std::size_t>(i)], ',').size() == split(lines[0], ',').size());
  }
  std::ostringstream json;
  write_json(json, cells);
  CHECK(json.str() == "[\n  " + json_object(cells[0]) + ",\n  " + json_object(cells[1]) + "\n]\n");
}

}  // namespace summary_test
