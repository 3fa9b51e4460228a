// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kvevict/core/array.hpp"
#include "kvevict/core/state_blob.hpp"
#include "kvevict/math/mean_rotation.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/query_moments.hpp"
#include "kvevict/ops/query_stats.hpp"
#include "kvevict/query_stats_storage.hpp"

namespace kvevict {

namespace detail {

/// What rotated a state's queries, as part of a blob: checked, not read.
inline void write_state(const Rope& rope, StateWriter& to) {
  to.number(rope.theta);
  to.text(format_parameter(rope.pairing));
  to.integer(rope.rotary_dim);
  to.number(rope.attention_factor);
  to.array(rope.frequencies.data(), static_cast<std::int64_t>(rope.frequencies.size()));
}
inline void expect_state(const Rope& rope, StateReader& from) {
  from.expect("rope.theta", rope.theta);
  from.expect("rope.pairing", format_parameter(rope.pairing));
  from.expect("rope.rotary_dim", rope.rotary_dim);
  from.expect("rope.attention_factor", rope.attention_factor);
  const auto frequencies = from.array<double>();
  require(std::equal(frequencies.begin(), frequencies.end(), rope.frequencies.begin(),
                     rope.frequencies.end()),
          "rope.frequencies", "other ones", "equal to those given");
}

}  // namespace detail

/// Query statistics that grow with the sequence: mean m and covariance S = (1/n) sum (q - m)(q -
/// m)^T of pre-RoPE queries per query head, in double, by pairwise updates; chunks may be observed
/// one by one or in several objects that are merged. `finish` turns them to the future: mu = Rbar
/// m, Lambda = Rbar S Rbar^T with Rbar the rotation averaged over the span (arXiv 2510.00636).
/// Diagonal means the diagonal of Lambda, after the rotation. Memory: dim or dim^2 doubles per
/// head in memory space S, allocated when the first queries arrive.
///
/// With `decay` below 1 older queries count less: a query weighs decay^(16 b), b being the number
/// of blocks of 16 observed queries between its own and the last one. Every update is a weighted
/// mean, so that nothing drifts however long it goes on.
template <MemorySpace S = MemorySpace::host>
class BasicRunningQueryStats {
 public:
  BasicRunningQueryStats(std::int64_t query_heads, std::int64_t dim, const Rope& rope,
                         Covariance covariance, double decay = 1.0)
      : heads_(at_least_one(query_heads, "query_heads")),
        dim_(at_least_one(dim, "dim")),
        frequencies_(rope.frequencies.begin(), rope.frequencies.end()),
        rope_(rope),
        covariance_(covariance),
        second_size_(moment_size(covariance, rope, dim_)),
        decay_(decay) {
    require_valid(rope, dim);
    require(decay > 0.0 && decay <= 1.0, "decay", decay, "in (0, 1]");
  }

  /// Queries observed, per head.
  std::int64_t count() const { return count_; }

  /// Takes in the pre-RoPE queries from `first` on.
  template <class R>
  requires(R::space == S) void observe(R& res, const QueriesView<S>& queries,
                                       std::int64_t first = 0) {
    require(first >= 0 && first <= queries.count(), "first", first,
            "in [0, queries.count], count =", queries.count());
    for (std::int64_t begin = first; begin < queries.count();) {
      // Blocks begin at multiples of their size, so that chunks of any size give the same.
      const std::int64_t room =
          decay_ == 1.0 ? queries.count() : decay_block - count_ % decay_block;
      const std::int64_t end = std::min(queries.count(), begin + room);
      const bool aged = decay_ != 1.0 && count_ > 0 && count_ % decay_block == 0;
      const double kept_share = aged ? std::pow(decay_, static_cast<double>(decay_block)) : 1.0;
      accumulate_query_moments(res, queries.first(end), begin, rope(), covariance_,
                               weight_ * kept_share, kept_share, ready(res));
      weight_ = weight_ * kept_share + static_cast<double>(end - begin);
      count_ += end - begin;
      begin = end;
    }
  }

  /// Takes in what another object of the same shape has observed. Throws unsupported where older
  /// queries count less: which are older is not known.
  template <class R>
  requires(R::space == S) void merge(R& res, const BasicRunningQueryStats& other) {
    require(other.heads_ == heads_, "other.query_heads", other.heads_, "equal to", heads_);
    require(other.dim_ == dim_, "other.dim", other.dim_, "equal to", dim_);
    require(other.second_size_ == second_size_, "other.covariance", other.second_size_,
            "of the same kind, of size", second_size_);
    require(decay_ == 1.0 && other.decay_ == 1.0, "decay", std::min(decay_, other.decay_), "1",
            ErrorKind::unsupported);
    if (other.count_ == 0) return;
    merge_query_moments(res, other.moments(), other.count_, rope(), covariance_, count_,
                        ready(res));
    count_ += other.count_;
    weight_ = static_cast<double>(count_);
  }

  /// Statistics of the queries to come. Throws invalid_argument when nothing was observed.
  template <class R>
  requires(R::space == S) BasicQueryStats<S> finish(R& res, const FutureSpan& span)
  const { return rotated(res, mean_rotation(rope(), dim_, span)); }

