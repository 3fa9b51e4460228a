// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvevict/allocators/uniform.hpp"
#include "kvevict/compact.hpp"
#include "kvevict/decode_adapters.hpp"
#include "kvevict/decode_checks.hpp"
#include "kvevict/decode_evidence.hpp"
#include "kvevict/decode_schedule.hpp"
#include "kvevict/evict.hpp"

namespace kvevict {

/// Keeps the cache of a sequence that goes on within a limit. Owns no cache: the engine tells it
/// before rows are appended and after, one token at a time or a chunk of a prompt:
///
///   DecodeEvictor evictor(SnapKV{}, {kv_heads, query_heads, dim},
///                         {.row_limit = 1024, .slack = 64, .protect = Protect{.sinks = 4,
///                         .recent = 64}});
///   for each step of n tokens:
///     if (evictor.make_room(res, kept, cache, n)) { head h now holds kept.count(h) rows }
///     the engine appends n rows to every head at positions evictor.next_position() and behind it,
///     and attends to them
///     evictor.observe(res, cache, n, {.pre_rope = ..., .post_rope = ...});  // the n queries
///
/// The limit is never exceeded, not even for a moment: see DecodeSchedule. `next_position` is the
/// number of tokens seen, whatever was evicted; rows held and rows dropped of a head always sum to
/// it. What the policy needs is collected from the queries: see DecodeEvidenceOptions.
///
/// One object serves heads that have seen the same tokens: all layers of a sequence, or sequences
/// in step. Sequences that stand at different places take an object each, or one after the other
/// with `reset` between them. Results for a head do not depend on the other heads, unless the
/// allocator ranks heads together.
///
/// On the host an evictor is a value: a copy goes on as a branch of the sequence, over a copy of
/// the rows. Rows are known to it once they are observed: drafts that are not accepted may leave
/// the cache before that, after room was made for all of them.
///
/// Once the rows have reached their limit nothing is allocated. A call that throws changes nothing.
/// On a device (S) everything is enqueued and waits only where evict_into does; `save` and
/// `restore` copy what lives there. Positions that the engine stores on a device are not read back,
/// so they are not checked there.
template <class Policy, MemorySpace S = MemorySpace::host>
class DecodeEvictor {
 public:
  DecodeEvictor(Policy policy, const DecodeShape& shape, const DecodeSchedule& schedule,
                const DecodeEvidenceOptions& options = {})
      : policy_(std::move(policy)),
        shape_(shape),
        evidence_(options.collect ? *options.collect : detail::collected_evidence(policy_),
                  options.attention_mass ? *options.attention_mass : accumulation_of(policy_),
                  shape.query_heads, shape.dim, with_window(options, policy_)) {
    require(shape.kv_heads >= 1, "kv_heads", shape.kv_heads, ">=", 1);
    require(shape.query_heads % shape.kv_heads == 0, "query_heads", shape.query_heads,
            "a multiple of kv_heads,", shape.kv_heads);
    detail::validate_policy(policy_);
    set_schedule(schedule);
    reset();
  }

  const Policy& policy() const { return policy_; }
  const DecodeShape& shape() const { return shape_; }
  /// Tokens seen: the position of the next one.
  std::int64_t next_position() const { return seen_; }
  /// Rows that a head holds, as told.
  std::int64_t rows(std::int64_t head) const { return rows_[static_cast<std::size_t>(head)]; }
  /// Tokens seen whose row a head does not hold any more.
  std::int64_t dropped(std::int64_t head) const { return seen_ - rows(head); }
  /// Which queries `observe` needs.
  bool needs_pre_rope() const { return evidence_.needs_pre_rope(); }
  bool needs_post_rope() const { return evidence_.needs_post_rope(); }

  /// Goes on with other limits or other rows to protect. Heads that are over a lower limit are
  /// taken down by the next make_room. Throws as DecodeSchedule::validate, a budget error also for
  /// a limit below what the policy is published with where nothing else is protected; nothing is
  /// changed then.
  void set_schedule(const DecodeSchedule& schedule) {
    schedule.validate();
    require_suggested_fits(schedule, policy_);
    spans_.clear();
    schedule_ = schedule;
    if (schedule.protect) {
      spans_.assign(schedule.protect->spans.begin(), schedule.protect->spans.end());
      schedule_.protect->spans = {};
    }
  }

