// SPDX-License-Identifier: Apache-2.0
// How `refit` and `compact_refitted` are called: arguments, memory, positions.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "reference/random_inputs.hpp"
#include "refit/refit_case.hpp"
#include "support/allocation_counter.hpp"

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::KvView;
using kvevict::ProbeQueries;
using kvevict::QueriesView;
using kvevict::RefitHead;
using kvevict::RefitMass;
using kvevict::RefitOptions;
using kvevict::Selection;

TEST_CASE("refit: options and shapes that do not fit are named, and nothing is written",
          "[refit]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 2, .rows = {30, 20}, .probes = 6}, 1);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const ProbeQueries<> probes = *evidence.view().probes;
  const Selection kept = every(2, cache.layout());
  CpuResources res({.threads = 1});
  const auto refusal = [&](const RefitOptions& options) {
    Refitted<float> out(kept, cache.view(), options);
    const std::string text = refused([&] {
      kvevict::refit(res, kept, cache.view(), probes, options, out.view(), out.heads, out.bias);
    });
    CHECK(out.keys == std::vector<float>(out.keys.size(), 77.0f));
    CHECK(out.values == std::vector<float>(out.values.size(), 77.0f));
    return text;
  };
  CHECK(refusal({.mass = RefitMass::none, .values = false}).substr(0, 12) == "refit.values");
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK(refusal({.ridge = bad}).substr(0, 12) == "refit.ridge ");
    CHECK(refusal({.mass_ridge = bad}).substr(0, 17) == "refit.mass_ridge ");
    CHECK(refusal({.direction_ridge = bad}).substr(0, 22) == "refit.direction_ridge ");
  }
  for (const double bad : {0.0, -1.0, 1.5, std::nan("")}) {
    CHECK(refusal({.weight_floor = bad}).substr(0, 19) == "refit.weight_floor ");
  }
  CHECK(refusal({.largest_spread = -0.1}).substr(0, 21) == "refit.largest_spread ");
  CHECK(refusal({.check_every = 1}).substr(0, 18) == "refit.check_every ");
  CHECK(refusal({.pinned = {.sinks = -1}}).substr(0, 14) == "protect.sinks ");

  const RefitOptions options;
  Refitted<float> out(kept, cache.view(), options);
  const auto call = [&](const Selection& selection, const ProbeQueries<>& queries,
                        const RefitOptions& o, std::size_t accounts, std::size_t biases) {
    std::vector<RefitHead> heads(accounts);
    std::vector<float> bias(biases);
    return refused(
        [&] { kvevict::refit(res, selection, cache.view(), queries, o, out.view(), heads, bias); });
  };
  CHECK(call(kept, probes, options, 1, 0).substr(0, 13) == "accounts.size");
  CHECK(call(kept, probes, options, 2, 3).substr(0, 9) == "bias.size");
  CHECK(call(kept, probes, {.mass = RefitMass::bias}, 2, 3).substr(0, 9) == "bias.size");
  CHECK(call(every(3, cache.layout()), probes, options, 2, 0).substr(0, 13) == "out.keys.rows");
  const std::vector<float> other(4 * 6 * 9, 1.0f);
  CHECK(call(kept, {QueriesView<>::packed(other.data(), 4, 6, 9), {}, {}}, options, 2, 0)
            .substr(0, 10) == "probes.dim");
  CHECK(call(kept, {QueriesView<>::packed(other.data(), 3, 6, 8), {}, {}}, options, 2, 0)
            .substr(0, 12) == "probes.heads");
  CHECK(call(kept, {QueriesView<>::packed(other.data(), 4, 0, 8), {}, {}}, options, 2, 0)
            .substr(0, 12) == "probes.count");
  CHECK(call(kept,
             {QueriesView<>::packed(other.data(), 4, 6, 8), {}, kvevict::ProbeMask::by_position},
             options, 2, 0)
            .substr(0, 16) == "probes.positions");
  CHECK(out.keys == std::vector<float>(out.keys.size(), 77.0f));
}

