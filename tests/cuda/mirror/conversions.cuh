// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an op is called with, translated to device memory. Values that hold no device memory pass
// through; some views need to be told how much memory they refer to (OfRows and the like).
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cuda/mirror/transfers.cuh"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/core/view.hpp"

namespace kvevict_test {

inline constexpr kvevict::MemorySpace device_space = kvevict::MemorySpace::device;

/// Offsets are spelled out: what a layout says of its heads is the same, not how it is written.
inline kvevict::RowLayout<device_space> on_device(Transfers& transfers,
                                                  const kvevict::RowLayout<>& layout) {
  using Layout = kvevict::RowLayout<device_space>;
  const std::int64_t heads = layout.heads();
  if (layout.is_uniform()) return Layout::uniform(heads, heads == 0 ? 0 : layout.rows(0));
  std::vector<std::int64_t> offsets = {0};
  for (std::int64_t h = 0; h < heads; ++h) offsets.push_back(offsets.back() + layout.rows(h));
  const std::int64_t* device = transfers.stored(offsets);
  return Layout::ragged(device, transfers.kept(std::move(offsets)), heads);
}

template <class T, int Rank>
kvevict::StridedView<T, Rank, device_space> on_device(Transfers& transfers,
                                                      const kvevict::StridedView<T, Rank>& view) {
  kvevict::StridedView<T, Rank, device_space> out;
  std::int64_t last = 0;
  for (int d = 0; d < Rank; ++d) {
    out.shape[d] = view.shape[d];
    out.stride[d] = view.stride[d];
    last += (view.shape[d] - 1) * view.stride[d];
  }
  out.data = transfers.array(view.data, view.size() == 0 ? 0 : last + 1);
  return out;
}

inline kvevict::ScoreView<device_space> on_device(Transfers& transfers,
                                                  const kvevict::ScoreView<>& scores) {
  return {transfers.array(scores.data, scores.layout.total()), on_device(transfers, scores.layout)};
}

inline kvevict::AttentionMass<device_space> on_device(Transfers& transfers,
                                                      const kvevict::AttentionMass<>& mass) {
  return {transfers.array(mass.data, mass.layout.total()), on_device(transfers, mass.layout)};
}

inline kvevict::KeyNorms<device_space> on_device(Transfers& transfers,
                                                 const kvevict::KeyNorms<>& norms) {
  return {transfers.array(norms.data, norms.layout.total()), on_device(transfers, norms.layout)};
}

inline kvevict::SelectionView<device_space> on_device(Transfers& transfers,
                                                      const kvevict::SelectionView<>& selection) {
  return {on_device(transfers, selection.layout),
          transfers.array(selection.indices, selection.layout.total())};
}

inline kvevict::QueryStatsView<device_space> on_device(Transfers& transfers,
                                                       const kvevict::QueryStatsView<>& stats) {
  return {on_device(transfers, stats.mean), on_device(transfers, stats.diagonal),
          on_device(transfers, stats.covariance)};
}

inline kvevict::OutputProjection<device_space> on_device(
    Transfers& transfers, const kvevict::OutputProjection<>& projection) {
  return {on_device(transfers, projection.factors)};
}

/// What places of the heads' first elements say of a view's form.
template <class T>
struct HeadPlaces {
  std::vector<T*> first;
  bool packed = false;   ///< at the offsets of a ragged layout
  bool strided = false;  ///< a constant apart, and all of the same length

  explicit HeadPlaces(const kvevict::RowsView<T>& rows) {
    const kvevict::RowLayout<>& layout = rows.layout();
    packed = !layout.is_uniform();
    strided = layout.is_uniform();
    for (std::int64_t h = 0; h < rows.heads(); ++h) {
      first.push_back(rows.head(h).data);
      packed = packed && first.back() == first[0] + layout.offset(h) * rows.row_stride();
      strided = strided && first.back() == first[0] + h * step();
    }
  }
  std::int64_t step() const { return first.size() < 2 ? 0 : first[1] - first[0]; }
};

/// Units of T from the first to the last of `count` rows.
template <class T>
std::int64_t extent_of(const kvevict::RowsView<T>& rows, std::int64_t count) {
  if (count == 0) return 0;
  return (count - 1) * rows.row_stride() +
         (rows.dim() / kvevict::channels_of<T> - 1) * rows.channel_stride() + 1;
}

/// One pool for all heads where they lie in one as `page_layout` says, else one for each. All pages
/// of a pool are taken to be there.
template <class T>
kvevict::RowsView<T, device_space> pages_on_device(Transfers& transfers,
                                                   const kvevict::RowsView<T>& rows) {
  using View = kvevict::RowsView<T, device_space>;
  const kvevict::PageLayout page = rows.page_layout();
  std::vector<T*> bases;
  bool one_pool = true;
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    bases.push_back(rows.head(h).data);
    one_pool = one_pool && bases.back() == bases[0] + h % page.heads * page.head_stride;
  }
  const kvevict::PageTable<>& host = rows.page_table();
  const auto layout = on_device(transfers, rows.layout());
  kvevict::PageTable<device_space> table{nullptr, host.tables, host.stride, host.heads_per_table,
                                         host.pages};
  if (host.ids != nullptr) {
    table.ids =
        transfers.stored(std::vector<std::int32_t>(host.ids, host.ids + host.tables * host.stride));
  }
  const std::int64_t others = host.pages < 1 ? 0 : (host.pages - 1) * page.stride;
  const std::int64_t count = rows.layout().total() == 0 ? 0 : others + extent_of(rows, page.rows);
  if (one_pool) {
    T* const base = bases.empty() ? nullptr : bases[0];
    const std::int64_t heads = (page.heads - 1) * page.head_stride;
    return View::paged(transfers.array(base, count == 0 ? 0 : count + heads), page, table, layout,
                       rows.dim());
  }
  for (T*& base : bases) base = transfers.array(base, count);
  return View::paged_per_head(transfers.stored(bases), page, table, layout, rows.dim());
}