  /// Goes on with another policy that reads what is collected for this one, such as a
  /// SpanProtection whose closed turns have moved on. Throws invalid_argument for a policy of other
  /// evidence, a budget error as set_schedule; nothing is changed then.
  void set_policy(Policy policy) {
    detail::validate_policy(policy);
    const auto window = [](const Policy& of) { return detail::window_of(of, 0); };
    require(detail::collected_evidence(policy) == detail::collected_evidence(policy_) &&
                accumulation_of(policy) == accumulation_of(policy_) &&
                window(policy) == window(policy_),
            "policy", detail::policy_text(policy), "one of the same evidence as",
            detail::policy_text(policy_));
    require_suggested_fits(schedule_, policy);
    policy_ = std::move(policy);
  }

  /// What was collected, beside what the caller gives, which has precedence: for an engine that
  /// selects by itself, whole pages (score_rows, select_blocks) or the same rows for all heads
  /// (evict_same_rows_into), and then tells by `commit`. Refers to this object until its next call.
  /// Throws invalid_argument when nothing was observed that it could be made of.
  template <class R>
  requires(R::space == S) Evidence<S> evidence(R& res, const Evidence<S>& given = {}) {
    return evidence_.evidence(res, seen_, given);
  }

  /// Whether make_room(incoming) has something to do: at the limit, or after the interval, when it
  /// may still find every row within its target. For evidence that is worth making only then.
  bool due(std::int64_t incoming) const {
    require(incoming >= 0, "incoming", incoming, ">=", 0);
    return over_limit(incoming) || interval_over();
  }

  /// Makes room for `incoming` rows in every head of `cache`, which shows the rows held now: evicts
  /// if that is due and moves the kept rows to the front, with their positions and with what was
  /// collected for each row. Returns whether it did; head h holds kept.count(h) rows then. With 0
  /// incoming it does what is due already.
  ///
  /// `given` is evidence beside what was collected, such as the output projection. Throws
  /// invalid_argument when the cache holds other rows than told, does not store its positions or
  /// has pages that `compact` would refuse to write to, and a budget error when protected and
  /// incoming rows exceed the limit; and what evict_into throws.
  template <class R, class T, class A = UniformBudget>
  requires(R::space == S &&
           !std::is_const_v<T>) bool make_room(R& res, typename R::selection_type& kept,
                                               const KvView<T, S>& cache, std::int64_t incoming,
                                               const Evidence<S>& given = {},
                                               const A& allocator = {}) {
    require(cache.positions().stored(), "cache.positions", "consecutive",
            "stored: rows keep theirs when others are evicted");
    require(!cache.positions().is_shared() || cache.heads() <= 1, "cache.positions",
            "shared by all heads", "packed or per head, since heads keep different rows",
            ErrorKind::unsupported);
    if (!select(res, kept, cache, incoming, given, allocator)) return false;
    // What is refused must not be noted as done.
    detail::require_compaction(res, kept, cache);
    detail::require_told(kept, shape_, rows_);
    evidence_.compact(res, kept, cache);
    note(kept);
    detail::move_kept_rows(res, kept, cache);
    return true;
  }

  /// The first half of make_room, for an engine that moves its rows itself: which rows are to stay.
  /// Returns false when nothing has to be done. Tell what was done by `commit`.
  template <class R, class T, class A = UniformBudget>
  requires(R::space == S) bool select(R& res, typename R::selection_type& kept,
                                      const KvView<T, S>& cache, std::int64_t incoming,
                                      const Evidence<S>& given = {}, const A& allocator = {}) {
    require_rows(cache, 0);
    if (!due(incoming)) return false;
    const bool over = over_limit(incoming);
    const RowLayout<> rows = cache.layout().host();
    const Protect protect = plan(res, cache, incoming, detail::floor_of_allocator(allocator));
    std::int64_t planned = 0;
    for (const std::int64_t share : shares_) planned += share;
    if (!over && planned >= rows.total()) {
      last_ = seen_;  // nothing to do until the next time
      return false;
    }
    const std::int64_t most = *std::max_element(held_.begin(), held_.end());
    const std::int64_t room = std::max(schedule_.slack, incoming);
    const detail::PlannedShares<A> shares{
        shares_.data(), detail::with_cap(allocator, std::max(schedule_.most_rows() - room, most))};
    evict_into(res, kept, policy_, KvView<const std::remove_const_t<T>, S>(cache),
               evidence_.evidence(res, cache, seen_, given), Budget::rows(max_rows_per_head),
               protect, shares);
    for (std::int64_t h = 0; h < rows.heads(); ++h) {
      require_for_head(kept.count(h) + incoming <= schedule_.most_rows(), "rows allocated", h,
                       kept.count(h), "at most its limit without the incoming rows,",
                       schedule_.most_rows() - incoming, ErrorKind::budget);
    }
    return true;
  }

