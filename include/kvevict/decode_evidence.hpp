// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kvevict/core/state_blob.hpp"
#include "kvevict/policies/h2o.hpp"
#include "kvevict/probes.hpp"
#include "kvevict/query_ring.hpp"
#include "kvevict/query_stats.hpp"
#include "kvevict/running_keys.hpp"

namespace kvevict {

/// Which of a sequence's queries its running statistics are of.
enum class QueryMemory {
  all,     ///< every query, alike
  recent,  ///< the last `recent_queries`
  decay    ///< every query, older ones less: see BasicRunningQueryStats
};

inline std::span<const EnumName<QueryMemory>> enum_names(QueryMemory) {
  static constexpr EnumName<QueryMemory> names[] = {
      {QueryMemory::all, "all"}, {QueryMemory::recent, "recent"}, {QueryMemory::decay, "decay"}};
  return names;
}

/// What is remembered of a sequence's queries, for policies that ask for it. Only what the policy
/// needs is collected. Memory for each query head: 8 dim bytes for every query of a window, of
/// `recent_queries` or of `probe_queries`, and 8 dim bytes (for a full covariance 8 dim^2) for
/// statistics; for each row 40 bytes of attention mass, or 8 of key norms. What is known of keys is
/// collected on the host alone: on a device they are read anew.
struct DecodeEvidenceOptions {
  Rope rope = {};  ///< the model's: statistics and probes are turned to positions to come

  QueryMemory memory = QueryMemory::all;
  std::int64_t recent_queries = 512;  ///< for QueryMemory::recent
  double decay = 0.999;               ///< for QueryMemory::decay
  std::int64_t future = 512;          ///< positions ahead that statistics are turned to
  std::int64_t skip_first = 4;  ///< queries at positions below it (the sinks') are left out of
                                ///< statistics and probes

  std::int64_t window = 0;  ///< queries of a query window; 0: as many as the policy (or one that
                            ///< it holds) takes, or 64

  std::int64_t probe_queries = 256;  ///< last queries that probes are drawn from
  std::int64_t last_probes = 128;    ///< of these, moved on to follow the sequence
  std::int64_t sampled_probes = 64;  ///< and drawn, at positions drawn from those ahead
  std::int64_t probe_future = 256;   ///< positions ahead for those
  std::uint64_t seed = 0;

  /// How attention mass accumulates; none: as the policy says, where it is H2O or holds one.
  std::optional<H2O> attention_mass = {};
  /// Kinds to collect; none: what the policy needs and suggests. What it leaves out the caller
  /// gives with each eviction.
  std::optional<EvidenceSet> collect = {};

  /// Throws invalid_argument for numbers outside their bounds.
  void validate(std::int64_t dim) const {
    require_valid(rope, dim);
    require(recent_queries >= 1, "recent_queries", recent_queries, ">=", 1);
    require(decay > 0.0 && decay <= 1.0, "decay", decay, "in (0, 1]");
    require(future >= 1, "future", future, ">=", 1);
    require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
    require(window >= 0, "window", window, ">=", 0);
    require(probe_queries >= 1, "probe_queries", probe_queries, ">=", 1);
    require(last_probes >= 0, "last_probes", last_probes, ">=", 0);
    require(sampled_probes >= 0, "sampled_probes", sampled_probes, ">=", 0);
    require(last_probes + sampled_probes >= 1, "last_probes + sampled_probes",
            last_probes + sampled_probes, ">=", 1);
    require(probe_future >= 1, "probe_future", probe_future, ">=", 1);
    if (attention_mass) attention_mass->validate();
  }
};

/// Queries of the tokens of one step or chunk, [query_head][token][dim]: before RoPE for statistics
/// and probes, after it for windows and attention mass. What nothing needs may be left out.
template <MemorySpace S = MemorySpace::host>
struct DecodeQueries {
  QueriesView<S> pre_rope = {};
  QueriesView<S> post_rope = {};
};

/// The evidence of one sequence that goes on (or of sequences in step), collected token by token in
/// memory space S for a set of kinds. Owned by a DecodeEvictor; of use alone to an engine that
/// evicts by itself.
template <MemorySpace S = MemorySpace::host>
class BasicDecodeEvidence {
 public:
  BasicDecodeEvidence(EvidenceSet kinds, const H2O& accumulation, std::int64_t query_heads,
                      std::int64_t dim, const DecodeEvidenceOptions& options)
      : kinds_(kinds),
        accumulation_(accumulation),
        heads_(query_heads),
        dim_(dim),
        options_(options) {
    require(query_heads >= 1, "query_heads", query_heads, ">=", 1);
    require(dim >= 1, "dim", dim, ">=", 1);
    options.validate(dim);
    frequencies_.assign(options.rope.frequencies.begin(), options.rope.frequencies.end());
    options_.rope.frequencies = {};
    Covariance covariance = Covariance::none;
    if (kinds.contains(EvidenceKind::query_covariance_diagonal)) covariance = Covariance::diagonal;
    if (kinds.contains(EvidenceKind::query_covariance_full)) covariance = Covariance::full;
    if (covariance != Covariance::none || kinds.contains(EvidenceKind::query_stats)) {
      stats_.emplace(heads_, dim_, options.rope, covariance,
                     options.memory == QueryMemory::decay ? options.decay : 1.0);
      covariance_ = covariance;
    }
    std::int64_t kept = 0;  // queries before RoPE
    if (stats_ && options.memory == QueryMemory::recent) kept = options.recent_queries;
    if (kinds.contains(EvidenceKind::probes)) {
      with_probes_ = true;
      kept = std::max(kept, options.probe_queries);
    }
    if (kept > 0) pre_rope_.emplace(heads_, dim_, kept);
    if (kinds.contains(EvidenceKind::query_window)) {
      post_rope_.emplace(heads_, dim_, options.window > 0 ? options.window : default_window);
    }
    if (kinds.contains(EvidenceKind::attention_mass)) mass_.emplace(accumulation);
    if constexpr (S == MemorySpace::host) {
      if (kinds.contains(EvidenceKind::key_norms)) key_norms_.emplace();
      if (kinds.contains(EvidenceKind::mean_key_direction)) key_direction_.emplace(dim);
    }
  }