  /// The same into `stats`, of this shape; `rotation` is scratch. Allocates nothing the second
  /// time.
  template <class R>
  requires(R::space == S) void finish_into(R& res, const FutureSpan& span, MeanRotation& rotation,
                                           BasicQueryStats<S>& stats) const {
    require(stats.heads() == heads_, "stats.heads", stats.heads(), "equal to", heads_);
    require(stats.dim() == dim_, "stats.dim", stats.dim(), "equal to", dim_);
    require(stats.covariance() == covariance_, "stats.covariance",
            format_parameter(stats.covariance()), format_parameter(covariance_));
    mean_rotation(rope(), dim_, span, rotation);
    rotate_into(res, rotation, stats);
  }

  /// Statistics in the frame of the observed queries: for queries that were given after RoPE.
  template <class R>
  requires(R::space == S) BasicQueryStats<S> finish_unrotated(R& res)
  const { return rotated(res, no_rotation(rope_, dim_)); }

  /// Forgets everything.
  void reset() {
    count_ = 0;
    weight_ = 0.0;
  }

  /// A blob (core/state_blob.hpp) that `restore` reads, there or elsewhere. Waits for a device.
  template <class R>
  requires(R::space == S) std::vector<std::byte> save(R& res)
  const { return detail::save_state(res, *this, "RunningQueryStats"); }
  /// Takes the place of what was observed. Throws invalid_argument for a blob that is damaged or of
  /// another shape, rope, covariance or decay, unsupported for another version; nothing is changed
  /// then.
  template <class R>
  requires(R::space == S) void restore(R& res, std::span<const std::byte> blob) {
    detail::restore_state(res, blob, "RunningQueryStats",
                          BasicRunningQueryStats(heads_, dim_, rope(), covariance_, decay_), *this);
  }

  /// The same as part of a larger blob. `read` leaves an object that it fails for in no particular
  /// state.
  template <class R>
  requires(R::space == S) void write(R& res, StateWriter& to) const {
    to.integer(heads_);
    to.integer(dim_);
    to.text(format_parameter(covariance_));
    to.number(decay_);
    detail::write_state(rope(), to);
    to.integer(count_);
    to.number(weight_);
    if (count_ == 0) return;
    const std::vector<double> mean = mean_.download(res);
    const std::vector<double> second = second_.download(res);
    to.array(mean.data(), static_cast<std::int64_t>(mean.size()));
    to.array(second.data(), static_cast<std::int64_t>(second.size()));
  }
  template <class R>
  requires(R::space == S) void read(R& res, StateReader& from) {
    from.expect("query_stats.heads", heads_);
    from.expect("query_stats.dim", dim_);
    from.expect("query_stats.covariance", format_parameter(covariance_));
    from.expect("query_stats.decay", decay_);
    detail::expect_state(rope(), from);
    count_ = from.integer("query_stats.count", 0, INT64_MAX);
    weight_ = from.number();
    require(count_ == 0 ? weight_ == 0.0 : weight_ > 0.0 && weight_ <= static_cast<double>(count_),
            "query_stats.weight", weight_, "above 0 and at most the count");
    if (count_ == 0) return;
    const auto mean = from.array<double>("query_stats.mean.size", heads_ * dim_);
    const auto second = from.array<double>("query_stats.second.size", heads_ * second_size_);
    mean_.assign(res, mean.data(), heads_ * dim_);
    second_.assign(res, second.data(), heads_ * second_size_);
  }

 private:
  static std::int64_t at_least_one(std::int64_t value, std::string_view name) {
    require(value >= 1, name, value, ">=", 1);
    return value;
  }

  Rope rope() const {
    Rope rope = rope_;
    rope.frequencies = frequencies_;
    return rope;
  }

  QueryMoments<S, const double> moments() const {
    return {MatrixView<const double, S>::packed(mean_.data(), heads_, dim_),
            MatrixView<const double, S>::packed(second_.data(), heads_, second_size_)};
  }

  /// The moments for writing: zero when nothing was observed yet.
  template <class R>
  QueryMoments<S> ready(R& res) {
    if (count_ == 0) {
      mean_.resize(res, heads_ * dim_);
      mean_.fill_zero(res);
      second_.resize(res, heads_ * second_size_);
      second_.fill_zero(res);
    }
    return {MatrixView<double, S>::packed(mean_.data(), heads_, dim_),
            MatrixView<double, S>::packed(second_.data(), heads_, second_size_)};
  }

  template <class R>
  BasicQueryStats<S> rotated(R& res, const MeanRotation& rotation) const {
    BasicQueryStats<S> stats(res, heads_, dim_, covariance_);
    rotate_into(res, rotation, stats);
    return stats;
  }

  template <class R>
  void rotate_into(R& res, const MeanRotation& rotation, BasicQueryStats<S>& stats) const {
    require(count_ >= 1, "observed queries", count_, ">=", 1);
    finish_query_stats(res, moments(), weight_, rope(), rotation, covariance_,
                       MatrixView<float, S>::packed(stats.mean(0), heads_, dim_),
                       MatrixView<float, S>::packed(stats.second(0), heads_, stats.second_size()));
  }

  static constexpr std::int64_t decay_block = 16;

  std::int64_t heads_;
  std::int64_t dim_;
  std::vector<double> frequencies_;
  Rope rope_;
  Covariance covariance_;
  std::int64_t second_size_;
  double decay_;
  Array<double, S> mean_;
  Array<double, S> second_;
  std::int64_t count_ = 0;
  double weight_ = 0.0;  // of all observed queries: their number without decay
};

using RunningQueryStats = BasicRunningQueryStats<>;

}  // namespace kvevict