template <class T>
kvevict::RowsView<T, device_space> places_on_device(Transfers& transfers,
                                                    const kvevict::RowsView<T>& rows) {
  using View = kvevict::RowsView<T, device_space>;
  if (rows.is_paged()) return pages_on_device(transfers, rows);
  const HeadPlaces<T> places(rows);
  const kvevict::RowLayout<>& layout = rows.layout();
  const auto device_layout = on_device(transfers, layout);
  const std::int64_t heads = rows.heads();
  if (rows.dim() == 0) return View();  // a view of nothing at all
  if (heads == 0) return View::packed(nullptr, device_layout, rows.dim(), rows.row_stride());
  if (places.packed) {
    return View::packed(transfers.array(places.first[0], extent_of(rows, layout.total())),
                        device_layout, rows.dim(), rows.row_stride(), rows.channel_stride());
  }
  if (places.strided) {
    const std::int64_t step = places.step();
    const std::int64_t before = step < 0 ? (1 - heads) * step : 0;  // head 0 is the last one
    const std::int64_t count = layout.total() == 0 ? 0
                                                   : extent_of(rows, layout.rows(0)) +
                                                         (heads - 1) * (step < 0 ? -step : step);
    T* const lowest = places.first[0] == nullptr ? nullptr : places.first[0] - before;
    T* const base = transfers.array(lowest, count);
    return View::strided(base == nullptr ? nullptr : base + before, heads, layout.rows(0),
                         rows.dim(), step, rows.row_stride(), rows.channel_stride());
  }
  std::vector<T*> table;
  for (std::int64_t h = 0; h < heads; ++h) {
    table.push_back(
        transfers.array(places.first[static_cast<std::size_t>(h)], extent_of(rows, rows.rows(h))));
  }
  return View::per_head(transfers.stored(table), device_layout, rows.dim(), rows.row_stride(),
                        rows.channel_stride());
}

template <class T>
kvevict::RowsView<T, device_space> on_device(Transfers& transfers,
                                             const kvevict::RowsView<T>& rows) {
  const kvevict::RowsView<T, device_space> view = places_on_device(transfers, rows);
  if constexpr (kvevict::ScaledElement<std::remove_const_t<T>>) {
    if (rows.scales() != nullptr) {
      return view.with_scales(transfers.array(rows.scales(), rows.heads()));
    }
    if (rows.scaled_by_row()) return view.with_row_scales(on_device(transfers, rows.row_scales()));
  }
  return view;
}

/// Positions of the rows of a layout.
template <class Int>
struct OfRows {
  const kvevict::Positions<kvevict::MemorySpace::host, Int>& positions;
  const kvevict::RowLayout<>& layout;
};
template <class Int>
OfRows(const kvevict::Positions<kvevict::MemorySpace::host, Int>&, const kvevict::RowLayout<>&)
    -> OfRows<Int>;

template <class Int>
kvevict::Positions<device_space, Int> on_device(Transfers& transfers, const OfRows<Int>& of) {
  using Positions = kvevict::Positions<device_space, Int>;
  const auto& [positions, layout] = of;
  if (!positions.stored()) return Positions::consecutive(positions.first());
  if (layout.heads() == 0) return Positions::packed(nullptr);
  if (positions.is_shared()) {
    return Positions::shared(transfers.array(positions.row(0, layout).stored, layout.longest()));
  }
  if (positions.is_packed()) {
    return Positions::packed(transfers.array(positions.row(0, layout).stored, layout.total()));
  }
  std::vector<Int*> table;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    table.push_back(transfers.array(positions.row(h, layout).stored, layout.rows(h)));
  }
  return Positions::per_head(transfers.stored(table));
}

inline kvevict::AllocationInput<device_space> on_device(Transfers& transfers,
                                                        const kvevict::AllocationInput<>& input) {
  return {on_device(transfers, input.scores),
          on_device(transfers, OfRows(input.positions, input.scores.layout)), input.protect,
          input.shares, input.comparable_across_heads};
}

/// An array whose length only the op knows.
template <class T>
struct Counted {
  T* data;
  std::int64_t count;
};

template <class T>
T* on_device(Transfers& transfers, const Counted<T>& array) {
  return transfers.array(array.data, array.count);
}

/// Numbers that an op brings to the host by itself, see Transfers::result.
template <class T>
struct Delivered {
  T* data;
  std::int64_t count;
};
template <class T>
T* on_device(Transfers& transfers, const Delivered<T>& numbers) {
  return transfers.result(numbers.data, numbers.count);
}

}  // namespace kvevict_test