  /// Takes note that every head was compacted to the selection's rows: after `select`, or after an
  /// eviction of the engine's own. Throws invalid_argument for a selection of other rows.
  template <class R>
  requires(R::space == S) void commit(R& res, const typename R::selection_type& kept) {
    detail::require_told(kept, shape_, rows_);
    evidence_.compact(res, kept);
    note(kept);
  }

  /// Forgets what is known of the keys of rows held, after they were changed: refitted or rotated.
  /// KNorm and KeyDiff read them anew at the next eviction.
  void keys_changed() { evidence_.forget_keys(); }

  /// Takes note of `tokens` rows that were appended to every head of `cache`, which shows them, at
  /// position next_position() and behind it, and takes in their queries. Throws invalid_argument
  /// when the cache holds other rows, new rows stand at other positions (on the host), or queries
  /// that are needed are missing.
  template <class R, class T>
  requires(R::space == S) void observe(R& res, const KvView<T, S>& cache, std::int64_t tokens,
                                       const DecodeQueries<S>& queries = {}) {
    require(tokens >= 0, "tokens", tokens, ">=", 0);
    require(tokens <= INT32_MAX - seen_, "tokens", tokens, "at most the positions left,",
            INT32_MAX - seen_);
    require_rows(cache, tokens);
    if constexpr (S == MemorySpace::host) {
      detail::require_new_positions(cache, rows_, tokens, seen_);
    }
    evidence_.observe(res, KvView<const std::remove_const_t<T>, S>(cache), tokens, seen_, queries);
    for (std::int64_t& rows : rows_) rows += tokens;
    seen_ += tokens;
  }

  /// Begins a new sequence. One that is there already may be taken over: `tokens_seen` tokens, of
  /// which each head holds `rows[head]` rows (none given: all), and nothing was observed.
  void reset(std::int64_t tokens_seen = 0, std::span<const std::int64_t> rows = {}) {
    require(tokens_seen >= 0 && tokens_seen <= INT32_MAX, "tokens_seen", tokens_seen,
            "in [0, 2^31)");
    require(rows.empty() || static_cast<std::int64_t>(rows.size()) == shape_.kv_heads, "rows.size",
            rows.size(), "0 or kv_heads,", shape_.kv_heads);
    for (const std::int64_t held : rows) {
      require(held >= 0 && held <= tokens_seen, "rows", held,
              "in [0, tokens_seen], tokens_seen =", tokens_seen);
    }
    evidence_.reset();
    seen_ = last_ = tokens_seen;
    rows_.assign(static_cast<std::size_t>(shape_.kv_heads), tokens_seen);
    std::copy(rows.begin(), rows.end(), rows_.begin());
  }

  /// Everything that was told and collected, as a blob (core/state_blob.hpp) that `restore` of an
  /// object of the same policy, shape and evidence reads, there or elsewhere; limits may differ.
  /// The rows themselves are the engine's to keep. Going on from it gives the same, bit by bit.
  /// Waits for a device.
  template <class R>
  requires(R::space == S) std::vector<std::byte> save(R& res)
  const {
    StateWriter to("DecodeEvictor");
    to.text(detail::policy_text(policy_));
    to.integer(shape_.kv_heads);
    to.integer(shape_.query_heads);
    to.integer(shape_.dim);
    to.integer(seen_);
    to.integer(last_);
    to.array(rows_.data(), shape_.kv_heads);
    evidence_.write(res, to);
    return to.finish();
  }

  /// Takes the place of what was told and collected. Throws invalid_argument for a blob that is
  /// damaged or of another policy, shape or evidence, unsupported for another version; nothing is
  /// changed then.
  template <class R>
  requires(R::space == S) void restore(R& res, std::span<const std::byte> blob) {
    StateReader from(blob, "DecodeEvictor");
    from.expect("policy", detail::policy_text(policy_));
    from.expect("kv_heads", shape_.kv_heads);
    from.expect("query_heads", shape_.query_heads);
    from.expect("dim", shape_.dim);
    const std::int64_t seen = from.integer("tokens_seen", 0, INT32_MAX);
    const std::int64_t last = from.integer("last eviction", 0, seen);
    const auto rows = from.array<std::int64_t>("rows.size", shape_.kv_heads);
    for (const std::int64_t held : rows) {
      require(held >= 0 && held <= seen, "rows", held, "in [0, tokens_seen], tokens_seen =", seen);
    }
    BasicDecodeEvidence<S> evidence = evidence_.fresh();
    evidence.read(res, from);
    from.finish();
    evidence.require_collected(seen, rows);
    evidence_ = std::move(evidence);
    seen_ = seen;
    last_ = last;
    rows_ = rows;
  }

