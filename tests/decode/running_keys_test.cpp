// SPDX-License-Identifier: Apache-2.0
// What is known of keys from before: their norms, and the sums of their directions.
#include "kvevict/running_keys.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"
#include "decode/engine.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "kvevict/cpu/streamed_rows.hpp"
#include "kvevict/decorators/block_streaming.hpp"

namespace running_keys_test {

using namespace kvevict_test;

using kvevict::BlockStreaming;
using kvevict::DecodeEvictor;
using kvevict::DecodeSchedule;
using kvevict::KeyDiff;
using kvevict::KNorm;
using kvevict::RunningKeyDirection;
using kvevict::RunningKeyNorms;
using kvevict::Selection;

namespace {

constexpr EngineShape shape{.heads = 3, .group = 1, .dim = 4, .capacity = 64};

/// Of an anchor, at most 1 long: the norms are sums of four squares and a root in fp32, 3 roundings
/// of half a unit, and the mean is rounded once. What its sum in double is off by is far below.
constexpr double anchor_tolerance = 4 * 0x1p-24;

/// Of head h, the mean of k / |k| by a loop in double.
template <class T>
std::vector<double> mean_direction_of(const Engine<T>& engine, std::int64_t h) {
  std::vector<double> mean(static_cast<std::size_t>(shape.dim), 0.0);
  std::vector<double> key(mean.size());
  for (const std::int32_t position : engine.held(h)) {
    engine.key_numbers(h, position, key.data());
    double square = 0.0;
    for (const double x : key) square += x * x;
    for (std::size_t c = 0; c < key.size(); ++c) {
      mean[c] += key[c] / std::sqrt(square) / static_cast<double>(engine.rows(h));
    }
  }
  return mean;
}

/// Some rows of each head: all but `leaving` of them, or now and then no more than a few.
template <class T>
Selection random_rows(const Engine<T>& engine, std::int64_t leaving, const Random& random,
                      std::uint64_t& next) {
  std::vector<std::vector<std::int32_t>> heads;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const std::int64_t rows = engine.rows(h);
    const bool few = random.integer(next++, 10) == 0;
    const std::int64_t stay = few ? random.integer(next++, 4) : rows - std::min(leaving, rows);
    std::vector<std::int32_t>& kept = heads.emplace_back();
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t wanted = stay - static_cast<std::int64_t>(kept.size());
      if (random.integer(next++, rows - row) < wanted) {
        kept.push_back(static_cast<std::int32_t>(row));
      }
    }
  }
  return selection_of(heads);
}

/// Norms to the bit, directions to their tolerance.
template <class T>
void require_known(TestResources& res, Engine<T>& engine, RunningKeyNorms& norms,
                   RunningKeyDirection& directions) {
  const auto keys = engine.view().keys();
  std::vector<float> anew(static_cast<std::size_t>(keys.layout().total()) + 1);
  row_norms(res, keys, 1.0f, kvevict::ScoreView<>{anew.data(), keys.layout()});
  const kvevict::KeyNorms<> known = norms.norms(res, keys);
  REQUIRE(kvevict::same_rows(known.layout, keys.layout()));
  REQUIRE(std::equal(known.data, known.data + keys.layout().total(), anew.data()));
  const auto found = directions.directions(res, keys).directions;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    if (engine.rows(h) == 0) continue;
    const std::vector<double> want = mean_direction_of(engine, h);
    for (std::int64_t c = 0; c < shape.dim; ++c) {
      REQUIRE(std::abs(found(h, c) - want[static_cast<std::size_t>(c)]) <= anchor_tolerance);
    }
  }
}

/// Two evictors of one policy, one that follows its keys and one that reads them anew.
template <class P, class T>
class Twins {
 public:
  Twins(const P& policy, CacheLayout layout, const DecodeSchedule& schedule)
      : following(policy, shape.decode(), schedule),
        anew(policy, shape.decode(), schedule, {.collect = kvevict::EvidenceSet{}}),
        engine(layout, shape, 71),
        plain(layout, shape, 71) {}

  void step(TestResources& res, std::int64_t tokens) {
    const bool evicted = decode_step(res, following, engine, kept, tokens);
    REQUIRE(decode_step(res, anew, plain, kept_anew, tokens) == evicted);
    evictions += evicted ? 1 : 0;
    REQUIRE(engine.differences() == 0);
    for (std::int64_t h = 0; h < shape.heads; ++h) REQUIRE(engine.held(h) == plain.held(h));
  }

  DecodeEvictor<P> following;
  DecodeEvictor<P> anew;
  Engine<T> engine;
  Engine<T> plain;
  Selection kept;
  Selection kept_anew;
  int evictions = 0;
};

