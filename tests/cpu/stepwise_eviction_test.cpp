// SPDX-License-Identifier: Apache-2.0
#include "kvevict/stepwise_eviction.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/drop_loss.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/mass.hpp"
#include "kvevict/cpu/projected_norms.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/score_arithmetic.hpp"
#include "kvevict/cpu/score_combination.hpp"
#include "kvevict/cpu/score_marks.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/decorators/critical_kv.hpp"
#include "kvevict/policies/drop_loss.hpp"
#include "kvevict/policies/knorm.hpp"
#include "kvevict/policies/kvzip.hpp"
#include "reference/policies.hpp"
#include "reference/random_inputs.hpp"
#include "support/quantised.hpp"

namespace stepwise_eviction_test {

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::CpuResources;
using kvevict::DropLoss;
using kvevict::KvView;
using kvevict::Protect;
using kvevict::Selection;

namespace {

// Inputs as views.
struct Case {
  reference::Inputs inputs;
  std::vector<float> keys = reference::packed_float(inputs.keys);
  std::vector<float> values = reference::packed_float(inputs.values);
  std::vector<float> probes = reference::packed_float(inputs.probes);
  std::vector<std::int64_t> offsets = reference::row_offsets(inputs.keys);
  CpuResources res{{.threads = 2}};

  KvView<const float> cache() const {
    const auto layout =
        kvevict::RowLayout<>::ragged(offsets.data(), static_cast<std::int64_t>(inputs.keys.size()));
    const auto rows = [&](const std::vector<float>& memory, const reference::Heads& heads) {
      const auto dim = static_cast<std::int64_t>(heads[0].cols);
      return kvevict::RowsView<const float>::packed(memory.data(), layout, dim, dim);
    };
    return {rows(keys, inputs.keys), rows(values, inputs.values)};
  }
  kvevict::Evidence<> evidence() const {
    return {.probes = kvevict::ProbeQueries<>{kvevict::QueriesView<>::packed(
                probes.data(), static_cast<std::int64_t>(inputs.probes.size()),
                static_cast<std::int64_t>(inputs.probes[0].rows),
                static_cast<std::int64_t>(inputs.probes[0].cols))}};
  }
};

reference::Inputs some_inputs(std::uint64_t seed) {
  return reference::random_inputs(
      {.group = 2, .rows = {26, 26}, .dim = 8, .value_dim = 6, .probes = 7}, seed);
}

reference::Matrix rows_of(const reference::Matrix& all, const reference::Rows& rows) {
  reference::Matrix out(rows.size(), all.cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t c = 0; c < all.cols; ++c) out(i, c) = all(rows[i], c);
  }
  return out;
}

// Takes out `block` rows at a time, those with the lowest scores of what is left, but never the
// first `sinks` or last `recent` rows.
std::vector<reference::Rows> brute_force(const reference::Inputs& inputs, std::size_t count,
                                         std::size_t block, std::size_t sinks, std::size_t recent) {
  std::vector<reference::Rows> left(inputs.keys.size());
  for (std::size_t h = 0; h < left.size(); ++h) {
    for (std::size_t i = 0; i < inputs.keys[h].rows; ++i) left[h].push_back(i);
  }
  while (left[0].size() > count) {
    reference::Inputs now = inputs;
    for (std::size_t h = 0; h < left.size(); ++h) {
      now.keys[h] = rows_of(inputs.keys[h], left[h]);
      now.values[h] = rows_of(inputs.values[h], left[h]);
    }
    const reference::Scores scores = reference::score(reference::DropLoss{}, now);
    for (std::size_t h = 0; h < left.size(); ++h) {
      std::vector<std::pair<double, std::size_t>> open;
      for (std::size_t i = sinks; i + recent < left[h].size(); ++i) {
        open.emplace_back(scores[h][i], left[h][i]);
      }
      std::sort(open.begin(), open.end());
      for (std::size_t k = 0; k < block; ++k) {
        left[h].erase(std::find(left[h].begin(), left[h].end(), open[k].second));
      }
    }
  }
  return left;
}

std::vector<reference::Rows> rows_of(const Selection& kept) {
  std::vector<reference::Rows> out;
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    out.emplace_back(kept.head(h).begin(), kept.head(h).end());
  }
  return out;
}

}  // namespace

TEST_CASE("DropLoss in steps of one row is the brute force", "[stepwise]") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Case given{some_inputs(seed)};
    Selection kept;
    kvevict::evict_in_steps(given.res, kept, DropLoss{}, given.cache(), given.evidence(),
                            Budget::rows(8), 18, {.sinks = 1, .recent = 2});
    CHECK(rows_of(kept) == brute_force(given.inputs, 8, 1, 1, 2));
  }
}

TEST_CASE("DropLoss in larger steps scores once for each", "[stepwise]") {
  Case given{some_inputs(4)};
  Selection kept;
  for (const std::size_t block : {2u, 3u, 6u}) {
    kvevict::evict_in_steps(given.res, kept, DropLoss{}, given.cache(), given.evidence(),
                            Budget::rows(8), static_cast<std::int64_t>(18 / block));
    CHECK(rows_of(kept) == brute_force(given.inputs, 8, block, 0, 0));
  }
}

