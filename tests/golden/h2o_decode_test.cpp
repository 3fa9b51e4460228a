// SPDX-License-Identifier: Apache-2.0
// The stored decoding run of H2O: one token a step, evicting above heavy + recent rows.
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/cpu/running_mass.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/golden_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

namespace {

// A cache that grows by a row a step and is compacted by selections; heads hold equally many rows.
struct Decoding {
  explicit Decoding(const reference::Inputs& everything) : whole(everything) {
    now.keys.resize(whole.keys.size());
    now.values.resize(whole.keys.size());
    now.row_positions.resize(whole.keys.size());
  }

  void append(std::size_t token) {
    for (std::size_t h = 0; h < whole.keys.size(); ++h) {
      now.row_positions[h].push_back(static_cast<std::int64_t>(token));
    }
    now.query_positions = {static_cast<std::int64_t>(token)};
    now.queries.clear();
    for (const reference::Matrix& head : whole.queries) {
      reference::Matrix query(1, head.cols);
      std::copy_n(head.data.begin() + static_cast<std::ptrdiff_t>(token * head.cols), head.cols,
                  query.data.begin());
      now.queries.push_back(query);
    }
    gather();
  }

  void compact(const kvevict::Selection& kept) {
    for (std::size_t h = 0; h < whole.keys.size(); ++h) {
      reference::Positions remaining;
      for (const std::int32_t row : kept.head(static_cast<std::int64_t>(h))) {
        remaining.push_back(now.row_positions[h][static_cast<std::size_t>(row)]);
      }
      now.row_positions[h] = remaining;
    }
    gather();
  }

  const reference::Inputs& whole;
  reference::Inputs now;

 private:
  void gather() {
    for (std::size_t h = 0; h < whole.keys.size(); ++h) {
      const reference::Positions& rows = now.row_positions[h];
      now.keys[h] = reference::Matrix(rows.size(), whole.keys[h].cols);
      now.values[h] = reference::Matrix(rows.size(), 1);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t c = 0; c < now.keys[h].cols; ++c) {
          now.keys[h](i, c) = whole.keys[h](static_cast<std::size_t>(rows[i]), c);
        }
      }
    }
  }
};

template <class T>
void check_run(const GoldenEntry& entry) {
  const auto steps = static_cast<std::size_t>(required_integer(entry.selection, "steps"));
  const std::int64_t heavy = required_integer(entry.selection, "heavy");
  const std::int64_t recent = required_integer(entry.selection, "recent");
  const std::vector<std::int64_t> want = golden_data().array(entry.id).values_int64();
  const reference::Inputs whole = reference::golden_inputs(golden_data(), entry);
  const auto capacity = static_cast<std::size_t>(heavy + recent);

  Decoding decoding(whole);
  TestResources res({.threads = 1});
  kvevict::H2O::State state{kvevict::H2O{}};
  std::size_t wrong = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    decoding.append(step);
    const PackedCache<T> cache(decoding.now);
    const PolicyEvidence queries(decoding.now);
    observe(res, state, cache.view(), *queries.view().query_window);
    const kvevict::Selection kept = kvevict::evict(
        res, TestPolicy(kvevict::H2O{}), cache.view(), {.attention_mass = state.mass()},
        kvevict::Budget::rows(heavy + recent), {.recent = recent});
    state.compact(res, kept);
    decoding.compact(kept);
    for (std::size_t h = 0; h < whole.keys.size(); ++h) {
      reference::Positions held = decoding.now.row_positions[h];
      held.resize(capacity, -1);
      const auto first = want.begin() + static_cast<std::ptrdiff_t>((h * steps + step) * capacity);
      if (!std::equal(held.begin(), held.end(), first)) ++wrong;
    }
  }
  CHECK(wrong == 0);

  const GoldenEntry& mass = golden_data().entry(entry.case_name() + "/tensor/h2o_decode_mass");
  const kvevict::AttentionMass<> got = state.mass();
  const Comparison comparison =
      compare(std::vector<float>(got.data, got.data + got.layout.total()),
              golden_data().array(mass.id).values_double(), mass.tolerance);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

}  // namespace

TEST_CASE("golden: H2O's stored decoding run is reproduced step by step", "[golden]") {
  std::size_t runs = 0;
  for (const GoldenEntry& entry : golden_data().entries("table", "H2O")) {
    INFO(entry.id);
    check_run<float>(entry);
    check_run<kvevict::half>(entry);
    ++runs;
  }
  CHECK(runs == 2);
}