template <class P, class T>
void run_twins(const P& policy) {
  TestResources res({.threads = 1});
  const DecodeSchedule schedules[] = {
      {.row_limit = 24, .slack = 2, .protect = unprotected},
      {.row_limit = 40, .interval = 9, .target = kvevict::Budget::rows(7), .protect = unprotected}};
  for (const CacheLayout layout : all_layouts) {
    for (const DecodeSchedule& schedule : schedules) {
      CAPTURE(policy.name(), static_cast<int>(layout), schedule.interval);
      Twins<P, T> twins(policy, layout, schedule);
      for (int step = 0; step < 120; ++step) twins.step(res, 1 + step % 3);
      CHECK(twins.evictions > 10);
      // Another object goes on from what was saved, and for another sequence.
      const std::vector<std::byte> state = twins.following.save(res);
      twins.following.restore(res, state);
      for (int step = 0; step < 40; ++step) twins.step(res, 2);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("norms and directions follow rows that come and leave", "[decode][keys]", float,
                   kvevict::half) {
  TestResources res({.threads = 2});
  const Random random(72);
  std::uint64_t next = 0;
  Engine<TestType> engine(CacheLayout::ragged, shape, 73);
  RunningKeyNorms norms;
  RunningKeyDirection directions(shape.dim);
  std::int64_t position = 0;
  for (int step = 0; step < 2000; ++step) {
    const std::int64_t tokens = random.integer(next++, 4);
    engine.append(position, tokens);
    position += tokens;
    require_known(res, engine, norms, directions);
    if (engine.longest() < 40) continue;
    const Selection kept = random_rows(engine, 1 + random.integer(next++, 6), random, next);
    if (random.integer(next++, 5) == 0) {  // of an engine that has moved its rows already
      directions.forget_leaving(kept.view());
    } else {
      directions.subtract_leaving(res, kept.view(), engine.view().keys());
      directions.leave();
    }
    norms.compact(res, kept.view());
    kvevict::compact(res, kept, engine.view());
    engine.keep(kept);
    require_known(res, engine, norms, directions);
  }
}

TEST_CASE("sums of directions are made anew before they drift", "[decode][keys]") {
  // Half of 40 rows leave each time: 2^-52 * 20 * 40 more that a sum may be off by, of 1e-10 * 20
  // that it may be.
  TestResources res({.threads = 1});
  Engine<float> engine(CacheLayout::hnd, shape, 74);
  RunningKeyNorms norms;
  RunningKeyDirection directions(shape.dim);
  const std::int64_t most = static_cast<std::int64_t>(1e-10 * 20 / (0x1p-52 * 20 * 40));
  std::vector<std::int32_t> every_other;
  for (std::int32_t row = 0; row < 40; row += 2) every_other.push_back(row);
  const Selection kept = selection_of({every_other, every_other, every_other});
  engine.append(0, 20);
  std::int64_t anew = 0;
  for (std::int64_t step = 1; step <= 2 * most + 10; ++step) {
    engine.append(20 * step, 20);
    if (step % 100 == 0) require_known(res, engine, norms, directions);
    directions.subtract_leaving(res, kept.view(), engine.view().keys());
    directions.leave();
    norms.compact(res, kept.view());
    kvevict::compact(res, kept, engine.view());
    engine.keep(kept);
    REQUIRE(directions.rows(0) == directions.rows(2));
    if (directions.rows(0) == 0) {
      ++anew;
      REQUIRE(std::abs(step - anew * (most + 1)) <= anew);
    }
  }
  CHECK(anew == 2);
}

TEST_CASE("evictors that follow their keys keep the same rows", "[decode][keys]") {
  run_twins<KNorm, float>({});
  run_twins<KNorm, kvevict::bfloat16>({});
  run_twins<KeyDiff, float>({});
  run_twins<KeyDiff, kvevict::half>({});
  // Which gives its inner policy some of the rows alone.
  run_twins<BlockStreaming<KeyDiff>, float>({.keep = 6, .block = 4});
  run_twins<BlockStreaming<KNorm>, float>({.keep = 6, .block = 4});
}

TEST_CASE("norms are known to the bit, so rows are the same whatever happens", "[decode][keys]") {
  // select and commit, rows that are dropped by hand, sequences that are taken over.
  TestResources res({.threads = 1});
  const DecodeSchedule schedule{.row_limit = 20, .slack = 3, .protect = unprotected};
  Twins<KNorm, float> twins({}, CacheLayout::paged, schedule);
  for (int step = 0; step < 60; ++step) {
    const auto evict_by_hand = [&](auto& evictor, Engine<float>& engine) {
      if (!evictor.select(res, twins.kept, engine.view(), 1)) return;
      evictor.commit(res, twins.kept);
      kvevict::compact(res, twins.kept, engine.view());
      engine.keep(twins.kept);
    };
    evict_by_hand(twins.following, twins.engine);
    evict_by_hand(twins.anew, twins.plain);
    twins.step(res, 1);
    if (step == 30) {
      std::vector<std::int64_t> rows;
      for (std::int64_t h = 0; h < shape.heads; ++h) rows.push_back(twins.engine.rows(h));
      twins.following.reset(twins.following.next_position(), rows);
    }
  }
}

TEST_CASE("a key that is no number is forgotten when it leaves", "[decode][keys]") {
  TestResources res({.threads = 1});
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Engine<float> engine(CacheLayout::hnd, shape, 77);
    RunningKeyNorms norms;
    RunningKeyDirection directions(shape.dim);
    engine.append(0, 10);
    const auto keys = engine.view().keys();
    keys.head(1)(4, 2) = bad;
    CHECK_FALSE(std::isfinite(directions.directions(res, keys).directions(1, 2)));
    const Selection kept =
        selection_of({rows_from(0, 9), {0, 1, 2, 3, 5, 6, 7, 8, 9}, rows_from(1, 9)});
    directions.subtract_leaving(res, kept.view(), keys);
    directions.leave();
    kvevict::compact(res, kept, engine.view());
    engine.keep(kept);
    require_known(res, engine, norms, directions);
  }
}

TEST_CASE("directions are the same on any number of threads, alone and together",
          "[decode][keys]") {
  Engine<float> engine(CacheLayout::ragged, shape, 78);
  engine.append(0, 50);
  const auto keys = engine.view().keys();
  TestResources one({.threads = 1});
  RunningKeyDirection together(shape.dim);
  const auto of_one = together.directions(one, keys).directions;
  for (const int threads : {2, 5}) {
    TestResources res({.threads = threads});
    RunningKeyDirection directions(shape.dim);
    const auto found = directions.directions(res, keys).directions;
    CHECK(std::equal(found.data, found.data + found.size(), of_one.data));
  }
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const auto head = keys.head(h);
    const auto alone = kvevict::RowsView<const float>::strided(head.data, 1, head.rows, shape.dim,
                                                               0, head.row_stride);
    RunningKeyDirection directions(shape.dim);
    const auto found = directions.directions(one, alone).directions;
    CHECK(std::equal(found.data, found.data + shape.dim, of_one.data + h * shape.dim));
  }
}

TEST_CASE("keys that were changed are read anew when told", "[decode][keys]") {
  TestResources res({.threads = 1});
  const DecodeSchedule schedule{.row_limit = 12, .protect = unprotected};
  DecodeEvictor<KNorm> evictor({}, shape.decode(), schedule);
  Engine<float> engine(CacheLayout::hnd, shape, 75);
  Selection kept;
  for (int step = 0; step < 20; ++step) decode_step(res, evictor, engine, kept, 1);
  // The rows of the least norm become those of the largest.
  const auto keys = engine.view().keys();
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    for (std::int64_t c = 0; c < shape.dim; ++c) keys.head(h)(0, c) = 1000.0f;
  }
  evictor.keys_changed();
  REQUIRE(evictor.select(res, kept, engine.view(), 1));
  for (std::int64_t h = 0; h < shape.heads; ++h) CHECK(kept.head(h)[0] == 1);
}

