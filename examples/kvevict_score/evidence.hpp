// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "arrays.hpp"
#include "kvevict/kvevict.hpp"
#include "options.hpp"

namespace kvevict_score {

/// What a policy is told beside the cache, made from the files that the command line names: only
/// what the policy asks for is read.
class PreparedEvidence {
 public:
  /// Throws UsageError when an option is missing for what the policy needs, FileError when a file
  /// cannot be used.
  template <class T>
  PreparedEvidence(kvevict::CpuResources& res, const kvevict::AnyPolicy& policy,
                   const CacheArrays& arrays, const kvevict::KvView<const T>& cache,
                   const Options& options)
      : res_(res), policy_(policy), arrays_(arrays), options_(options) {
    using kvevict::EvidenceKind;
    const kvevict::EvidenceSet wanted = wanted_evidence();
    if (wanted.contains(EvidenceKind::query_window)) add_window();
    if (wanted.contains(EvidenceKind::query_stats)) add_stats(wanted);
    if (wanted.contains(EvidenceKind::probes)) add_probes();
    if (wanted.contains(EvidenceKind::attention_mass)) add_mass(cache);
    if (wanted.contains(EvidenceKind::output_projection)) add_projection();
    if (wanted.contains(EvidenceKind::query_filter)) add_filter();
    if (wanted.contains(EvidenceKind::keys_before_rope)) add_keys();
  }
  PreparedEvidence(const PreparedEvidence&) = delete;
  PreparedEvidence& operator=(const PreparedEvidence&) = delete;

  /// Refers to this object.
  const kvevict::Evidence<>& view() const { return view_; }
  /// What was prepared, one line for each kind.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  bool pre_rope() const { return options_.queries_are == QueryFrame::pre_rope; }

  /// What the policy needs, and what an automatic choice of evidence comes to here.
  kvevict::EvidenceSet wanted_evidence() const {
    kvevict::EvidenceSet wanted = policy_.needs();
    const auto* jacap = std::get_if<kvevict::Jacap>(&policy_.variant());
    if (jacap != nullptr && jacap->evidence == kvevict::WeightEvidence::automatic) {
      const bool probes = !options_.probes.empty() || pre_rope();
      wanted |= probes ? kvevict::EvidenceSet{kvevict::EvidenceKind::probes}
                       : kvevict::evidence_for(jacap->covariance);
    }
    return wanted;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw UsageError("policy " + std::string(policy_.name()) + " needs " + std::string(what));
  }

  void read_query_file(std::string_view need) {
    if (options_.queries.empty()) fail(need);
    queries_ = read_queries(options_.queries, arrays_);
    const std::int64_t least = pre_rope() ? options_.skip_queries + 1 : 1;
    if (queries_.shape[1] < least) {
      throw FileError(queries_.file, "has " + std::to_string(queries_.shape[1]) +
                                         " queries, must have at least " + std::to_string(least) +
                                         (pre_rope() ? ", one more than --skip-queries" : ""));
    }
  }

  /// The queries as the last tokens of the context, each at its own position.
  kvevict::QueryWindow<> window() {
    const std::string need = "queries after RoPE: --queries FILE --queries-are post_rope";
    if (pre_rope()) fail(need);
    read_query_file(need);
    return {queries_of(queries_), last_positions(queries_)};
  }

  kvevict::QueryPositions<> last_positions(const FloatArray& queries) const {
    const std::int64_t count = queries.shape[1];
    if (count > arrays_.rows()) {
      throw FileError(queries.file, "has " + std::to_string(count) +
                                        " queries, must be at most the rows of " +
                                        arrays_.keys.file + ", " + std::to_string(arrays_.rows()));
    }
    return kvevict::QueryPositions<>::consecutive(
        static_cast<std::int32_t>(arrays_.rows() - count));
  }

  /// Throws unless everything is there that moving queries needs, `next_position` included.
  kvevict::Rope rope() const {
    if (!options_.rope_theta || !options_.rope_pairing || !options_.next_position) {
      fail("--rope-theta, --rope-pairing and --next-position with --queries-are pre_rope");
    }
    return {.theta = *options_.rope_theta,
            .pairing = *options_.rope_pairing,
            .rotary_dim = options_.rope_dim};
  }

  void add_window() {
    view_.query_window = window();
    notes_.push_back("query window: " + std::to_string(queries_.shape[1]) + " queries after RoPE");
  }

  template <class T>
  void add_mass(const kvevict::KvView<const T>& cache) {
    const kvevict::QueryWindow<> all = window();
    mass_.emplace(kvevict::accumulation_of(policy_));
    mass_->observe(res_, cache, all);
    view_.attention_mass = mass_->mass();
    notes_.push_back("attention mass: observed " + std::to_string(queries_.shape[1]) +
                     " queries after RoPE");
  }

  void add_stats(kvevict::EvidenceSet wanted) {
    read_query_file("query statistics: --queries FILE --queries-are FRAME");
    const auto covariance = wanted.contains(kvevict::EvidenceKind::query_covariance_full)
                                ? kvevict::Covariance::full
                            : wanted.contains(kvevict::EvidenceKind::query_covariance_diagonal)
                                ? kvevict::Covariance::diagonal
                                : kvevict::Covariance::none;
    std::string note = "query statistics, covariance " + kvevict::format_parameter(covariance);
    const std::int64_t given = queries_.shape[1];
    if (pre_rope()) {
      const kvevict::Rope rotation = rope();
      stats_ = kvevict::estimate_query_stats(res_, queries_of(queries_), rotation,
                                             {.next_position = *options_.next_position,
                                              .future = options_.future,
                                              .skip_first = options_.skip_queries,
                                              .covariance = covariance});
      note += ": " + std::to_string(given - options_.skip_queries) +
              " queries before RoPE, moved to " + std::to_string(options_.future) +
              " future positions";
    } else {
      const std::int64_t used = options_.stats_window.value_or(std::min<std::int64_t>(given, 64));
      if (used > given) {
        throw FileError(queries_.file, "has " + std::to_string(given) +
                                           " queries, must have at least --stats-window, " +
                                           std::to_string(used));
      }
      stats_ = kvevict::window_query_stats(res_, queries_of(queries_).last(used), covariance);
      note += ": the last " + std::to_string(used) + " queries after RoPE";
    }
    view_.query_stats = stats_->view();
    notes_.push_back(note);
  }

