// SPDX-License-Identifier: Apache-2.0
// Sequences that share the pages of one pool, begun, copied and ended at random, each with tables,
// positions and an evictor of its own. A second pool is written by a plain model of what each step
// does to the rows of its own sequence: after every step both are the same, byte by byte, so that
// no eviction writes to a page of another sequence.
#include <cstring>
#include <memory>

#include "decode/churn.hpp"
#include "kvevict/cpu/attention_statistic.hpp"
#include "kvevict/cpu/mass.hpp"
#include "kvevict/cpu/pooling.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "kvevict/cpu/row_weighting.hpp"

using namespace kvevict_test;

namespace {

template <class T, class P>
class PoolChurn {
 public:
  static constexpr std::size_t most_sequences = 6;

  PoolChurn(const P& policy, CacheLayout layout, const EngineShape& shape, std::uint64_t seed)
      : policy_(policy),
        layout_(layout),
        shape_(shape),
        random_(seed),
        projection_(shape),
        // Half of what they could fill.
        pool_(Engine<T>::memory_for(layout, shape, most_sequences / 2)),
        keys_(pool_->keys),
        values_(pool_->values) {}

  std::int64_t run(std::int64_t steps) {
    std::int64_t operations = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      INFO(policy_.name() << " layout " << static_cast<int>(layout_) << " step " << step);
      operations += 1 + one_step();
      REQUIRE(same(keys_, pool_->keys));
      REQUIRE(same(values_, pool_->values));
    }
    while (!sequences_.empty()) end(0);
    REQUIRE(pool_->free->count() == pool_->free->pages());
    return operations;
  }

 private:
  using Sequence = Churned<T, P>;

  static bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
  }

  std::int64_t drawn(std::int64_t count) { return random_.integer(next_++, count); }
  std::size_t drawn_sequence() {
    return static_cast<std::size_t>(drawn(static_cast<std::int64_t>(sequences_.size())));
  }

  // 1 if it evicted.
  std::int64_t one_step() {
    const std::int64_t action = drawn(40);
    if (sequences_.empty() || (action == 0 && sequences_.size() < most_sequences)) {
      begin();
      return 0;
    }
    const std::size_t which = drawn_sequence();
    if (action == 1) {
      end(which);
      return 0;
    }
    if (action == 2 && sequences_.size() < most_sequences && fits(shape_.capacity)) {
      copy(which);
      return 0;
    }
    const std::int64_t tokens = action < 8 ? drawn(9) : 1;
    if (!fits(tokens)) {
      end(drawn_sequence());
      return 0;
    }
    return step(which, tokens);
  }

  // Whether the free pages are enough for `rows` more rows of a sequence.
  bool fits(std::int64_t rows) const {
    const std::int64_t pages = PagePool::pages_of(rows, Engine<T>::page_rows) + 1;
    return shape_.heads * pages <= pool_->free->count();
  }

  void begin() {
    kvevict::DecodeSchedule schedule = random_schedule(shape_, random_, next_);
    seeds_.push_back(next_++);
    schedules_.push_back(schedule);
    sequences_.push_back(std::make_unique<Sequence>(policy_, layout_, shape_, schedule,
                                                    short_memory(), seeds_.back(), pool_));
  }

  void end(std::size_t which) {
    sequences_[which]->engine.reset();
    const auto at = static_cast<std::ptrdiff_t>(which);
    sequences_.erase(sequences_.begin() + at);
    schedules_.erase(schedules_.begin() + at);
    seeds_.erase(seeds_.begin() + at);
  }

  // A sequence that goes on twice: the same state, rows in pages of its own.
  void copy(std::size_t which) {
    seeds_.push_back(seeds_[which]);
    schedules_.push_back(schedules_[which]);
    sequences_.push_back(
        std::make_unique<Sequence>(*sequences_[which], layout_, seeds_.back(), pool_));
    Sequence& made = *sequences_.back();
    for (std::int64_t h = 0; h < shape_.heads; ++h) write_rows(made, h, 0);
    require_agreement(made);
  }

  std::int64_t step(std::size_t which, std::int64_t tokens) {
    Sequence& it = *sequences_[which];
    const bool evicted =
        schedules_[which].ragged()
            ? make_room(it, tokens, kvevict::GlobalBudget{.floor = 2, .allow_incomparable = true})
            : make_room(it, tokens, kvevict::UniformBudget{});
    const std::int64_t next = it.evictor.next_position();
    it.engine.append(next, tokens);
    for (std::int64_t h = 0; h < shape_.heads; ++h) write_rows(it, h, it.engine.rows(h) - tokens);
    it.evictor.observe(res_, it.engine.view(), tokens, it.engine.queries(next, tokens).view());
    it.shadow.observe(it.engine, next, tokens);
    require_agreement(it);
    return evicted ? 1 : 0;
  }

  template <class A>
  bool make_room(Sequence& it, std::int64_t tokens, const A& allocator) {
    if (!it.evictor.make_room(res_, kept_, it.engine.view(), tokens, projection_.evidence(),
                              allocator)) {
      return false;
    }
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      for (std::vector<T>* pool : {&keys_, &values_}) move_kept(it.engine, h, *pool);
    }
    it.engine.keep(kept_);
    it.shadow.keep(kept_);
    return true;
  }

  // The model's eviction: the kept rows are taken out and laid down one after another.
  void move_kept(const Engine<T>& engine, std::int64_t h, std::vector<T>& pool) {
    std::vector<T> out;
    for (const std::int32_t row : kept_.head(h)) {
      for (std::int64_t u = 0; u < engine.units(); ++u)
        out.push_back(pool[engine.place(h, row, u)]);
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.size()); ++i) {
      pool[engine.place(h, i / engine.units(), i % engine.units())] =
          out[static_cast<std::size_t>(i)];
    }
  }

  // The model's rows of head h from `first` on.
  void write_rows(const Sequence& it, std::int64_t h, std::int64_t first) {
    const Engine<T>& engine = it.engine;
    for (std::int64_t i = first; i < engine.rows(h); ++i) {
      const std::int32_t p = engine.held(h)[static_cast<std::size_t>(i)];
      for (std::int64_t u = 0; u < engine.units(); ++u) {
        keys_[engine.place(h, i, u)] = engine.contents().template unit<T>(0, h, p, u);
        values_[engine.place(h, i, u)] = engine.contents().template unit<T>(1, h, p, u);
      }
    }
  }

  void require_agreement(Sequence& it) {
    std::int64_t elsewhere = -it.engine.pages_held();
    for (const auto& sequence : sequences_) elsewhere += sequence->engine.pages_held();
    it.require_agreement(res_, elsewhere);
  }

  P policy_;
  CacheLayout layout_;
  EngineShape shape_;
  Random random_;
  std::uint64_t next_ = 0;
  IdentityProjection projection_;
  TestResources res_{{.threads = 1}};
  kvevict::Selection kept_;
  std::shared_ptr<CacheMemory<T>> pool_;
  std::vector<T> keys_;  // the model's pool
  std::vector<T> values_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<kvevict::DecodeSchedule> schedules_;
  std::vector<std::uint64_t> seeds_;
};

