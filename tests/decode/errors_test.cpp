// SPDX-License-Identifier: Apache-2.0
// What a DecodeEvictor refuses, each time before anything has changed.
#include <string>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decode/engine.hpp"

namespace errors_test {

using namespace kvevict_test;

using kvevict::Budget;
using kvevict::DecodeEvidenceOptions;
using kvevict::DecodeSchedule;
using kvevict::DecodeShape;
using kvevict::Selection;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 64};

std::string schedule_error(const DecodeSchedule& schedule,
                           kvevict::ErrorKind kind = kvevict::ErrorKind::invalid_argument) {
  return refused([&] { Evictor(TestPolicy::named("KNorm"), shape.decode(), schedule); }, kind);
}

std::string options_error(const DecodeEvidenceOptions& options) {
  return refused(
      [&] { Evictor(TestPolicy::named("KNorm"), shape.decode(), {.row_limit = 8}, options); });
}

// An evictor with 12 rows in each head; checks that a refused call leaves no trace.
struct Running {
  TestResources res{{.threads = 1}};
  Selection kept;
  Engine<float> engine{CacheLayout::hnd, shape, 70};
  Evictor evictor;

  Running(const char* policy, const DecodeSchedule& schedule)
      : evictor(TestPolicy::named(policy), shape.decode(), schedule, short_memory()) {
    for (int step = 0; step < 12; ++step) decode_step(res, evictor, engine, kept, 1);
  }

  template <class Call>
  std::string refused_unchanged(Call&& call, kvevict::ErrorKind kind) {
    const std::vector<std::byte> before = evictor.save(res);
    const std::string text = refused(call, kind);
    CHECK(evictor.save(res) == before);
    CHECK(engine.differences() == 0);
    return text;
  }
  template <class Call>
  std::string refused_budget(Call&& call) {
    return refused_unchanged(call, kvevict::ErrorKind::budget);
  }
  template <class Call>
  std::string refused_argument(Call&& call) {
    return refused_unchanged(call, kvevict::ErrorKind::invalid_argument);
  }
};

}  // namespace

TEST_CASE("schedules outside their bounds", "[decode]") {
  CHECK(schedule_error({.row_limit = 0}) == "row_limit is 0, must be >= 1");
  CHECK(schedule_error({.row_limit = kvevict::max_rows_per_head + 1}) ==
        "row_limit is 2147483648, must be <= 2147483647");
  CHECK(schedule_error({.row_limit = 8, .slack = -1}) == "slack is -1, must be >= 0");
  CHECK(schedule_error({.row_limit = 8, .slack = 8}) == "slack is 8, must be below row_limit, 8");
  CHECK(schedule_error({.row_limit = 8, .head_limit = 7}) ==
        "head_limit is 7, must be 0 or at least row_limit, 8");
  CHECK(schedule_error({.row_limit = 8, .interval = -1}) == "interval is -1, must be >= 0");
  CHECK(schedule_error({.interval = 4}) ==
        "target is none, must be given for an interval without row_limit");
  CHECK(schedule_error({.row_limit = 8, .protect = kvevict::Protect{.sinks = -1}}) ==
        "protect.sinks is -1, must be >= 0");
  CHECK(schedule_error({.row_limit = 8, .protect = kvevict::Protect{.sinks = 4, .recent = 5}},
                       kvevict::ErrorKind::budget) ==
        "row_limit is 8, must be at least the sinks and recent rows that are protected");
  CHECK(schedule_error({.row_limit = 8, .protect = kvevict::Protect{.sinks = 4, .recent = 4}}) ==
        "nothing was thrown");
}