  /// One of the same kinds, shapes and options that has observed nothing.
  BasicDecodeEvidence fresh() const {
    DecodeEvidenceOptions options = options_;
    options.rope = rope();
    return BasicDecodeEvidence(kinds_, accumulation_, heads_, dim_, options);
  }

  /// Whether `observe` needs queries before RoPE, and after it.
  bool needs_pre_rope() const { return stats_.has_value() || pre_rope_.has_value(); }
  bool needs_post_rope() const { return post_rope_.has_value() || mass_.has_value(); }

  /// Takes in the queries of the last `tokens` tokens, the first of them at `first_position`, whose
  /// rows `cache` holds. Throws invalid_argument when queries are missing or of another shape;
  /// nothing is changed then.
  template <class R, class T>
  requires(R::space == S) void observe(R& res, const KvView<T, S>& cache, std::int64_t tokens,
                                       std::int64_t first_position,
                                       const DecodeQueries<S>& queries) {
    if (tokens == 0) return;
    if (needs_pre_rope()) require_queries(queries.pre_rope, tokens, "pre_rope");
    if (needs_post_rope()) require_queries(queries.post_rope, tokens, "post_rope");
    // What can fail comes first, and what has been done by then is taken back.
    if (pre_rope_) pre_rope_->prepare(res);
    if (post_rope_) post_rope_->prepare(res);
    const auto first = static_cast<std::int32_t>(first_position);
    if (mass_) {
      mass_->observe(res, cache,
                     QueryWindow<S>{queries.post_rope, QueryPositions<S>::consecutive(first)});
    }
    if (stats_ && options_.memory != QueryMemory::recent) {
      try {
        stats_->observe(res, queries.pre_rope,
                        std::clamp<std::int64_t>(options_.skip_first - first_position, 0, tokens));
      } catch (...) {
        if (mass_) mass_->undo_observe();
        throw;
      }
    }
    if (pre_rope_) pre_rope_->append(res, queries.pre_rope, first_position);
    if (post_rope_) post_rope_->append(res, queries.post_rope, first_position);
  }

  /// Drops the rows that the selection does not keep. Of a sequence that was taken over there may
  /// be none yet. Where the rows have not moved yet, give the cache as well: the directions of keys
  /// are followed then rather than summed anew.
  template <class R>
  requires(R::space == S) void compact(R& res, const typename R::selection_type& kept) {
    compact_mass(res, kept);
    if constexpr (S == MemorySpace::host) {
      if (key_direction_) key_direction_->forget_leaving(kept.view());
      if (key_norms_) key_norms_->compact(res, kept.view());
    }
  }
  template <class R, class T>
  requires(R::space == S) void compact(R& res, const typename R::selection_type& kept,
                                       const KvView<T, S>& cache) {
    if constexpr (S == MemorySpace::host) {
      if (key_direction_) key_direction_->subtract_leaving(res, kept.view(), cache.keys());
    }
    compact_mass(res, kept);
    if constexpr (S == MemorySpace::host) {
      if (key_direction_) key_direction_->leave();
      if (key_norms_) key_norms_->compact(res, kept.view());
    }
  }

