// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/element.hpp"
#include "kvevict/cuda/channel_slots.cuh"
#include "kvevict/cuda/double_gram.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/upload.cuh"
#include "kvevict/ops/query_moments.hpp"

namespace kvevict::cuda {

namespace detail {

using DeviceQueries = QueriesView<MemorySpace::device>;
using DeviceMoments = QueryMoments<MemorySpace::device>;

/// Reads queries of type T from number `first` on.
template <class T>
struct QueryReader {
  DeviceQueries queries;
  std::int64_t first;

  __device__ const T* row(std::int64_t head, std::int64_t i) const {
    return static_cast<const T*>(queries.row(head, first + i));
  }
  __device__ float operator()(std::int64_t head, std::int64_t i, std::int64_t channel) const {
    return static_cast<float>(row(head, i)[channel]);
  }
};

/// Calls `use(std::type_identity<T>{})` with the element type.
template <class Use>
void with_element_type(ElementType type, Use&& use) {
  switch (type) {
    case ElementType::float32:
      return use(std::type_identity<float>{});
    case ElementType::float16:
      return use(std::type_identity<half>{});
    case ElementType::bfloat16:
      return use(std::type_identity<bfloat16>{});
  }
}

/// Moments of the parts of each head, waiting to be merged: part p of head h at mean + (h * count +
/// p) * dim, and so on. Moments that came from elsewhere are one part.
struct MomentParts {
  MatrixView<const double, MemorySpace::device> mean;    ///< [head * count + part][dim]
  MatrixView<const double, MemorySpace::device> second;  ///< [head * count + part][moment_size]
  RowParts rows;
};

/// The weight of the queries that the moments hold, and the share of their sums of squares that
/// remains.
struct HeldWeight {
  double weight;
  double kept_share;
};

inline constexpr int slot_threads = 64;
inline constexpr int slot_tile = 8;  // queries that a thread holds at a time

/// Where a thread's slot of one head and part is: block -> (head * parts + part), slot tile.
struct SlotJob {
  std::int64_t job;
  std::int64_t slot;

  __device__ explicit SlotJob(std::int64_t slots) {
    const std::int64_t tiles = tiles_of(slots, slot_threads);
    job = blockIdx.x / tiles;
    slot = blockIdx.x % tiles * slot_threads + threadIdx.x;
  }
};

/// Mean and, if wanted, variances and cross moments within pairs of the queries of one part. The
/// queries come in tiles: two passes over a tile that is held in registers, then the update.
template <bool Second, class T>
__global__ void __launch_bounds__(slot_threads)
    slot_moments_of_parts(QueryReader<T> read, std::int64_t first_head, RowParts parts,
                          ChannelSlots slots, double* means, double* seconds) {
  const SlotJob at(slots.count());
  if (at.slot >= slots.count()) return;
  const std::int64_t part = at.job % parts.count;
  const bool paired = slots.paired(at.slot);
  const std::int64_t a = slots.first(at.slot);
  const std::int64_t b = paired ? slots.second(at.slot) : a;
  const T* row = read.row(first_head + at.job / parts.count, part * parts.per_part);
  const std::int64_t rows = parts.size(part);
  double mean_a = 0.0;
  double mean_b = 0.0;
  double square_a = 0.0;
  double square_b = 0.0;
  double cross = 0.0;
  for (std::int64_t done = 0; done < rows; done += slot_tile) {
    const int n = static_cast<int>(rows - done < slot_tile ? rows - done : slot_tile);
    float tile_a[slot_tile];
    float tile_b[slot_tile];
    KVEVICT_UNROLL
    for (int i = 0; i < slot_tile; ++i) {
      tile_a[i] = i < n ? static_cast<float>(row[a]) : 0.0f;
      tile_b[i] = i < n ? static_cast<float>(row[b]) : 0.0f;
      if (i < n) row += read.queries.row_stride();
    }
    double centre_a = 0.0;
    double centre_b = 0.0;
    KVEVICT_UNROLL
    for (int i = 0; i < slot_tile; ++i) {
      centre_a += static_cast<double>(tile_a[i]);
      centre_b += static_cast<double>(tile_b[i]);
    }
    // A power of two, so that the mean of equal queries is exactly theirs, as by division.
    static_assert((slot_tile & (slot_tile - 1)) == 0);
    centre_a = n == slot_tile ? centre_a * (1.0 / slot_tile) : centre_a / static_cast<double>(n);
    centre_b = n == slot_tile ? centre_b * (1.0 / slot_tile) : centre_b / static_cast<double>(n);
    const MeanUpdate update(static_cast<double>(done), static_cast<double>(n));
    const double distance_a = centre_a - mean_a;
    const double distance_b = centre_b - mean_b;
    mean_a += distance_a * update.share;
    mean_b += distance_b * update.share;
    if constexpr (Second) {
      KVEVICT_UNROLL
      for (int i = 0; i < slot_tile; ++i) {
        const double x = i < n ? static_cast<double>(tile_a[i]) - centre_a : 0.0;
        const double y = i < n ? static_cast<double>(tile_b[i]) - centre_b : 0.0;
        square_a += x * x;
        square_b += y * y;
        cross += x * y;
      }
      square_a += update.weight * distance_a * distance_a;
      square_b += update.weight * distance_b * distance_b;
      cross += update.weight * distance_a * distance_b;
    }
  }
  double* mean = means + at.job * slots.dim;
  mean[a] = mean_a;
  if (paired) mean[b] = mean_b;
  if constexpr (Second) {
    double* second = seconds + at.job * (slots.dim + slots.pairs);
    second[a] = square_a;
    if (paired) {
      second[b] = square_b;
      second[slots.dim + at.slot] = cross;
    }
  }
}

/// The two channels whose product entry `e` of the second moments is about.
struct MomentEntry {
  std::int64_t row;
  std::int64_t column;