TEST_CASE("shapes and evidence options outside their bounds", "[decode]") {
  const auto shape_error = [](const DecodeShape& bad) {
    return refused([&] { Evictor(TestPolicy::named("KNorm"), bad, {.row_limit = 8}); });
  };
  CHECK(shape_error({0, 4, 4}) == "kv_heads is 0, must be >= 1");
  CHECK(shape_error({2, 0, 4}) == "query_heads is 0, must be >= 1");
  CHECK(shape_error({2, 3, 4}) == "query_heads is 3, must be a multiple of kv_heads, 2");
  CHECK(shape_error({2, 4, 0}) == "dim is 0, must be >= 1");
  CHECK(options_error({.rope = {.theta = 0.0}}) == "rope.theta is 0, must be finite and > 0");
  CHECK(options_error({.recent_queries = 0}) == "recent_queries is 0, must be >= 1");
  CHECK(options_error({.decay = 0.0}) == "decay is 0, must be in (0, 1]");
  CHECK(options_error({.future = 0}) == "future is 0, must be >= 1");
  CHECK(options_error({.skip_first = -1}) == "skip_first is -1, must be >= 0");
  CHECK(options_error({.window = -1}) == "window is -1, must be >= 0");
  CHECK(options_error({.probe_queries = 0}) == "probe_queries is 0, must be >= 1");
  CHECK(options_error({.last_probes = -1}) == "last_probes is -1, must be >= 0");
  CHECK(options_error({.last_probes = 0, .sampled_probes = 0}) ==
        "last_probes + sampled_probes is 0, must be >= 1");
  CHECK(options_error({.probe_future = 0}) == "probe_future is 0, must be >= 1");
  CHECK(options_error({.attention_mass = kvevict::H2O{.decay = 2.0}}) ==
        "decay is 2, must be in (0, 1]");
  CHECK(refused([&] {
          kvevict::DecodeEvictor<kvevict::SnapKV>(kvevict::SnapKV{.window = 0}, shape.decode(),
                                                  {.row_limit = 8});
        }) == "window is 0, must be >= 1");
}

TEST_CASE("a limit below what is protected and comes in", "[decode]") {
  for (const char* const name : {"KNorm", "H2O", "SnapKV", "ExpectedAttention"}) {
    Running it(name, {.row_limit = 12, .protect = kvevict::Protect{.sinks = 4, .recent = 6}});
    const auto room = [&](std::int64_t rows) {
      return it.refused_budget(
          [&] { it.evictor.make_room(it.res, it.kept, it.engine.view(), rows); });
    };
    CHECK(room(3) == "protected and incoming rows of head 0 is 13, must be at most its limit, 12");
    CHECK(room(13) == "incoming is 13, must be at most row_limit, 12");
    CHECK(it.refused_argument([&] {
      it.evictor.make_room(it.res, it.kept, it.engine.view(), -1);
    }) == "incoming is -1, must be >= 0");
    // Two more fit.
    CHECK(decode_step(it.res, it.evictor, it.engine, it.kept, 2));
    CHECK(it.engine.rows(0) == 12);
  }
}

TEST_CASE("ragged heads: what must be kept and what is allocated", "[decode]") {
  Running it("KNorm",
             {.row_limit = 12, .head_limit = 14, .protect = kvevict::Protect{.recent = 6}});
  const auto room = [&](std::int64_t rows, const kvevict::GlobalBudget& allocator) {
    return it.refused_budget(
        [&] { it.evictor.make_room(it.res, it.kept, it.engine.view(), rows, {}, allocator); });
  };
  const kvevict::GlobalBudget floors{.floor = 9, .allow_incomparable = true};
  CHECK(room(4, floors) ==
        "protected and incoming rows of all heads is 26, must be at most heads x row_limit, 24");
  CHECK(room(6, floors) ==
        "protected and incoming rows of head 0 is 15, must be at most its limit, 14");
}

TEST_CASE("ragged heads: an allocator without a cap that gives too much", "[decode]") {
  struct MoreForTheFirst {
    std::int64_t more;
    void allocate(TestResources&, const kvevict::AllocationInput<>& input,
                  std::int64_t* counts) const {
      counts[0] = input.shares[0] + more;
      counts[1] = input.shares[1] - more;
    }
  };
  Running it("H2O", {.row_limit = 12, .head_limit = 14, .protect = unprotected});
  CHECK(it.refused_budget([&] {
    it.evictor.make_room(it.res, it.kept, it.engine.view(), 4, {}, MoreForTheFirst{3});
  }) == "rows allocated of head 0 is 11, must be at most its limit without the incoming rows, 10");
  REQUIRE(it.evictor.make_room(it.res, it.kept, it.engine.view(), 4, {}, MoreForTheFirst{2}));
  CHECK(it.kept.count(0) == 10);
}