TEST_CASE("running norms and directions refuse what does not belong to them", "[decode][keys]") {
  TestResources res({.threads = 1});
  Engine<float> engine(CacheLayout::hnd, shape, 76);
  engine.append(0, 6);
  RunningKeyNorms norms;
  RunningKeyDirection directions(shape.dim);
  require_known(res, engine, norms, directions);
  const std::vector<std::int32_t> all = rows_from(0, 6);
  const Selection kept = selection_of({all, all, all});
  directions.subtract_leaving(res, kept.view(), engine.view().keys());
  directions.leave();
  engine.take_back(2);
  const auto keys = engine.view().keys();
  CHECK(refused([&] { norms.norms(res, keys); }) ==
        "key_norms.rows of head 0 is 6, must be at most the rows of the head, 4");
  CHECK(refused([&] { directions.directions(res, keys); }) ==
        "begin of head 0 is 6, must be in [0, rows], rows = 4");
  CHECK(refused([&] { norms.compact(res, selection_of({all}).view()); }) ==
        "kept.heads is 1, must be equal to those of the norms, 3");
  RunningKeyDirection wider(shape.dim + 1);
  CHECK(refused([&] { wider.directions(res, keys); }) ==
        "dim is 5, must be equal to the dimension of the rows, 4");
  // As evidence of another cache.
  const std::vector<float> some(64, 1.0f);
  std::vector<float> scores(64);
  const kvevict::ScoreView<> out{scores.data(), keys.layout()};
  const auto problem = [&](const auto& policy, const kvevict::Evidence<>& given) {
    return refused([&] { kvevict::score_rows(res, policy, engine.view(), given, out); });
  };
  const kvevict::RowLayout<> longer = kvevict::RowLayout<>::uniform(3, 5);
  CHECK(problem(KNorm{}, {.key_norms = kvevict::KeyNorms<>{some.data(), longer}}) ==
        "key_norms.rows is different, must be one norm for each row of each head");
  const auto anchors = [&](std::int64_t heads, std::int64_t dim) {
    kvevict::Evidence<> given;
    given.mean_key_direction = {kvevict::MatrixView<const float>::packed(some.data(), heads, dim)};
    return given;
  };
  CHECK(problem(KeyDiff{}, anchors(2, 4)) ==
        "mean_key_direction.heads is 2, must be equal to the KV heads, 3");
  CHECK(problem(KeyDiff{}, anchors(3, 5)) ==
        "mean_key_direction.dim is 5, must be equal to the dimension of the rows, 4");
}

}  // namespace running_keys_test