TEST_CASE("one step is an eviction, and so are many of scores that others do not change",
          "[stepwise]") {
  Case given{reference::random_inputs(
      {.group = 2, .rows = {40, 9, 0, 17}, .dim = 8, .value_dim = 6, .probes = 7}, 5)};
  Selection kept;
  const Protect protect{.sinks = 2, .recent = 1};
  const auto once = [&](const auto& policy) {
    return rows_of(kvevict::evict(given.res, policy, given.cache(), given.evidence(),
                                  Budget::evict_ratio(0.6), protect));
  };
  kvevict::evict_in_steps(given.res, kept, DropLoss{}, given.cache(), given.evidence(),
                          Budget::evict_ratio(0.6), 1, protect);
  CHECK(rows_of(kept) == once(DropLoss{}));
  const kvevict::CriticalKV<DropLoss> critical{.size = kvevict::ValueSize::norm};
  kvevict::evict_in_steps(given.res, kept, critical, given.cache(), given.evidence(),
                          Budget::evict_ratio(0.6), 1, protect);
  CHECK(rows_of(kept) == once(critical));
  for (const std::int64_t steps : {2, 7, 100}) {
    kvevict::evict_in_steps(given.res, kept, kvevict::KNorm{}, given.cache(), {},
                            Budget::evict_ratio(0.6), steps, protect);
    CHECK(rows_of(kept) == once(kvevict::KNorm{}));
  }
}

TEST_CASE("evictions in steps take scales of rows along", "[stepwise]") {
  Case given{reference::random_inputs(
      {.group = 2, .rows = {40, 9, 0, 17}, .dim = 8, .value_dim = 6, .probes = 7}, 5)};
  const kvevict::RowLayout<> layout = given.cache().layout();
  const QuantisedRows<kvevict::float8_e4m3> keys(given.keys, layout, 8, Scaling::by_row);
  const QuantisedRows<kvevict::float8_e4m3> values(given.values, layout, 6, Scaling::by_row);
  const auto scales = [&](const auto& rows) {
    return kvevict::RowsView<const float>::packed(rows.scales.data(), layout, 1, 1);
  };
  const auto rows_of_bytes = [&](const auto& of) {
    return kvevict::RowsView<const kvevict::float8_e4m3>::packed(of.stored.data(), layout, of.dim,
                                                                 of.dim);
  };
  const auto quantised =
      KvView<const kvevict::float8_e4m3>(rows_of_bytes(keys), rows_of_bytes(values))
          .with_row_scales(scales(keys), scales(values));
  const std::vector<float> key_numbers = keys.numbers(layout);
  const std::vector<float> value_numbers = values.numbers(layout);
  const auto rows_of_floats = [&](const std::vector<float>& of, std::int64_t dim) {
    return kvevict::RowsView<const float>::packed(of.data(), layout, dim, dim);
  };
  const KvView<const float> exact(rows_of_floats(key_numbers, 8), rows_of_floats(value_numbers, 6));
  Selection kept;
  Selection want;
  kvevict::evict_in_steps(given.res, kept, DropLoss{}, quantised, given.evidence(),
                          Budget::evict_ratio(0.6), 5);
  kvevict::evict_in_steps(given.res, want, DropLoss{}, exact, given.evidence(),
                          Budget::evict_ratio(0.6), 5);
  CHECK(kept == want);
}

TEST_CASE("evictions in steps refuse what does not fit", "[stepwise]") {
  Case given{some_inputs(6)};
  Selection kept;
  kvevict::evict_in_steps(given.res, kept, DropLoss{}, given.cache(), given.evidence(),
                          Budget::rows(20), 2);
  const std::vector<reference::Rows> before = rows_of(kept);
  const auto problem = [&](const auto& policy, const kvevict::Evidence<>& evidence,
                           std::int64_t steps, const Protect& protect, kvevict::ErrorKind kind) {
    return refused(
        [&] {
          kvevict::evict_in_steps(given.res, kept, policy, given.cache(), evidence, Budget::rows(5),
                                  steps, protect);
        },
        kind);
  };
  using Kind = kvevict::ErrorKind;
  CHECK(problem(DropLoss{}, given.evidence(), 0, {}, Kind::invalid_argument) ==
        "steps is 0, must be in [1, rows of a head]");
  CHECK(problem(DropLoss{}, {}, 3, {}, Kind::invalid_argument) ==
        "evidence.probes is missing, must be given for DropLoss");
  CHECK(problem(kvevict::KVzip{}, {}, 3, {}, Kind::unsupported) ==
        "policy is KVzip, must be one without evidence that belongs to rows");
  CHECK(problem(DropLoss{}, given.evidence(), 21, {.recent = 6}, Kind::budget) ==
        "protected rows of head 0 is 6, must be at most the rows that it keeps, 5");
  CHECK(rows_of(kept) == before);
}

}  // namespace stepwise_eviction_test