  KVEVICT_HOST_DEVICE MomentEntry(std::int64_t e, const ChannelSlots& slots, bool full) {
    if (full) {
      row = e / slots.dim;
      column = e % slots.dim;
    } else if (e < slots.dim) {
      row = column = e;
    } else {
      row = slots.first(e - slots.dim);
      column = slots.second(e - slots.dim);
    }
  }
};

/// Takes the parts in, one after the other: a thread follows one entry and the means it is about.
/// The means themselves are still those from before.
static __global__ void __launch_bounds__(256)
    merge_second_moments(MomentParts parts, HeldWeight held, std::int64_t first_head,
                         ChannelSlots slots, bool full, std::int64_t entries,
                         DeviceMoments moments) {
  const std::int64_t tiles = tiles_of(entries, 256);
  const std::int64_t entry = blockIdx.x % tiles * 256 + threadIdx.x;
  if (entry >= entries) return;
  const MomentEntry at(entry, slots, full);
  if (at.column > at.row && full) return;
  const std::int64_t job = blockIdx.x / tiles;
  const std::int64_t head = first_head + job;
  double mean_r = moments.mean(head, at.row);
  double mean_c = moments.mean(head, at.column);
  double sum = held.kept_share * moments.second(head, entry);
  double seen = held.weight;
  for (std::int64_t p = 0; p < parts.rows.count; ++p) {
    const std::int64_t from = job * parts.rows.count + p;
    const auto added = static_cast<double>(parts.rows.size(p));
    const MeanUpdate update(seen, added);
    const double distance_r = parts.mean(from, at.row) - mean_r;
    const double distance_c = parts.mean(from, at.column) - mean_c;
    sum += parts.second(from, entry) + update.weight * distance_r * distance_c;
    mean_r += distance_r * update.share;
    mean_c += distance_c * update.share;
    seen += added;
  }
  moments.second(head, entry) = sum;
}

static __global__ void __launch_bounds__(128)
    merge_means(MomentParts parts, double weight, std::int64_t first_head, DeviceMoments moments) {
  const std::int64_t dim = moments.mean.shape[1];
  const std::int64_t tiles = tiles_of(dim, 128);
  const std::int64_t channel = blockIdx.x % tiles * 128 + threadIdx.x;
  if (channel >= dim) return;
  const std::int64_t job = blockIdx.x / tiles;
  double mean = moments.mean(first_head + job, channel);
  double seen = weight;
  for (std::int64_t p = 0; p < parts.rows.count; ++p) {
    const auto added = static_cast<double>(parts.rows.size(p));
    mean +=
        (parts.mean(job * parts.rows.count + p, channel) - mean) * MeanUpdate(seen, added).share;
    seen += added;
  }
  moments.mean(first_head + job, channel) = mean;
}

/// Merges the parts of `heads` heads from `first_head` on.
inline void merge_parts(Resources& res, const MomentParts& parts, const HeldWeight& held,
                        std::int64_t first_head, std::int64_t heads, const ChannelSlots& slots,
                        Covariance covariance, const DeviceMoments& moments) {
  const std::int64_t entries = moments.second.shape[1];
  if (covariance != Covariance::none) {
    launch(res, "merge_second_moments", merge_second_moments, heads * tiles_of(entries, 256), 256,
           0, parts, held, first_head, slots, covariance == Covariance::full, entries, moments);
  }
  launch(res, "merge_means", merge_means, heads * tiles_of(slots.dim, 128), 128, 0, parts,
         held.weight, first_head, moments);
}

/// Doubles for moments of parts: heads are worked on in groups that fit.
inline constexpr std::int64_t moment_workspace = std::int64_t{8} << 20;

inline constexpr int turn_threads = 128;

/// Rotations of one probe each: what all heads share. [probe][pair]
static __global__ void __launch_bounds__(turn_threads)
    turns_of_positions(const std::int32_t* positions, const double* frequencies, double factor,
                       std::int64_t count, std::int64_t pairs, double* cosines, double* sines) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * turn_threads + threadIdx.x;
  if (i >= count * pairs) return;
  const double angle = static_cast<double>(positions[i / pairs]) * frequencies[i % pairs];
  cosines[i] = factor * cos(angle);
  sines[i] = factor * sin(angle);
}

/// A thread for each head, probe and slot.
template <class T>
__global__ void __launch_bounds__(turn_threads)
    turn_queries(QueryReader<T> read, const std::int32_t* rows, const double* cosines,
                 const double* sines, std::int64_t count, ChannelSlots slots,
                 MatrixBatchView<float, MemorySpace::device> to) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * turn_threads + threadIdx.x;
  const std::int64_t slot = n % slots.count();
  const std::int64_t i = n / slots.count() % count;
  const std::int64_t q = n / slots.count() / count;
  if (q >= read.queries.heads()) return;
  const T* row = read.row(q, rows[i]);
  const std::int64_t a = slots.first(slot);
  if (!slots.paired(slot)) {
    to(q, i, a) = static_cast<float>(row[a]);
    return;
  }
  const std::int64_t b = slots.second(slot);
  const auto x = static_cast<double>(static_cast<float>(row[a]));
  const auto y = static_cast<double>(static_cast<float>(row[b]));
  const double cosine = cosines[i * slots.pairs + slot];
  const double sine = sines[i * slots.pairs + slot];
  to(q, i, a) = static_cast<float>(x * cosine - y * sine);
  to(q, i, b) = static_cast<float>(x * sine + y * cosine);
}

}  // namespace detail