 private:
  static DecodeEvidenceOptions with_window(DecodeEvidenceOptions options, const Policy& policy) {
    if (options.window == 0) {
      options.window = detail::window_of(policy, BasicDecodeEvidence<S>::default_window);
    }
    return options;
  }

  template <class T>
  void require_rows(const KvView<T, S>& cache, std::int64_t added) const {
    detail::require_told(cache, shape_, rows_, added, seen_);
  }

  template <class Kept>
  void note(const Kept& kept) {
    for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
      rows_[static_cast<std::size_t>(h)] = kept.count(h);
    }
    last_ = seen_;
  }

  bool over_limit(std::int64_t incoming) const {
    std::int64_t longest = 0;
    std::int64_t total = 0;
    for (const std::int64_t rows : rows_) {
      longest = std::max(longest, rows);
      total += rows;
    }
    return detail::exceeds_limit(schedule_, longest, total, shape_.kv_heads, incoming);
  }
  bool interval_over() const {
    return schedule_.interval > 0 && seen_ - last_ >= schedule_.interval;
  }

  static void require_suggested_fits(const DecodeSchedule& schedule, const Policy& policy) {
    if (schedule.protect) return;
    std::vector<PositionSpan> spans;
    schedule.require_limit_holds(suggested_protection(policy, schedule.row_limit, spans));
  }

  /// What an eviction that leaves `kept` rows of a head protects. Refers to spans_.
  Protect protection(std::int64_t kept) {
    if (!schedule_.protect) return suggested_protection(policy_, kept, spans_);
    Protect protect = *schedule_.protect;
    protect.spans = spans_;
    return protect;
  }

  /// Rows that each head must keep, protected ones or `floor`, to held_, rows to keep to shares_;
  /// returns what is protected. Throws when the limit is too low for them.
  template <class R, class T>
  Protect plan(R& res, const KvView<T, S>& cache, std::int64_t incoming, std::int64_t floor) {
    const auto count = static_cast<std::size_t>(shape_.kv_heads);
    held_.assign(count, 0);
    shares_.resize(count);
    const detail::DecodeHeads heads{cache.layout().host(), held_.data(), cache.row_bytes(), seen_,
                                    incoming};
    const auto at_least_floor = [&] {
      for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
        std::int64_t& held = held_[static_cast<std::size_t>(h)];
        held = std::max(held, std::min(floor, heads.rows.rows(h)));
      }
    };
    at_least_floor();
    detail::require_limit_fits(schedule_, heads);
    // Before anything is protected: what a policy suggests may depend on how many rows stay.
    detail::plan_rows(schedule_, heads, shares_.data());
    const Protect protect = protection(*std::max_element(shares_.begin(), shares_.end()));
    if constexpr (S == MemorySpace::device) {
      // Counting protected rows waits; it is left out where there cannot be too many of them.
      bool certain = true;
      for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
        certain = certain && most_protected(protect, heads.rows.rows(h)) <=
                                 shares_[static_cast<std::size_t>(h)];
      }
      if (certain) return protect;
    }
    protected_counts(res, Positions<S>(cache.positions()), protect, cache.layout(), held_.data());
    at_least_floor();
    detail::require_limit_fits(schedule_, heads);
    detail::plan_rows(schedule_, heads, shares_.data());
    return protect;
  }

  Policy policy_;
  DecodeShape shape_;
  DecodeSchedule schedule_;
  std::vector<PositionSpan> spans_;  // the schedule's, or those that the policy suggested last
  BasicDecodeEvidence<S> evidence_;
  std::vector<std::int64_t> rows_;
  std::int64_t seen_ = 0;
  std::int64_t last_ = 0;             // tokens seen when rows were evicted last
  std::vector<std::int64_t> held_;    // scratch: [kv_heads]
  std::vector<std::int64_t> shares_;  // scratch: [kv_heads]
};

}  // namespace kvevict