TEST_CASE("caches that are not what was told", "[decode]") {
  Running it("H2O", {.row_limit = 12, .protect = unprotected});
  const kvevict::KvView<float> whole = it.engine.view();
  const auto room = [&](const kvevict::KvView<float>& cache) {
    return it.refused_argument([&] { it.evictor.make_room(it.res, it.kept, cache, 1); });
  };
  const auto with_rows = [&](std::int64_t heads, std::int64_t rows) {
    return kvevict::KvView<float>(
        kvevict::RowsView<float>::strided(whole.keys().head(0).data, heads, rows, 4, 256, 4),
        kvevict::RowsView<float>::strided(whole.values().head(0).data, heads, rows, 4, 256, 4),
        whole.positions());
  };
  CHECK(room(with_rows(2, 11)) ==
        "cache.rows of head 0 is 11, must be those that it was told of, 12");
  CHECK(room(with_rows(2, 13)) ==
        "cache.rows of head 0 is 13, must be those that it was told of, 12");
  CHECK(room(with_rows(1, 12)) == "cache.heads is 1, must be equal to kv_heads, 2");
  CHECK(room(whole.with_positions({})) ==
        "cache.positions is consecutive, must be stored: rows keep theirs when others are evicted");
  std::vector<std::int32_t> shared(12);
  for (std::size_t i = 0; i < 12; ++i) shared[i] = static_cast<std::int32_t>(i);
  CHECK(it.refused_unchanged(
            [&] {
              it.evictor.make_room(
                  it.res, it.kept,
                  whole.with_positions(kvevict::MutablePositions<>::shared(shared.data())), 1);
            },
            kvevict::ErrorKind::unsupported) ==
        "cache.positions is shared by all heads, must be packed or per head, since heads keep "
        "different rows");
  CHECK(room(kvevict::KvView<float>(
            kvevict::RowsView<float>::strided(whole.keys().head(0).data, 2, 12, 3, 256, 4),
            kvevict::RowsView<float>::strided(whole.values().head(0).data, 2, 12, 3, 256, 4),
            whole.positions())) == "cache.keys.dim is 3, must be equal to dim, 4");
}

TEST_CASE("rows that were appended elsewhere than told", "[decode]") {
  Running it("SnapKV", {.row_limit = 12, .protect = unprotected});
  REQUIRE(decode_step(it.res, it.evictor, it.engine, it.kept, 1));
  const auto observe = [&](std::int64_t tokens, const kvevict::DecodeQueries<>& queries) {
    return it.refused_argument(
        [&] { it.evictor.observe(it.res, it.engine.view(), tokens, queries); });
  };
  CHECK(observe(1, {}) == "cache.rows of head 0 is 12, must be those that it was told of, 13");
  CHECK(observe(-1, {}) == "tokens is -1, must be >= 0");
  REQUIRE(it.evictor.make_room(it.res, it.kept, it.engine.view(), 1));
  it.engine.keep(it.kept);
  // The number of rows is not the next position.
  it.engine.append(12, 1);
  const TokenQueries one = it.engine.queries(13, 1);
  CHECK(observe(1, one.view()) ==
        "position of a new row of head 0 is 12, must be that of its token, 13");
}