  void add_probes() {
    if (!options_.probes.empty()) {
      queries_ = read_queries(options_.probes, arrays_);
      kvevict::ProbeQueries<> probes{queries_of(queries_), {}, options_.probe_mask};
      if (options_.probe_mask == kvevict::ProbeMask::by_position) {
        probes.positions = last_positions(queries_);
      }
      view_.probes = probes;
      notes_.push_back("probes: " + std::to_string(probes.queries.count()) + " from the file");
      return;
    }
    const std::string need = "probes: --probes FILE, or --queries FILE --queries-are pre_rope";
    if (!pre_rope()) fail(need);
    read_query_file(need);
    const kvevict::Rope rotation = rope();
    probes_ = kvevict::future_probes(res_, queries_of(queries_), rotation,
                                     {.next_position = *options_.next_position,
                                      .last = options_.probe_last,
                                      .sampled = options_.probe_sampled,
                                      .future = options_.probe_future,
                                      .skip_first = options_.skip_queries,
                                      .seed = options_.probe_seed});
    view_.probes = probes_->view();
    notes_.push_back("probes: " + std::to_string(probes_->count()) +
                     " queries before RoPE, moved to future positions");
  }

  void add_projection() {
    if (options_.output_projection.empty()) fail("--output-projection FILE");
    const FloatArray matrix = read_npy(options_.output_projection);
    require_axes(matrix, 2, "[hidden, query_head * dim]");
    const std::int64_t dim = arrays_.values.shape[2];
    const std::int64_t heads = matrix.shape[1] / dim;
    if (matrix.shape[1] % dim != 0 || heads % arrays_.heads() != 0) {
      throw FileError(matrix.file, "has " + std::to_string(matrix.shape[1]) +
                                       " columns, must be query heads * " + std::to_string(dim) +
                                       ", the query heads a multiple of " +
                                       std::to_string(arrays_.heads()));
    }
    if (!queries_.shape.empty()) {
      require_same(matrix, "query heads", heads, queries_.shape[0], queries_.file);
    }
    projection_.emplace(heads, dim);
    std::visit(
        [&](const auto& values) {
          projection_->add_layer(
              res_, kvevict::MatrixView<const typename std::decay_t<decltype(values)>::value_type>::
                        packed(values.data(), matrix.shape[0], matrix.shape[1]));
        },
        matrix.values);
    view_.output_projection = projection_->view();
    notes_.push_back("output projection: " + std::to_string(heads) + " query heads");
  }

  void add_filter() {
    if (options_.query_filter.empty()) fail("--query-filter FILE");
    const FloatArray filter = read_npy(options_.query_filter);
    require_axes(filter, 2, "[kv_head, dim]");
    require_same(filter, "heads", filter.shape[0], arrays_.heads(), arrays_.keys.file);
    require_same(filter, "channels", filter.shape[1], arrays_.keys.shape[2], arrays_.keys.file);
    std::visit([&](const auto& values) { filter_.assign(values.begin(), values.end()); },
               filter.values);
    view_.query_filter = {
        kvevict::MatrixView<const float>::packed(filter_.data(), filter.shape[0], filter.shape[1])};
    notes_.push_back("query filter: " + std::to_string(filter.shape[0]) + " directions");
  }

  void add_keys() {
    if (options_.keys_pre_rope.empty()) fail("--keys-pre-rope FILE");
    keys_ = read_npy(options_.keys_pre_rope);
    require_axes(keys_, 3, "[kv_head, row, dim] with at least one head and channel");
    require_same(keys_, "heads", keys_.shape[0], arrays_.heads(), arrays_.keys.file);
    require_same(keys_, "rows", keys_.shape[1], arrays_.rows(), arrays_.keys.file);
    require_same(keys_, "channels", keys_.shape[2], arrays_.keys.shape[2], arrays_.keys.file);
    std::visit(
        [&](const auto& values) {
          using Element = typename std::decay_t<decltype(values)>::value_type;
          view_.keys_before_rope = {kvevict::RowsView<const Element>::strided(
              values.data(), keys_.shape[0], keys_.shape[1], keys_.shape[2],
              keys_.shape[1] * keys_.shape[2], keys_.shape[2])};
        },
        keys_.values);
    notes_.push_back("keys before RoPE: " + std::to_string(keys_.shape[1]) + " rows");
  }

  kvevict::CpuResources& res_;
  const kvevict::AnyPolicy& policy_;
  const CacheArrays& arrays_;
  const Options& options_;
  FloatArray queries_;
  FloatArray keys_;
  std::optional<kvevict::QueryStats> stats_;
  std::optional<kvevict::Probes> probes_;
  std::optional<kvevict::ProjectionFactors> projection_;
  std::optional<kvevict::H2O::State> mass_;
  std::vector<float> filter_;
  kvevict::Evidence<> view_;
  std::vector<std::string> notes_;
};

}  // namespace kvevict_score
