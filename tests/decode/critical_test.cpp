// SPDX-License-Identifier: Apache-2.0
// CriticalKV while decoding: every eviction takes the rows that its two stages say, whatever each
// head is to keep.
#include <vector>

#include "catch.hpp"
#include "decode/engine.hpp"
#include "decorators/two_stages.hpp"
#include "kvevict/allocators/adaptive.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/projected_norms.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/score_combination.hpp"
#include "kvevict/cpu/score_marks.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "kvevict/decorators/critical_kv.hpp"
#include "kvevict/policies/tova.hpp"

namespace critical_test {

using namespace kvevict_test;
using kvevict::CriticalKV;
using kvevict::Selection;
using kvevict::TOVA;

namespace {

constexpr EngineShape shape{.heads = 3, .group = 2, .dim = 6, .capacity = 64};

}  // namespace

TEST_CASE("CriticalKV keeps a cache within its limit by two stages", "[decode][critical]") {
  constexpr std::size_t outputs = 5;
  const std::vector<float> w = random_values(
      Shape::normal, shape.heads * shape.group * std::int64_t{outputs} * shape.dim, 8);
  kvevict::Evidence<> given;
  given.output_projection = {kvevict::MatrixBatchView<const float>::packed(
      w.data(), shape.heads * shape.group, std::int64_t{outputs}, shape.dim)};
  const kvevict::DecodeSchedule schedule{.row_limit = 24,
                                         .slack = 4,
                                         .head_limit = 40,
                                         .protect = kvevict::Protect{.sinks = 2, .recent = 3}};
  const kvevict::AdaptiveBudget allocator{.safeguard = 0.3};
  kvevict::DecodeEvictor<CriticalKV<TOVA>> evictor({}, shape.decode(), schedule);
  Engine<float> engine(CacheLayout::paged_by_head, shape, 60);
  TestResources res({.threads = 1});
  Selection kept;
  int evictions = 0;
  bool ragged = false;
  for (int step = 0; step < 90; ++step) {
    // What the rows are to be chosen by, as they are before.
    const auto cache = kvevict::KvView<const float>(engine.view());
    std::vector<float> scores(static_cast<std::size_t>(cache.layout().total()));
    std::vector<reference::Matrix> values;
    std::vector<std::int64_t> firsts;
    if (evictor.due(1)) {
      score_rows(res, TOVA{}, cache, evictor.evidence(res),
                 kvevict::ScoreView<>{scores.data(), cache.layout()});
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        const auto head = cache.values().head(h);
        auto& of_head = values.emplace_back(static_cast<std::size_t>(head.rows),
                                            static_cast<std::size_t>(head.dim));
        for (std::int64_t i = 0; i < head.rows * head.dim; ++i) {
          of_head(static_cast<std::size_t>(i / head.dim), static_cast<std::size_t>(i % head.dim)) =
              static_cast<double>(head(i / head.dim, i % head.dim));
        }
        firsts.push_back(cache.layout().offset(h));
      }
    }
    std::vector<std::vector<std::int32_t>> before;
    for (std::int64_t h = 0; h < shape.heads; ++h) before.push_back(engine.held(h));
    if (evictor.make_room(res, kept, engine.view(), 1, given, allocator)) {
      ++evictions;
      engine.keep(kept);
      for (std::size_t h = 0; h < 3; ++h) {
        const auto first = scores.begin() + firsts[h];
        const std::vector<float> of_head(first,
                                         first + static_cast<std::ptrdiff_t>(values[h].rows));
        const reference::Positions positions(before[h].begin(), before[h].end());
        const auto count = kept.count(static_cast<std::int64_t>(h));
        const reference::Rows want = two_stage_rows(
            of_head, projected_sums(values[h], w, 2 * h, 2, outputs),
            reference::protected_rows(positions, 2, 3), static_cast<std::size_t>(count));
        const auto rows = kept.head(static_cast<std::int64_t>(h));
        INFO("step " << step << ", head " << h);
        REQUIRE(reference::Rows(rows.begin(), rows.end()) == want);
        ragged = ragged || count != kept.count(0);
      }
    }
    const std::int64_t next = evictor.next_position();
    engine.append(next, 1);
    evictor.observe(res, engine.view(), 1, engine.queries(next, 1).view());
    REQUIRE(engine.total() <= 3 * 24);
    REQUIRE(engine.differences() == 0);
  }
  REQUIRE(evictions > 5);
  REQUIRE(ragged);
}

}  // namespace critical_test