template <class T, class P>
std::int64_t churn_pools(const P& policy, std::int64_t dim, std::int64_t steps) {
  const EngineShape shape{.heads = 2, .group = 2, .dim = dim, .capacity = 48};
  std::int64_t operations = 0;
  std::uint64_t seed = 2000;
  for (const CacheLayout layout :
       {CacheLayout::paged, CacheLayout::paged_hnd, CacheLayout::paged_by_head}) {
    operations += PoolChurn<T, P>(policy, layout, shape, ++seed).run(steps);
  }
  return operations;
}

}  // namespace

TEST_CASE("sequences that share a pool of pages", "[decode][churn]") {
  std::int64_t operations = 0;
  for (const TestPolicy& policy : decode_policies()) {
    operations += churn_pools<float>(policy, 4, 500 * churn_factor());
    operations += churn_pools<kvevict::half>(policy, 4, 500 * churn_factor());
  }
  if (churn_factor() > 1) WARN(operations << " operations");
  CHECK(operations > 60000 * churn_factor());
}

TEMPLATE_TEST_CASE("quantised sequences that share a pool of pages", "[decode][churn][quantised]",
                   kvevict::q8_0, kvevict::q4_0, kvevict::float8_e4m3, kvevict::float8_e5m2) {
  const std::int64_t steps = 500 * churn_factor();
  const std::int64_t operations = churn_pools<TestType>(kvevict::H2O{}, 32, steps) +
                                  churn_pools<TestType>(kvevict::SnapKV{.window = 6}, 32, steps) +
                                  churn_pools<TestType>(kvevict::KNorm{}, 32, steps);
  if (churn_factor() > 1) WARN(operations << " operations");
  CHECK(operations > 9 * steps);
}
