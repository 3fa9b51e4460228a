// SPDX-License-Identifier: Apache-2.0
#include "kvevict_evaluate/results.hpp"

#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "catch.hpp"
#include "support/temporary_folder.hpp"

namespace results_test {

namespace {

using namespace evaluate;

Cell example() {
  Cell cell;
  cell.model = "tiny";
  cell.context = "gpl3";
  cell.kind = "licence";
  cell.use = "tuning";
  cell.checksum = "0123456789abcdef";
  cell.queries = "agnostic";
  cell.policy = "Jacap/noise=relative:0.1";
  cell.budget = "global";
  cell.refit = "values";
  cell.sinks = 4;
  cell.recent = 32;
  cell.evict_ratio = 0.9;
  cell.rows_before = 1000;
  cell.rows_after = 100;
  cell.incomparable = 1;
  cell.evict_ms = 0.1;
  cell.error = 1.0 / 3.0;
  cell.mean_kl = std::numeric_limits<double>::denorm_min();
  cell.kl_99 = 1e300;
  cell.top1 = 0.5;
  cell.loss = -0.0;
  cell.kept = "0-3;7";
  cell.answers = {{0.25, -1.0 / 7.0, 0.5}, {0.75, -2e-9, 1.0}};
  return cell;
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("a cell comes back from its line as it was", "[evaluate]") {
  Cell cell = example();
  CHECK(parse_csv_line(csv_line(cell)) == cell);
  cell.answers.clear();
  CHECK(parse_csv_line(csv_line(cell)) == cell);
  CHECK_THROWS_AS(parse_csv_line("a,b"), std::runtime_error);
  std::string broken = csv_line(example());
  broken.replace(broken.find(",1000,"), 6, ",10x0,");
  CHECK_THROWS_AS(parse_csv_line(broken), std::runtime_error);
}

TEST_CASE("a cell's key holds what names it, and nothing measured", "[evaluate]") {
  const Cell cell = example();
  Cell other = cell;
  other.error = other.mean_kl = other.evict_ms = 7.0;
  other.rows_after = 3;
  other.answers.clear();
  CHECK(key_of(other) == key_of(cell));
  for (auto member : {&Cell::model, &Cell::context, &Cell::checksum, &Cell::queries, &Cell::policy,
                      &Cell::budget, &Cell::refit}) {
    other = cell;
    other.*member += "x";
    CHECK(key_of(other) != key_of(cell));
  }
  other = cell;
  other.recent = 0;
  CHECK(key_of(other) != key_of(cell));
  other = cell;
  other.evict_ratio = 0.95;
  CHECK(key_of(other) != key_of(cell));
}

TEST_CASE("JSON has no numbers that are none", "[evaluate]") {
  Cell cell = example();
  cell.mean_kl = std::numeric_limits<double>::infinity();
  const std::string text = json_object(cell);
  CHECK(text.find("\"mean_kl\": null, ") != std::string::npos);
  CHECK(text.find("\"answer_survival\": [0.5, 1]}") != std::string::npos);
  CHECK(text.substr(0, 17) == "{\"model\": \"tiny\",");
}

TEST_CASE("what was done before is not done again", "[evaluate]") {
  const kvevict_test::TemporaryFolder folder;
  const std::string path = folder / "results.csv";
  Cell second = example();
  second.evict_ratio = 0.5;
  {
    Results results(path);
    CHECK(!results.has(example()));
    results.add(example());
    CHECK(results.has(example()));
    CHECK(!results.has(second));
  }
  const std::string one = read(path);
  {
    Results results(path);
    CHECK(results.has(example()));
    REQUIRE(results.cells().size() == 1);
    CHECK(results.cells()[0] == example());
    results.add(second);
  }
  CHECK(read(path) == one + csv_line(second) + "\n");

  // Interrupted in the middle of a line: that cell is done again.
  for (const std::size_t cut : {std::size_t{1}, csv_line(second).size()}) {
    write(path, one + csv_line(second).substr(0, cut));
    Results results(path);
    CHECK(results.has(example()));
    CHECK(!results.has(second));
    results.add(second);
    CHECK(read(path) == one + csv_line(second) + "\n");
  }
  // In the middle of the header.
  write(path, csv_header().substr(0, 9));
  CHECK(Results(path).cells().empty());
  CHECK(read(path) == csv_header() + "\n");
}

TEST_CASE("a file that is no table of results is left alone", "[evaluate]") {
  const kvevict_test::TemporaryFolder folder;
  const std::string path = folder / "results.csv";
  for (const std::string& text : {std::string("a letter"), std::string("a letter\nto a friend\n"),
                                  csv_header() + "\nnot a cell\n"}) {
    write(path, text);
    CHECK_THROWS_AS(Results(path), std::runtime_error);
    CHECK(read(path) == text);
  }
  CHECK_THROWS_AS(Results(folder / "no/such/folder.csv"), std::runtime_error);
}

}  // namespace results_test
