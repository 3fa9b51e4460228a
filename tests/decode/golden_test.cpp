// SPDX-License-Identifier: Apache-2.0
// Decoding runs of other implementations, step by step: kvpress' DecodingPress and
// CompressionRatioDecodingPress, and H2O token by token.
#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"
#include "decode/engine.hpp"
#include "support/golden.hpp"

namespace golden_test {

using namespace kvevict_test;

using kvevict::Budget;
using kvevict::DecodeSchedule;
using kvevict::Selection;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t query_heads = 9;
constexpr std::int64_t tokens = 256;
constexpr std::int64_t dim = 64;

// A cache that takes its rows from a case of the reference data, one by one.
template <class T>
struct Replay {
  std::vector<float> all_keys;
  std::vector<float> all_queries;
  std::vector<T> keys = std::vector<T>(heads * tokens * dim);
  std::vector<T> values = std::vector<T>(heads * tokens);
  std::vector<std::int32_t> positions = std::vector<std::int32_t>(heads * tokens);
  std::vector<std::int32_t*> position_table;
  std::int64_t seen = 0;
  std::int64_t rows = 0;

  explicit Replay(const std::string& name)
      : all_keys(golden_data().array(name + "/input/keys").values_float()),
        all_queries(golden_data().array(name + "/input/queries_post_rope").values_float()) {
    for (std::int64_t h = 0; h < heads; ++h) {
      position_table.push_back(positions.data() + h * tokens);
    }
  }

  kvevict::KvView<T> view() {
    using Rows = kvevict::RowsView<T>;
    return kvevict::KvView<T>(Rows::strided(keys.data(), heads, rows, dim, tokens * dim, dim),
                              Rows::strided(values.data(), heads, rows, 1, tokens, 1),
                              kvevict::MutablePositions<>::per_head(position_table.data()));
  }

  void append(std::int64_t count) {
    for (; count > 0; --count, ++seen, ++rows) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t c = 0; c < dim; ++c) {
          keys[static_cast<std::size_t>((h * tokens + rows) * dim + c)] =
              T(all_keys[static_cast<std::size_t>((h * tokens + seen) * dim + c)]);
        }
        position_table[static_cast<std::size_t>(h)][rows] = static_cast<std::int32_t>(seen);
      }
    }
  }

  kvevict::QueriesView<> newest(std::int64_t count) const {
    return kvevict::QueriesView<>::strided(all_queries.data() + (seen - count) * dim, query_heads,
                                           count, dim, tokens * dim, dim);
  }

  bool holds(std::int64_t head, const std::int64_t* want, std::int64_t width) const {
    const std::int32_t* held = position_table[static_cast<std::size_t>(head)];
    return std::equal(held, held + rows, want) &&
           std::all_of(want + rows, want + width, [](std::int64_t p) { return p == -1; });
  }
};

Evictor evictor_for(const TestPolicy& policy, const DecodeSchedule& schedule) {
  return Evictor(policy, {heads, query_heads, dim}, schedule);
}

template <class T>
void check_press(const GoldenEntry& entry) {
  const std::string name = entry.id.substr(0, entry.id.rfind('_'));
  const NpyArray kept_array = golden_data().array(entry.id);
  const std::vector<std::int64_t> want = kept_array.values_int64();
  const std::vector<std::int64_t> sizes = golden_data().array(name + "_sizes").values_int64();
  const std::int64_t width = kept_array.dim(2);
  const std::int64_t prefill = required_integer(entry.selection, "prefill");
  const bool by_ratio = entry.selection.count("evict_ratio") > 0;

  DecodeSchedule schedule;
  schedule.interval = required_integer(entry.selection, "interval");
  schedule.protect = unprotected;
  schedule.target = by_ratio ? Budget::evict_ratio(required_number(entry.selection, "evict_ratio"))
                             : Budget::rows(required_integer(entry.selection, "target"));
  Evictor evictor = evictor_for(TestPolicy::named(entry.policy), schedule);
  TestResources res({.threads = 1});
  Selection kept;
  Replay<T> replay(entry.case_name());
  // The prompt is there when decoding begins.
  replay.append(prefill);
  evictor.reset(prefill);
  std::int64_t evictions = 0;
  for (const std::int64_t size : sizes) {
    replay.append(1);
    evictor.observe(res, replay.view(), 1);
    // kvpress evicts at the end of a step.
    if (evictor.make_room(res, kept, replay.view(), 0)) {
      replay.rows = kept.count(0);
      for (std::int64_t h = 0; h < heads; ++h) {
        REQUIRE(replay.holds(h, want.data() + (evictions * heads + h) * width, width));
      }
      ++evictions;
    }
    REQUIRE(replay.rows == size);
    REQUIRE(evictor.dropped(0) == replay.seen - size);
  }
  CHECK(evictions == kept_array.dim(0));
}

template <class T>
void check_h2o(const GoldenEntry& entry) {
  const std::int64_t steps = required_integer(entry.selection, "steps");
  const std::int64_t recent = required_integer(entry.selection, "recent");
  const std::int64_t capacity = recent + required_integer(entry.selection, "heavy");
  const std::vector<std::int64_t> want = golden_data().array(entry.id).values_int64();
  Evictor evictor =
      evictor_for(TestPolicy::named("H2O"),
                  {.row_limit = capacity, .protect = kvevict::Protect{.recent = recent}});
  TestResources res({.threads = 1});
  Selection kept;
  Replay<T> replay(entry.case_name());
  for (std::int64_t step = 0; step < steps; ++step) {
    replay.append(1);
    evictor.observe(res, replay.view(), 1, {.post_rope = replay.newest(1)});
    // The run evicts when the row is there and has been attended to.
    if (evictor.make_room(res, kept, replay.view(), 0)) replay.rows = kept.count(0);
    for (std::int64_t h = 0; h < heads; ++h) {
      REQUIRE(replay.holds(h, want.data() + (h * steps + step) * capacity, capacity));
    }
  }
}

}  // namespace

TEST_CASE("golden: kvpress' decoding runs are reproduced", "[decode][golden]") {
  std::size_t runs = 0;
  for (const char* const policy : {"KNorm", "KeyDiff"}) {
    for (const GoldenEntry& entry : golden_data().entries("table", policy)) {
      if (entry.id.find("_kept") == std::string::npos) continue;
      INFO(entry.id);
      check_press<float>(entry);
      check_press<kvevict::half>(entry);
      ++runs;
    }
  }
  CHECK(runs == 6);
}

TEST_CASE("golden: H2O's decoding runs are reproduced by an evictor", "[decode][golden]") {
  std::size_t runs = 0;
  for (const GoldenEntry& entry : golden_data().entries("table", "H2O")) {
    INFO(entry.id);
    check_h2o<float>(entry);
    check_h2o<kvevict::half>(entry);
    ++runs;
  }
  CHECK(runs == 2);
}

}  // namespace golden_test