TEST_CASE("queries that are missing or of another shape", "[decode]") {
  for (const char* const name : {"SnapKV", "ExpectedAttention", "H2O", "Jacap"}) {
    INFO(name);
    Running it(name, {.row_limit = 40, .protect = unprotected});
    it.engine.append(12, 2);
    const TokenQueries queries = it.engine.queries(12, 2);
    const std::string which = it.evictor.needs_pre_rope() ? "pre_rope" : "post_rope";
    const auto observe = [&](const kvevict::QueriesView<>& given) {
      return it.refused_argument([&] {
        it.evictor.observe(it.res, it.engine.view(), 2, {given, given});
      });
    };
    CHECK(observe({}) == "queries." + which + ".heads is 0, must be equal to 4");
    // Those of one of two layers: all heads are observed together.
    CHECK(observe(kvevict::QueriesView<>::packed(queries.pre_rope.data(), 2, 2, 4)) ==
          "queries." + which + ".heads is 2, must be equal to 4");
    CHECK(observe(queries.pre().last(1)) ==
          "queries." + which + ".count is 1, must be equal to the tokens, 2");
    CHECK(observe(kvevict::QueriesView<>::packed(queries.pre_rope.data(), 4, 2, 3)) ==
          "queries." + which + ".dim is 3, must be equal to 4");
    it.evictor.observe(it.res, it.engine.view(), 2, queries.view());
    CHECK(it.evictor.next_position() == 14);
  }
}

TEST_CASE("resets and notes that do not fit", "[decode]") {
  Running it("H2O", {.row_limit = 12, .protect = unprotected});
  const std::vector<std::int64_t> rows = {3, 9};
  CHECK(it.refused_argument([&] { it.evictor.reset(-1); }) ==
        "tokens_seen is -1, must be in [0, 2^31)");
  CHECK(it.refused_argument([&] { it.evictor.reset(8, rows); }) ==
        "rows is 9, must be in [0, tokens_seen], tokens_seen = 8");
  CHECK(it.refused_argument([&] { it.evictor.reset(8, std::span(rows).first(1)); }) ==
        "rows.size is 1, must be 0 or kv_heads, 2");
  Selection kept;
  kept.reshape(std::vector<std::int64_t>{1});
  CHECK(it.refused_argument([&] { it.evictor.commit(it.res, kept); }) ==
        "kept.heads is 1, must be equal to kv_heads, 2");
  kept.reshape(std::vector<std::int64_t>{1, 13});
  CHECK(it.refused_argument([&] { it.evictor.commit(it.res, kept); }) ==
        "kept rows of head 1 is 13, must be at most those held, 12");
  it.evictor.reset(9, rows);
  CHECK(it.evictor.rows(1) == 9);
  CHECK(it.evictor.dropped(0) == 6);
  CHECK(it.evictor.next_position() == 9);
}

TEST_CASE("a compaction that would be refused is not noted", "[decode]") {
  // The second page is the first one again: rows can be read, not moved.
  const std::vector<std::int32_t> ids = {0, 0, 1};
  const EngineShape one{.heads = 1, .group = 2, .dim = 4, .capacity = 12};
  std::vector<float> keys(3 * 4 * 4, 1.0f);
  std::vector<float> values = keys;
  std::vector<std::int32_t> positions(12);
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
  const auto cache =
      kvevict::KvView<float>::paged_nhd(
          keys.data(), values.data(),
          {.ids = ids.data(), .tables = 1, .stride = 3, .heads_per_table = 1, .pages = 2},
          kvevict::RowLayout<>::uniform(1, 10), 4, 1, 4)
          .with_positions(kvevict::MutablePositions<>::packed(positions.data()));
  TestResources res({.threads = 1});
  Selection kept;
  Evictor evictor(TestPolicy::named("H2O"), one.decode(),
                  {.row_limit = 10, .protect = unprotected});
  const Engine<float> engine(CacheLayout::hnd, one, 5);
  evictor.observe(res, cache, 10, engine.queries(0, 10).view());
  const std::vector<std::byte> before = evictor.save(res);
  CHECK(refused([&] { evictor.make_room(res, kept, cache, 2); }) ==
        "page_table[1] of head 0 is 0, must be another page, since rows are written, than that of "
        "entry 0");
  CHECK(evictor.save(res) == before);
}