TEST_CASE("refit: quantised rows are refused, and nothing is written", "[refit]") {
  using kvevict::float8_e4m3;
  using kvevict::q8_0;
  std::vector<q8_0> cached(2 * 6 * 2);
  std::vector<q8_0> written(2 * 3 * 2, q8_0{kvevict::half(1.0f), {7}});
  const std::vector<q8_0> before = written;
  const auto cache = KvView<q8_0>::hnd(cached.data(), cached.data(), 2, 6, 64);
  const auto out = KvView<q8_0>::hnd(written.data(), written.data(), 2, 3, 64);
  const std::vector<float> numbers(2 * 4 * 64, 1.0f);
  const ProbeQueries<> probes{QueriesView<>::packed(numbers.data(), 2, 4, 64), {}, {}};
  const Selection kept = every(2, cache.layout());
  CpuResources res({.threads = 1});
  std::vector<RefitHead> accounts(2);
  const auto unsupported = kvevict::ErrorKind::unsupported;
  CHECK(refused([&] { kvevict::refit(res, kept, cache, probes, {}, out, accounts); },
                unsupported) == "keys is quantised, must be float, half or bfloat16 to be changed");
  CHECK(refused([&] { kvevict::compact_refitted(res, kept, cache, out); }, unsupported) ==
        "cache is quantised, must be float, half or bfloat16 to be changed");
  CHECK(std::memcmp(written.data(), before.data(), sizeof(q8_0) * written.size()) == 0);

  // Rows of another scale are not copied.
  std::vector<float8_e4m3> bytes(2 * 2 * 8);
  const float scales[] = {1.0f, 2.0f};
  const auto rows = kvevict::RowsView<float8_e4m3>::strided(bytes.data(), 2, 1, 8, 8, 8);
  const auto room = kvevict::RowsView<float8_e4m3>::strided(bytes.data() + 16, 2, 1, 8, 8, 8);
  CHECK(refused([&] { kvevict::copy_rows(res, rows.with_scales(scales), room); }, unsupported)
            .substr(0, 28) == "to.scales is another table, ");
}

// Of sizes for which Eigen packs its products on the stack.
TEST_CASE("refit: the second call allocates nothing", "[refit]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 2, .rows = {200, 90}, .dim = 16, .probes = 16}, 2);
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(3, cache.layout());
  for (const RefitMass mass : {RefitMass::none, RefitMass::bias, RefitMass::absorbed}) {
    const RefitOptions options{.mass = mass, .largest_spread = 1e9};
    CpuResources res({.threads = 2});
    Refitted<float> out(kept, cache.view(), options);
    const auto call = [&] {
      kvevict::refit(res, kept, cache.view(), *evidence.view().probes, options, out.view(),
                     out.heads, out.bias);
    };
    call();
    const AllocationScope scope;
    call();
    CHECK(scope.count().allocations == 0);

    // The counting pass asks for what the computation takes.
    CpuResources counting = CpuResources::counting(res);
    kvevict::refit(counting, kept, cache.view(), *evidence.view().probes, options, out.view(),
                   out.heads, out.bias);
    CHECK(counting.workspace().peak_bytes() == res.workspace().peak_bytes());
  }
}

TEST_CASE("compact_refitted: rows, positions and counts end together", "[refit]") {
  reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {40, 25}}, 3);
  const PackedCache<float> source(inputs);
  // Room of 40 rows a head, with stored positions that have holes.
  std::vector<float> keys(2 * 40 * 8);
  std::vector<float> values(2 * 40 * 8);
  std::vector<std::int32_t> positions(2 * 40);
  float* key_heads[] = {keys.data(), keys.data() + 320};
  float* value_heads[] = {values.data(), values.data() + 320};
  std::int32_t* position_heads[] = {positions.data(), positions.data() + 40};
  std::copy(source.keys.begin(), source.keys.begin() + 320, keys.begin());
  std::copy(source.keys.begin() + 320, source.keys.end(), keys.begin() + 320);
  std::copy(source.values.begin(), source.values.begin() + 320, values.begin());
  std::copy(source.values.begin() + 320, source.values.end(), values.begin() + 320);
  for (std::int32_t i = 0; i < 80; ++i) positions[static_cast<std::size_t>(i)] = 3 * i;
  const KvView<float> cache =
      KvView<float>::per_head(key_heads, value_heads, source.layout(), 8)
          .with_positions(kvevict::MutablePositions<>::per_head(position_heads));
  const PolicyEvidence evidence(inputs);
  const Selection kept = every(3, cache.layout());
  CpuResources res({.threads = 1});
  const RefitOptions options{.mass = RefitMass::none, .check_every = 0};
  Refitted<float> out =
      refitted(res, kept, KvView<const float>(cache), *evidence.view().probes, options);
  REQUIRE(out.values != source.values);

  const std::vector<float> before = keys;
  Selection other = every(4, cache.layout());
  CHECK(refused([&] { kvevict::compact_refitted(res, other, cache, out.view()); }).substr(0, 13) ==
        "refitted.rows");
  CHECK(keys == before);

  kvevict::compact_refitted(res, kept, cache, out.view());
  for (std::int64_t h = 0; h < 2; ++h) {
    const auto head = static_cast<std::size_t>(h);
    const auto first = static_cast<std::size_t>(kept.offsets()[head] * 8);
    for (std::size_t i = 0; i < static_cast<std::size_t>(kept.count(h) * 8); ++i) {
      CHECK(key_heads[head][i] == out.keys[first + i]);
      CHECK(value_heads[head][i] == out.values[first + i]);
    }
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      CHECK(position_heads[head][j] == 9 * j + (h == 0 ? 0 : 120));
    }
  }
}