  /// What was collected, for an eviction after `tokens_seen` tokens, beside what the caller gives,
  /// which has precedence. Refers to this object until its next call. Throws invalid_argument when
  /// nothing was observed that statistics or probes could be made of.
  template <class R>
  requires(R::space == S) Evidence<S> evidence(R& res, std::int64_t tokens_seen,
                                               const Evidence<S>& given) {
    Evidence<S> all = given;
    if (stats_ && !all.query_stats) all.query_stats = finish_stats(res, tokens_seen);
    if (with_probes_ && !all.probes) all.probes = draw_probes(res, tokens_seen);
    if (post_rope_ && !all.query_window) {
      require(post_rope_->count() >= 1, "observed queries", post_rope_->count(), ">=", 1);
      all.query_window = post_rope_->view();
    }
    if (mass_ && !all.attention_mass) all.attention_mass = mass_->mass();
    return all;
  }

  /// The same, and what is known of the keys of `cache`, of which those are read that came since
  /// the last eviction.
  template <class R, class T>
  requires(R::space == S) Evidence<S> evidence(R& res, const KvView<T, S>& cache,
                                               std::int64_t tokens_seen, const Evidence<S>& given) {
    Evidence<S> all = evidence(res, tokens_seen, given);
    if constexpr (S == MemorySpace::host) {
      if (key_norms_ && !all.key_norms) all.key_norms = key_norms_->norms(res, cache.keys());
      if (key_direction_ && !all.mean_key_direction) {
        all.mean_key_direction = key_direction_->directions(res, cache.keys());
      }
    }
    return all;
  }

  /// Forgets what is known of the keys: they were changed.
  void forget_keys() {
    if (key_norms_) key_norms_->reset();
    if (key_direction_) key_direction_->reset();
  }

  /// Forgets everything: for a new sequence.
  void reset() {
    forget_keys();
    if (stats_) stats_->reset();
    if (pre_rope_) pre_rope_->reset();
    if (post_rope_) post_rope_->reset();
    if (mass_) mass_->reset();
  }

  /// As part of a larger blob. `read` checks that it was written by an object of the same kinds,
  /// shapes and options; one that it fails for is left in no particular state.
  template <class R>
  requires(R::space == S) void write(R& res, StateWriter& to) const {
    to.text(format_parameter(options_.memory));
    to.integer(options_.skip_first);
    each_of(*this, [&](std::string_view, const auto& part) {
      to.integer(part.has_value() ? 1 : 0);
      if (part) part->write(res, to);
    });
    if (key_direction_) key_direction_->write(to);
  }
  template <class R>
  requires(R::space == S) void read(R& res, StateReader& from) {
    from.expect("evidence.memory", format_parameter(options_.memory));
    from.expect("evidence.skip_first", options_.skip_first);
    each_of(*this, [&](std::string_view name, auto& part) {
      from.expect(name, std::int64_t{part.has_value()});
      if (part) part->read(res, from);
    });
    if (key_direction_) key_direction_->read(from);
  }

  /// Throws invalid_argument unless what was collected is of a sequence of `tokens_seen` tokens
  /// whose heads hold these rows.
  void require_collected(std::int64_t tokens_seen, std::span<const std::int64_t> rows) const {
    for (const auto* ring : {&pre_rope_, &post_rope_}) {
      if (!*ring || (*ring)->count() == 0) continue;
      require((*ring)->next_position() == tokens_seen, "query_ring.next_position",
              (*ring)->next_position(), "equal to tokens_seen,", tokens_seen);
    }
    if (stats_) {
      require(stats_->count() <= tokens_seen, "query_stats.count", stats_->count(),
              "at most tokens_seen,", tokens_seen);
    }
    const auto heads = static_cast<std::int64_t>(rows.size());
    if (key_direction_ && key_direction_->heads() > 0) {
      require(key_direction_->heads() == heads, "KeyDiff.heads", key_direction_->heads(),
              "equal to kv_heads,", heads);
      for (std::int64_t h = 0; h < heads; ++h) {
        require_for_head(key_direction_->rows(h) <= rows[static_cast<std::size_t>(h)],
                         "KeyDiff.rows", h, key_direction_->rows(h), "at most those of the head,",
                         rows[static_cast<std::size_t>(h)]);
      }
    }
    if (!mass_ || mass_->mass().layout.heads() == 0) return;
    const RowLayout<> held = mass_->mass().layout.host();
    require(held.heads() == heads, "H2O.heads", held.heads(), "equal to kv_heads,", heads);
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t want = rows[static_cast<std::size_t>(h)];
      require_for_head(held.rows(h) == want, "H2O.rows", h, held.rows(h), "those of the head,",
                       want);
    }
  }

