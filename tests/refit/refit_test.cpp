// SPDX-License-Identifier: Apache-2.0
#include "kvevict/refit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "reference/random_inputs.hpp"
#include "refit/refit_case.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::KvView;
using kvevict::RefitHead;
using kvevict::RefitKind;
using kvevict::RefitMass;
using kvevict::RefitOptions;
using kvevict::Selection;

namespace {

// Gram matrices in fp32 have errors of 1e-6 of their trace at most; beside a ridge of 1e-2 of the
// mean diagonal over up to 100 unknowns that is 1e-3 of what the fit adds, in its worst direction.
constexpr Tolerance fitted_rows{2e-3, 2e-3};

// All candidates that a test may ask for, without held-out probes: what is asked for is done.
std::vector<RefitOptions> plain_options() {
  std::vector<RefitOptions> all;
  for (const RefitMass mass : {RefitMass::none, RefitMass::bias, RefitMass::absorbed}) {
    for (const bool values : {true, false}) {
      if (!values && mass == RefitMass::none) continue;
      all.push_back({.mass = mass, .values = values, .largest_spread = 1e9, .check_every = 0});
    }
  }
  return all;
}

// Probes that have a common part, as real ones have: a direction exists.
reference::Inputs refit_inputs(const reference::InputShape& shape, std::uint64_t seed) {
  reference::Inputs inputs = reference::random_inputs(shape, seed);
  for (reference::Matrix& head : inputs.probes) {
    for (std::size_t i = 0; i < head.rows; ++i) {
      head(i, 0) = static_cast<double>(static_cast<float>(head(i, 0) + 4.0));
    }
  }
  return inputs;
}

RefitKind kind_of(const RefitOptions& options) {
  if (options.mass == RefitMass::none) return RefitKind::values;
  return options.values ? RefitKind::mass_and_values : RefitKind::mass;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// The rows of the selection as they are in the cache.
template <class T>
Refitted<T> unchanged(CpuResources& res, const Selection& kept, const KvView<const T>& cache,
                      const RefitOptions& options) {
  Refitted<T> out(kept, cache, options);
  kvevict::compact_into(res, kept, cache, out.view());
  std::fill(out.bias.begin(), out.bias.end(), 0.0f);
  return out;
}

}  // namespace

TEST_CASE("refit: keys, values, weights and errors are those of the double-precision loops",
          "[refit]") {
  const reference::InputShape shapes[] = {
      {.group = 1, .rows = {40}, .dim = 8, .value_dim = 8, .probes = 9},
      {.group = 3, .rows = {60, 31, 5}, .dim = 16, .value_dim = 12, .probes = 7},
      {.group = 2, .rows = {300, 140}, .dim = 20, .value_dim = 24, .probes = 40},
      {.group = 1, .rows = {200}, .dim = 32, .value_dim = 16, .probes = 1},
  };
  std::uint64_t seed = 0;
  for (const reference::InputShape& shape : shapes) {
    for (const bool masked : {false, true}) {
      reference::Inputs inputs = refit_inputs(shape, ++seed);
      if (masked) {
        // From a third of the first head on, past its end.
        for (std::size_t i = 0; i < shape.probes; ++i) {
          inputs.probe_positions.push_back(
              static_cast<std::int64_t>(shape.rows[0] / 3 + i * shape.rows[0] / shape.probes));
        }
      }
      const PackedCache<float> cache(inputs);
      const PolicyEvidence evidence(inputs);
      for (const std::int64_t step : {2, 5}) {
        const Selection kept = every(step, cache.layout());
        for (const RefitOptions& options : plain_options()) {
          INFO("seed " << seed << " step " << step << " mass " << static_cast<int>(options.mass)
                       << " values " << options.values);
          CpuResources res({.threads = 2});
          const Refitted<float> got =
              refitted(res, kept, cache.view(), *evidence.view().probes, options);
          for (std::size_t h = 0; h < shape.rows.size(); ++h) {
            const reference::RefitCase given = refit_case(inputs, h, kept, options);
            const reference::RefitResult want = reference::refit(given);
            const RefitHead& head = got.heads[h];
            const reference::Matrix keys = head_matrix(got.keys, kept, h, got.dim);
            const reference::Matrix values = head_matrix(got.values, kept, h, got.value_dim);
            std::vector<double> bias;
            std::vector<double> want_bias;
            if (options.mass == RefitMass::bias) {
              const auto first = got.bias.begin() + kept.offsets()[h];
              bias.assign(first, first + static_cast<std::ptrdiff_t>(given.kept.size()));
              for (const double w : want.weights) want_bias.push_back(std::log(w));
            }
            const double evicted = reference::refit_error(
                given,
                head_matrix(unchanged(res, kept, cache.view(), options).keys, kept, h, got.dim),
                head_matrix(unchanged(res, kept, cache.view(), options).values, kept, h,
                            got.value_dim));
            CHECK(std::abs(static_cast<double>(head.evict_error) - evicted) <= 1e-4 * evicted);
            CHECK(std::abs(static_cast<double>(head.error) -
                           reference::refit_error(given, keys, values, bias)) <=
                  1e-3 * evicted);  // both outputs carry fp32 errors of the whole
            if (reference::refit_error(given, want.keys, want.values, want_bias) >
                evicted * 0.999) {
              continue;  // no better than evicting: the library may leave the head as it was
            }
            CHECK(head.applied == kind_of(options));
            const Comparison of_keys = compare(keys.data, want.keys.data, fitted_rows);
            INFO("keys of head " << h << ": " << of_keys.describe());
            CHECK(of_keys.within());
            const Comparison of_values = compare(values.data, want.values.data, fitted_rows);
            INFO("values of head " << h << ": " << of_values.describe());
            CHECK(of_values.within());
            const Comparison of_bias = compare(bias, want_bias, fitted_rows);
            INFO("bias of head " << h << ": " << of_bias.describe());
            CHECK(of_bias.within());
            if (options.mass == RefitMass::absorbed) {
              CHECK(std::abs(static_cast<double>(head.spread) - want.spread) <=
                    1e-4 * (1.0 + want.spread));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("refit: where nothing is evicted nothing changes", "[refit]") {
  const reference::Inputs inputs =
      refit_inputs({.group = 2, .rows = {30, 1, 0}, .dim = 8, .value_dim = 6, .probes = 12}, 4);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(1, cache.layout());
  CpuResources res({.threads = 1});
  for (const RefitOptions& options : plain_options()) {
    const Refitted<float> got = refitted(res, kept, cache.view(), *evidence.view().probes, options);
    CHECK(got.keys == cache.keys);
    CHECK(got.values == cache.values);
    CHECK(got.bias == std::vector<float>(got.bias.size(), 0.0f));
    for (const RefitHead& head : got.heads) {
      CHECK(head.applied == RefitKind::none);
      CHECK(head.evict_error == 0.0f);
      CHECK(head.error == 0.0f);
    }
  }
}

TEST_CASE("refit: nothing is kept, or only one row", "[refit]") {
  const reference::Inputs inputs = refit_inputs({.rows = {30, 20}, .probes = 12}, 5);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  CpuResources res({.threads = 1});
  for (const RefitOptions& options : plain_options()) {
    const Selection kept = selection_of({{}, {7}});
    const Refitted<float> got = refitted(res, kept, cache.view(), *evidence.view().probes, options);
    CHECK(got.heads[0].applied == RefitKind::none);
    CHECK(got.heads[1].error <= got.heads[1].evict_error);
    // One row gets all attention: only its value matters, and the best one is nearer.
    if (options.values) CHECK(got.heads[1].error < got.heads[1].evict_error);
  }
}

TEST_CASE("refit: with as many rows as probes and little ridge the outputs are met", "[refit]") {
  const reference::Inputs inputs =
      refit_inputs({.group = 2, .rows = {120}, .dim = 16, .value_dim = 16, .probes = 10}, 6);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(3, cache.layout());
  CpuResources res({.threads = 1});
  double before = 1.0;
  for (const double ridge : {1.0, 1e-2, 1e-4, 1e-6}) {
    const RefitOptions options{.mass = RefitMass::none, .ridge = ridge, .check_every = 0};
    const Refitted<float> got = refitted(res, kept, cache.view(), *evidence.view().probes, options);
    const auto error = static_cast<double>(got.heads[0].error);
    CHECK(error < before);
    before = error;
  }
  // What fp32 leaves: 1e-7 of sums of 40 products, magnified by the condition of the fit.
  CHECK(before < 1e-4);
}

TEST_CASE("refit: the order of rows and of probes does not matter", "[refit]") {
  const reference::Inputs inputs =
      refit_inputs({.group = 1, .rows = {90}, .dim = 8, .value_dim = 8, .probes = 20}, 7);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(3, cache.layout());
  const RefitOptions options{.largest_spread = 1e9, .check_every = 0};
  CpuResources res({.threads = 1});
  const Refitted<float> got = refitted(res, kept, cache.view(), *evidence.view().probes, options);
  REQUIRE(got.heads[0].applied == RefitKind::mass_and_values);

  // Rows and probes reversed: kept row i is kept row 29 - i there.
  reference::Inputs reversed = inputs;
  for (auto* heads : {&reversed.keys, &reversed.values, &reversed.probes}) {
    const reference::Matrix& from = heads == &reversed.keys     ? inputs.keys[0]
                                    : heads == &reversed.values ? inputs.values[0]
                                                                : inputs.probes[0];
    for (std::size_t i = 0; i < from.rows; ++i) {
      for (std::size_t c = 0; c < from.cols; ++c) {
        (*heads)[0](i, c) = from(from.rows - 1 - i, c);
      }
    }
  }
  const PackedCache<float> reversed_cache(reversed);
  const PolicyEvidence reversed_evidence(reversed);
  std::vector<std::int32_t> rows;
  for (std::int32_t i = 89; i >= 0; --i) {
    if (i % 3 == 0) rows.push_back(89 - i);
  }
  const Refitted<float> other = refitted(res, selection_of({rows}), reversed_cache.view(),
                                         *reversed_evidence.view().probes, options);
  const auto dim = static_cast<std::size_t>(got.dim);
  std::vector<float> keys;
  std::vector<float> values;
  for (std::size_t j = 30; j-- > 0;) {
    keys.insert(keys.end(), other.keys.begin() + static_cast<std::ptrdiff_t>(j * dim),
                other.keys.begin() + static_cast<std::ptrdiff_t>((j + 1) * dim));
    values.insert(values.end(), other.values.begin() + static_cast<std::ptrdiff_t>(j * dim),
                  other.values.begin() + static_cast<std::ptrdiff_t>((j + 1) * dim));
  }
  // Other orders of the same fp32 sums, behind the same solve.
  const Comparison of_keys = compare(keys, got.keys, Tolerance{1e-4, 1e-4});
  INFO(of_keys.describe());
  CHECK(of_keys.within());
  const Comparison of_values = compare(values, got.values, fitted_rows);
  INFO(of_values.describe());
  CHECK(of_values.within());
}

TEST_CASE("refit: a head alone, in a batch, by any number of threads: the same bits", "[refit]") {
  const reference::InputShape shape{
      .group = 2, .rows = {130, 60, 9}, .dim = 12, .value_dim = 20, .probes = 17};
  const reference::Inputs inputs = refit_inputs(shape, 8);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(4, cache.layout());
  const RefitOptions options{.largest_spread = 1e9};
  CpuResources res({.threads = 1});
  const Refitted<float> all = refitted(res, kept, cache.view(), *evidence.view().probes, options);
  for (const int threads : {2, 3}) {
    CpuResources others({.threads = threads});
    const Refitted<float> same =
        refitted(others, kept, cache.view(), *evidence.view().probes, options);
    CHECK(same_bits(same.keys, all.keys));
    CHECK(same_bits(same.values, all.values));
  }
  for (std::size_t h = 0; h < shape.rows.size(); ++h) {
    reference::Inputs alone;
    alone.keys = {inputs.keys[h]};
    alone.values = {inputs.values[h]};
    alone.probes = {inputs.probes[2 * h], inputs.probes[2 * h + 1]};
    const PackedCache<float> one(alone);
    const PolicyEvidence its(alone);
    const Refitted<float> got =
        refitted(res, every(4, one.layout()), one.view(), *its.view().probes, options);
    const auto first = static_cast<std::size_t>(kept.offsets()[h]);
    CHECK(std::equal(got.keys.begin(), got.keys.end(),
                     all.keys.begin() + static_cast<std::ptrdiff_t>(first * 12)));
    CHECK(std::equal(got.values.begin(), got.values.end(),
                     all.values.begin() + static_cast<std::ptrdiff_t>(first * 20)));
    CHECK(got.heads[0].error == all.heads[h].error);
  }
}

TEST_CASE("refit: pinned rows keep every bit", "[refit]") {
  const reference::Inputs inputs =
      refit_inputs({.group = 1, .rows = {80}, .dim = 8, .value_dim = 8, .probes = 15}, 9);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(4, cache.layout());
  CpuResources res({.threads = 1});
  const kvevict::PositionSpan span{30, 45};  // kept rows 32, 36, 40, 44
  for (RefitOptions options : plain_options()) {
    options.pinned = {.sinks = 5, .recent = 8, .spans = {&span, 1}};  // 0, 4; 72, 76
    const Refitted<float> got = refitted(res, kept, cache.view(), *evidence.view().probes, options);
    const Refitted<float> plain = unchanged(res, kept, cache.view(), options);
    reference::RefitCase given = refit_case(inputs, 0, kept, options);
    given.pinned.assign(20, false);
    for (const std::size_t j : {0u, 1u, 8u, 9u, 10u, 11u, 18u, 19u}) given.pinned[j] = true;
    const reference::RefitResult want = reference::refit(given);
    for (std::size_t j = 0; j < 20; ++j) {
      if (!given.pinned[j]) continue;
      const auto at = static_cast<std::ptrdiff_t>(j * 8);
      CHECK(std::equal(got.keys.begin() + at, got.keys.begin() + at + 8, plain.keys.begin() + at));
      CHECK(std::equal(got.values.begin() + at, got.values.begin() + at + 8,
                       plain.values.begin() + at));
      if (!got.bias.empty()) CHECK(got.bias[j] == 0.0f);
    }
    if (got.heads[0].applied != kind_of(options)) continue;
    const Comparison of_values =
        compare(head_matrix(got.values, kept, 0, 8).data, want.values.data, fitted_rows);
    INFO(of_values.describe());
    CHECK(of_values.within());
  }
}

TEST_CASE("refit: never further from the whole cache than evicting, in the type that is written",
          "[refit]") {
  const auto check = [](auto element, std::uint64_t seed, double scale) {
    using T = decltype(element);
    reference::Inputs inputs =
        refit_inputs({.group = 2, .rows = {70, 24}, .dim = 8, .value_dim = 8, .probes = 9}, seed);
    for (auto* heads : {&inputs.keys, &inputs.values}) {
      for (reference::Matrix& head : *heads) {
        for (double& value : head.data) {
          value = static_cast<double>(
              static_cast<float>(static_cast<T>(static_cast<float>(value * scale))));
        }
      }
    }
    const PackedCache<T> cache(inputs);
    const PolicyEvidence evidence(inputs);
    CpuResources res({.threads = 1});
    for (const std::int64_t step : {2, 7}) {
      const Selection kept = every(step, cache.layout());
      for (const std::int64_t check_every : {0, 2, 4}) {
        for (RefitOptions options : plain_options()) {
          options.check_every = check_every;
          const Refitted<T> got =
              refitted(res, kept, cache.view(), *evidence.view().probes, options);
          for (std::size_t h = 0; h < 2; ++h) {
            const RefitHead& head = got.heads[h];
            INFO("seed " << seed << " scale " << scale << " step " << step << " head " << h);
            CHECK(head.error <= head.evict_error);
            if (head.applied == RefitKind::none) CHECK(head.error == head.evict_error);
            const reference::RefitCase given = refit_case(inputs, h, kept, options);
            std::vector<double> bias;
            if (!got.bias.empty()) {
              const auto first = got.bias.begin() + kept.offsets()[h];
              bias.assign(first, first + static_cast<std::ptrdiff_t>(given.kept.size()));
            }
            const double seen = reference::refit_error(given, head_matrix(got.keys, kept, h, 8),
                                                       head_matrix(got.values, kept, h, 8), bias);
            CHECK(std::abs(static_cast<double>(head.error) - seen) <=
                  1e-3 * (static_cast<double>(head.evict_error) + 1e-3));
          }
        }
      }
    }
  };
  for (std::uint64_t seed = 20; seed < 24; ++seed) {
    check(float{}, seed, 1.0);
    check(kvevict::half{}, seed, 1.0);
    check(kvevict::bfloat16{}, seed, 1.0);
    check(kvevict::half{}, seed, 0.01);
  }
}

TEST_CASE("refit: values at the end of half's range never become infinite", "[refit]") {
  reference::Inputs inputs = refit_inputs({.group = 1, .rows = {40}, .probes = 9}, 30);
  for (double& value : inputs.values[0].data) value = value < 0 ? -65504.0 : 65504.0;
  const PackedCache<kvevict::half> cache(inputs);
  const PolicyEvidence evidence(inputs);
  CpuResources res({.threads = 1});
  for (const RefitOptions& options : plain_options()) {
    const Refitted<kvevict::half> got =
        refitted(res, every(4, cache.layout()), cache.view(), *evidence.view().probes, options);
    for (const kvevict::half value : got.values) CHECK(std::isfinite(static_cast<float>(value)));
    CHECK(got.heads[0].error <= got.heads[0].evict_error);
  }
}

TEST_CASE("refit: NaN in a head leaves that head as it was and the others alone", "[refit]") {
  reference::Inputs inputs = refit_inputs({.group = 1, .rows = {40, 40, 40, 40}, .probes = 9}, 31);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  inputs.keys[0](5, 1) = nan;    // evicted
  inputs.values[1](8, 0) = nan;  // kept
  inputs.probes[2](3, 2) = nan;
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(4, cache.layout());
  CpuResources res({.threads = 1});
  for (const RefitOptions& options : plain_options()) {
    const Refitted<float> got = refitted(res, kept, cache.view(), *evidence.view().probes, options);
    const Refitted<float> plain = unchanged(res, kept, cache.view(), options);
    const auto same = static_cast<std::ptrdiff_t>(kept.offsets()[3] * got.dim);
    CHECK(std::memcmp(got.keys.data(), plain.keys.data(),
                      static_cast<std::size_t>(same) * sizeof(float)) == 0);
    CHECK(std::memcmp(got.values.data(), plain.values.data(),
                      static_cast<std::size_t>(same) * sizeof(float)) == 0);
    for (std::size_t h = 0; h < 3; ++h) CHECK(got.heads[h].applied == RefitKind::none);
    if (options.values) CHECK(got.heads[3].applied == kind_of(options));
  }
}

TEST_CASE("refit: a direction that probes disagree on is not used", "[refit]") {
  // Without a common part q . u spreads about 1 by more than 1.
  const reference::Inputs inputs =
      reference::random_inputs({.group = 1, .rows = {80}, .dim = 16, .probes = 40}, 32);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(4, cache.layout());
  CpuResources res({.threads = 1});
  const Refitted<float> got =
      refitted(res, kept, cache.view(), *evidence.view().probes, RefitOptions{.check_every = 0});
  CHECK(got.heads[0].spread > 0.25f);
  CHECK(got.heads[0].applied == RefitKind::values);
  CHECK(got.heads[0].key_change == 0.0f);
  const Refitted<float> mass_only = refitted(res, kept, cache.view(), *evidence.view().probes,
                                             RefitOptions{.values = false, .check_every = 0});
  CHECK(mass_only.heads[0].applied == RefitKind::none);
}

TEST_CASE("refit: the direction comes from its own probes when they are given", "[refit]") {
  const reference::Inputs inputs =
      refit_inputs({.group = 1, .rows = {60}, .dim = 8, .value_dim = 8, .probes = 20}, 33);
  const reference::Inputs far =
      refit_inputs({.group = 1, .rows = {60}, .dim = 8, .value_dim = 8, .probes = 31}, 34);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const PolicyEvidence far_evidence(far);
  const Selection kept = every(3, cache.layout());
  const RefitOptions options{.largest_spread = 1e9, .check_every = 0};
  CpuResources res({.threads = 1});
  Refitted<float> got(kept, cache.view(), options);
  kvevict::refit(res, kept, cache.view(), *evidence.view().probes, *far_evidence.view().probes,
                 options, got.view(), got.heads);
  reference::RefitCase of_far = refit_case(far, 0, kept, options);
  CHECK(std::abs(static_cast<double>(got.heads[0].spread) - reference::refit(of_far).spread) <
        1e-4);
}

TEST_CASE("refit: what held-out probes contradict is not written", "[refit]") {
  // Probes that are fitted to look at the first half of the rows, those held out at the second,
  // where the values are opposite: whatever helps the former harms the latter.
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(40, 2)};
  inputs.values = {reference::Matrix(40, 1)};
  for (std::size_t i = 0; i < 40; ++i) {
    inputs.keys[0](i, i < 20 ? 0 : 1) = 8;
    inputs.values[0](i, 0) = i % 20 < 10 ? 1 : (i < 20 ? 3 : -9);
  }
  inputs.probes = {reference::Matrix(20, 2)};
  for (std::size_t i = 0; i < 20; ++i) {
    inputs.probes[0](i, 0) = i % 4 == 3 ? 0.5 : 2;
    inputs.probes[0](i, 1) = i % 4 == 3 ? 2 : 0.5;
  }
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  // Kept: rows of the first half with value 1, so that fitting raises values; of the second half
  // rows that are met already.
  std::vector<std::int32_t> rows = {0, 1, 2};
  CpuResources res({.threads = 1});
  const Selection kept = selection_of({rows});
  const Refitted<float> trusting =
      refitted(res, kept, cache.view(), *evidence.view().probes,
               RefitOptions{.mass = RefitMass::none, .check_every = 0});
  CHECK(trusting.heads[0].applied == RefitKind::values);
  const Refitted<float> checked = refitted(res, kept, cache.view(), *evidence.view().probes,
                                           RefitOptions{.mass = RefitMass::none, .check_every = 4});
  CHECK(checked.heads[0].applied == RefitKind::none);
  CHECK(checked.values == std::vector<float>{1, 1, 1});
}