/// Queries are read once, by blocks that each take a part of them; parts are merged in order. Does
/// not wait.
inline void accumulate_query_moments_impl(Resources& res,
                                          const QueriesView<MemorySpace::device>& queries,
                                          std::int64_t first, const Rope& rope,
                                          Covariance covariance, double weight, double kept_share,
                                          const QueryMoments<MemorySpace::device>& moments) {
  const std::int64_t dim = queries.dim();
  const std::int64_t rows = queries.count() - first;
  const std::int64_t entries = moment_size(covariance, rope, dim);
  if (rows == 0 || queries.heads() == 0) return;
  const bool full = covariance == Covariance::full;
  const RowParts parts = full ? RowParts(rows, 1024, 4, detail::gram_depth)
                              : RowParts(rows, 128, 32, detail::slot_tile);
  const std::int64_t group = std::clamp<std::int64_t>(
      detail::moment_workspace / (parts.count * (dim + entries)), 1, queries.heads());
  WorkspaceScope scope(res.workspace());
  auto* means = scope.carve<double>("query_moments.means", group * parts.count * dim);
  auto* seconds = scope.carve<double>("query_moments.seconds", group * parts.count * entries);
  if (res.workspace().counting()) return;
  const ChannelSlots slots(rope, dim);
  for (std::int64_t head = 0; head < queries.heads(); head += group) {
    const std::int64_t heads = std::min(group, queries.heads() - head);
    detail::with_element_type(queries.type(), [&](auto type) {
      using T = typename decltype(type)::type;
      const detail::QueryReader<T> read{queries, first};
      if (full) {
        covariance_of_parts(res, read, head, heads, parts, dim, means, seconds);
        return;
      }
      auto* kernel = covariance == Covariance::none ? detail::slot_moments_of_parts<false, T>
                                                    : detail::slot_moments_of_parts<true, T>;
      launch(res, "slot_moments_of_parts", kernel,
             heads * parts.count * tiles_of(slots.count(), detail::slot_threads),
             detail::slot_threads, 0, read, head, parts, slots, means, seconds);
    });
    using View = MatrixView<const double, MemorySpace::device>;
    detail::merge_parts(res,
                        {View::packed(means, heads * parts.count, dim),
                         View::packed(seconds, heads * parts.count, entries), parts},
                        {weight, kept_share}, head, heads, slots, covariance, moments);
  }
}