TEST_CASE("a prefix that sequences share is not written to", "[decode]") {
  // Two sequences in step of one head, 4 rows a page; pages 6 and 3 are the prefix of both.
  const std::vector<std::int32_t> ids = {6, 3, 0, 1, 6, 3, 4, 7};
  const EngineShape two{.heads = 2, .group = 2, .dim = 4, .capacity = 16};
  TestResources res({.threads = 1});
  for (const bool prefix_stays : {true, false}) {
    std::vector<float> keys = random_values(Shape::normal, 8 * 4 * 4, 1);
    std::vector<float> values = random_values(Shape::normal, 8 * 4 * 4, 2);
    std::vector<std::int32_t> positions;
    for (std::int32_t i = 0; i < 28; ++i) positions.push_back(i % 14);
    const auto cache =
        kvevict::KvView<float>::paged_nhd(keys.data(), values.data(), {ids.data(), 2, 4, 1, 8},
                                          kvevict::RowLayout<>::uniform(2, 14), 4, 1, 4)
            .with_positions(kvevict::MutablePositions<>::packed(positions.data()));
    const auto before = std::tuple(keys, values, positions);
    Evictor evictor(
        TestPolicy::named("H2O"), two.decode(),
        {.row_limit = 14, .slack = 5, .protect = kvevict::Protect{.sinks = prefix_stays ? 8 : 2}});
    const TokenContents contents(two, 5);
    evictor.observe(res, cache, 14, contents.queries(0, 14).view());
    const std::vector<std::byte> state = evictor.save(res);
    // The newest rows are the heaviest.
    std::vector<float> mass;
    for (int i = 0; i < 28; ++i) mass.push_back(static_cast<float>(i % 14));
    kvevict::Evidence<> given;
    given.attention_mass = {mass.data(), kvevict::RowLayout<>::uniform(2, 14)};
    Selection kept;
    const std::string text = refused([&] { evictor.make_room(res, kept, cache, 1, given); });
    if (prefix_stays) {
      CHECK(text == "nothing was thrown");
      CHECK(evictor.rows(0) == 9);
      for (const std::int32_t page : {6, 3}) {
        const auto first = page * 4 * 4;
        CHECK(std::equal(keys.begin() + first, keys.begin() + first + 16,
                         std::get<0>(before).begin() + first));
      }
    } else {
      CHECK(text ==
            "page_table[0] of head 0 is 6, must be another page, since rows are written, than that "
            "of entry 0 of head 1");
      CHECK(std::tuple(keys, values, positions) == before);
      CHECK(evictor.save(res) == state);
    }
  }
}

TEST_CASE("an observation that runs out of workspace changes nothing", "[decode]") {
  const kvevict::EvidenceSet both = {kvevict::EvidenceKind::attention_mass,
                                     kvevict::EvidenceKind::query_stats,
                                     kvevict::EvidenceKind::query_covariance_full};
  DecodeEvidenceOptions options;
  options.collect = both;
  const auto made = [&] {
    return Evictor(TestPolicy::named("KNorm"), shape.decode(), {.row_limit = 64}, options);
  };
  Engine<float> engine(CacheLayout::hnd, shape, 71);
  engine.append(0, 30);
  const TokenQueries queries = engine.queries(0, 30);
  TestResources enough({.threads = 1});
  Evictor undisturbed = made();
  undisturbed.observe(enough, engine.view(), 30, queries.view());

  Evictor evictor = made();
  const std::vector<std::byte> before = evictor.save(enough);
  int refusals = 0;
  for (std::size_t bytes = 0;; bytes += 256) {
    std::vector<std::byte> memory(bytes + 256);
    TestResources res({.threads = 1, .workspace = memory.data(), .workspace_bytes = bytes});
    try {
      evictor.observe(res, engine.view(), 30, queries.view());
      break;
    } catch (const kvevict::Error&) {
      ++refusals;
      REQUIRE(evictor.save(enough) == before);
    }
  }
  CHECK(refusals > 3);
  CHECK(evictor.save(enough) == undisturbed.save(enough));
}

}  // namespace errors_test