  /// Queries of a query window where neither options nor policy say how many.
  static constexpr std::int64_t default_window = 64;

 private:
  template <class Self, class Visit>
  static void each_of(Self& self, Visit&& visit) {
    visit("evidence.query_stats", self.stats_);
    visit("evidence.queries before RoPE", self.pre_rope_);
    visit("evidence.queries after RoPE", self.post_rope_);
    visit("evidence.attention_mass", self.mass_);
  }
  template <class R>
  void compact_mass(R& res, const typename R::selection_type& kept) {
    if (mass_ && mass_->mass().layout.heads() > 0) mass_->compact(res, kept);
  }

  void require_queries(const QueriesView<S>& queries, std::int64_t tokens,
                       std::string_view name) const {
    const auto whose = [&](std::string_view what) {
      return detail::joined(detail::joined("queries.", name), what);
    };
    if (queries.heads() == heads_ && queries.dim() == dim_ && queries.count() == tokens) return;
    require(queries.heads() == heads_, whose(".heads"), queries.heads(), "equal to", heads_);
    require(queries.dim() == dim_, whose(".dim"), queries.dim(), "equal to", dim_);
    require(queries.count() == tokens, whose(".count"), queries.count(), "equal to the tokens,",
            tokens);
  }

  Rope rope() const {
    Rope rope = options_.rope;
    rope.frequencies = frequencies_;
    return rope;
  }

  /// How many of the oldest queries held belong to positions that are left out.
  std::int64_t left_out() const {
    const std::int64_t first = pre_rope_->next_position() - pre_rope_->count();
    return std::clamp<std::int64_t>(options_.skip_first - first, 0, pre_rope_->count());
  }

  template <class R>
  QueryStatsView<S> finish_stats(R& res, std::int64_t tokens_seen) {
    if (options_.memory == QueryMemory::recent) {
      const std::int64_t most = std::min(options_.recent_queries, pre_rope_->count() - left_out());
      stats_->reset();
      stats_->observe(res, pre_rope_->queries(), pre_rope_->count() - most);
    }
    if (!finished_) finished_.emplace(res, heads_, dim_, covariance_);
    stats_->finish_into(res, {tokens_seen, options_.future}, rotation_, *finished_);
    return finished_->view();
  }

  template <class R>
  ProbeQueries<S> draw_probes(R& res, std::int64_t tokens_seen) {
    const std::int64_t count = std::min(options_.probe_queries, pre_rope_->count());
    const std::int64_t skipped =
        std::max<std::int64_t>(left_out() - (pre_rope_->count() - count), 0);
    plan_future_probes(count,
                       {.next_position = tokens_seen,
                        .last = options_.last_probes,
                        .sampled = options_.sampled_probes,
                        .future = options_.probe_future,
                        .skip_first = skipped,
                        .seed = options_.seed},
                       plan_);
    if (!probes_) probes_.emplace(res, heads_, dim_, std::span<const std::int32_t>());
    rotate_probes_into(res, pre_rope_->queries().last(count), rope(), plan_, *probes_);
    return probes_->view();
  }

  EvidenceSet kinds_;
  H2O accumulation_;
  std::int64_t heads_;
  std::int64_t dim_;
  DecodeEvidenceOptions options_;
  std::vector<double> frequencies_;
  Covariance covariance_ = Covariance::none;
  bool with_probes_ = false;
  std::optional<BasicRunningQueryStats<S>> stats_;
  std::optional<BasicQueryRing<S>> pre_rope_;
  std::optional<BasicQueryRing<S>> post_rope_;
  std::optional<H2O::BasicState<S>> mass_;
  std::optional<RunningKeyNorms> key_norms_;
  std::optional<RunningKeyDirection> key_direction_;
  // What `evidence` hands out, and its scratch memory.
  MeanRotation rotation_;
  ProbePlan plan_;
  std::optional<BasicQueryStats<S>> finished_;
  std::optional<BasicProbes<S>> probes_;
};

using DecodeEvidence = BasicDecodeEvidence<>;

}  // namespace kvevict