inline void merge_query_moments_impl(Resources& res,
                                     const QueryMoments<MemorySpace::device, const double>& other,
                                     std::int64_t other_count, const Rope& rope,
                                     Covariance covariance, std::int64_t count,
                                     const QueryMoments<MemorySpace::device>& moments) {
  if (res.workspace().counting()) return;
  const ChannelSlots slots(rope, moments.mean.shape[1]);
  detail::merge_parts(res, {other.mean, other.second, RowParts(other_count)},
                      {static_cast<double>(count), 1.0}, 0, moments.mean.shape[0], slots,
                      covariance, moments);
}

/// Angles, sines and cosines in double. Does not wait.
inline void rotate_queries_impl(Resources& res, const QueriesView<MemorySpace::device>& queries,
                                const std::int32_t* rows, const std::int32_t* positions,
                                std::int64_t count, const Rope& rope,
                                MatrixBatchView<float, MemorySpace::device> to) {
  const ChannelSlots slots(rope, queries.dim());
  WorkspaceScope scope(res.workspace());
  auto* device_rows = scope.carve<std::int32_t>("rotate_queries.rows", count);
  auto* device_positions = scope.carve<std::int32_t>("rotate_queries.positions", count);
  auto* frequencies = scope.carve<double>("rotate_queries.frequencies", slots.pairs);
  auto* cosines = scope.carve<double>("rotate_queries.cosines", count * slots.pairs);
  auto* sines = scope.carve<double>("rotate_queries.sines", count * slots.pairs);
  WorkspaceScope host(res.host_workspace());
  auto* host_frequencies = host.carve<double>("rotate_queries.frequencies", slots.pairs);
  if (res.workspace().counting()) return;
  for (std::int64_t pair = 0; pair < slots.pairs; ++pair) {
    host_frequencies[pair] = rope.frequency(pair, queries.dim());
  }
  upload(res.stream(), rows, count, device_rows);
  upload(res.stream(), positions, count, device_positions);
  upload(res.stream(), host_frequencies, slots.pairs, frequencies);
  launch(res, "turns_of_positions", detail::turns_of_positions,
         tiles_of(count * slots.pairs, detail::turn_threads), detail::turn_threads, 0,
         device_positions, frequencies, rope.attention_factor, count, slots.pairs, cosines, sines);
  detail::with_element_type(queries.type(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch(res, "turn_queries", detail::turn_queries<T>,
           tiles_of(queries.heads() * count * slots.count(), detail::turn_threads),
           detail::turn_threads, 0, detail::QueryReader<T>{queries, 0}, device_rows, cosines, sines,
           count, slots, to);
  });
}

}  // namespace kvevict::cuda
