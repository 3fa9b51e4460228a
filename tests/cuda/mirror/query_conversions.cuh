// SPDX-License-Identifier: Apache-2.0
#pragma once

// As conversions.cuh, for what has to do with queries.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/mirror/conversions.cuh"
#include "kvevict/ops/query_moments.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/ops/running_mass.hpp"

namespace kvevict_test {

template <class T>
kvevict::QueriesView<device_space> queries_on_device(Transfers& transfers,
                                                     const kvevict::QueriesView<>& queries) {
  using View = kvevict::QueriesView<device_space>;
  const std::int64_t heads = queries.heads();
  const std::int64_t count = queries.count();
  const std::int64_t dim = queries.dim();
  const std::int64_t extent = count == 0 ? 0 : (count - 1) * queries.row_stride() + dim;
  std::vector<const T*> first;
  for (std::int64_t h = 0; h < heads; ++h) {
    first.push_back(static_cast<const T*>(queries.row(h, 0)));
  }
  const std::int64_t step = heads < 2 ? 0 : first[1] - first[0];
  // Arrays of their own may lie a constant apart as well: what is between them is nobody's. In one
  // array it is less than a row.
  bool strided = step >= 0 && step < extent + queries.row_stride();
  for (std::int64_t h = 1; h < heads; ++h) {
    strided = strided && first[static_cast<std::size_t>(h)] == first[0] + h * step;
  }
  if (strided) {
    const T* const base = heads == 0 ? nullptr : first[0];
    const std::int64_t all = extent == 0 ? 0 : extent + (heads - 1) * step;
    return View::strided(transfers.array(base, all), heads, count, dim, step, queries.row_stride());
  }
  for (const T*& head : first) head = transfers.array(head, extent);
  return View::per_head(transfers.stored(first), heads, count, dim, queries.row_stride());
}

inline kvevict::QueriesView<device_space> on_device(Transfers& transfers,
                                                    const kvevict::QueriesView<>& queries) {
  switch (queries.type()) {
    case kvevict::ElementType::float32:
      return queries_on_device<float>(transfers, queries);
    case kvevict::ElementType::float16:
      return queries_on_device<kvevict::half>(transfers, queries);
    case kvevict::ElementType::bfloat16:
      break;
  }
  return queries_on_device<kvevict::bfloat16>(transfers, queries);
}

/// Positions of the first `count` queries of each KV head. They are told by their values: what can
/// be written as consecutive or shared is.
struct OfQueries {
  const kvevict::QueryPositions<>& positions;
  std::int64_t kv_heads;
  std::int64_t count;
};

inline kvevict::QueryPositions<device_space> on_device(Transfers& transfers, const OfQueries& of) {
  using Positions = kvevict::QueryPositions<device_space>;
  if (!of.positions.given()) return {};
  if (!transfers.translating() || of.kv_heads == 0) return Positions::consecutive(0);
  std::vector<std::vector<std::int32_t>> heads;
  bool consecutive = true;
  for (std::int64_t h = 0; h < of.kv_heads; ++h) {
    std::vector<std::int32_t>& head = heads.emplace_back();
    for (std::int64_t i = 0; i < of.count; ++i) head.push_back(of.positions.at(h, i));
    for (std::size_t i = 1; i < head.size(); ++i) {
      consecutive = consecutive && head[i] == head[i - 1] + 1;
    }
  }
  const auto all_as_first = [&] {
    for (const auto& head : heads) {
      if (head != heads[0]) return false;
    }
    return true;
  };
  if (all_as_first()) {
    return consecutive ? Positions::consecutive(heads[0].empty() ? 0 : heads[0][0])
                       : Positions::shared(transfers.stored(heads[0]));
  }
  std::vector<const std::int32_t*> table;
  for (const auto& head : heads) table.push_back(transfers.stored(head));
  return Positions::per_head(transfers.stored(table));
}

/// Probes of a cache with this many heads. Without a mask nobody reads their positions.
struct OfProbes {
  const kvevict::ProbeQueries<>& probes;
  std::int64_t kv_heads;
};

inline kvevict::ProbeQueries<device_space> on_device(Transfers& transfers, const OfProbes& of) {
  const auto& [queries, positions, mask] = of.probes;
  kvevict::ProbeQueries<device_space> out{on_device(transfers, queries), {}, mask};
  if (mask == kvevict::ProbeMask::by_position) {
    out.positions = on_device(transfers, OfQueries{positions, of.kv_heads, queries.count()});
  }
  return out;
}

/// A window of a cache with this many heads.
struct OfWindow {
  const kvevict::QueryWindow<>& window;
  std::int64_t kv_heads;
};

inline kvevict::QueryWindow<device_space> on_device(Transfers& transfers, const OfWindow& of) {
  const auto& [queries, positions] = of.window;
  return {on_device(transfers, queries),
          on_device(transfers, OfQueries{positions, of.kv_heads, queries.count()})};
}

struct OfBound {
  const kvevict::PositionBound<>& bound;
  std::int64_t kv_heads;
};

inline kvevict::PositionBound<device_space> on_device(Transfers& transfers, const OfBound& of) {
  if (!of.bound.given) return {};
  return {on_device(transfers, OfQueries{of.bound.positions, of.kv_heads, 1}), true};
}

struct OfRaised {
  const kvevict::RaisedRows<>& raised;
  std::int64_t kv_heads;
};

inline kvevict::RaisedRows<device_space> on_device(Transfers& transfers, const OfRaised& of) {
  return {of.raised.first, on_device(transfers, OfBound{of.raised.from, of.kv_heads}),
          of.raised.last};
}

template <class T>
kvevict::QueryMoments<device_space, T> on_device(
    Transfers& transfers, const kvevict::QueryMoments<kvevict::MemorySpace::host, T>& moments) {
  return {on_device(transfers, moments.mean), on_device(transfers, moments.second)};
}

inline kvevict::RunningMass<device_space> on_device(Transfers& transfers,
                                                    const kvevict::RunningMass<>& running) {
  const std::int64_t total = running.layout.total();
  return {transfers.array(running.mass, total), transfers.array(running.seen, total),
          transfers.array(running.value, total), on_device(transfers, running.layout)};
}

inline kvevict::MassStep<device_space> on_device(Transfers& transfers,
                                                 const kvevict::MassStep<>& step) {
  const kvevict::RowLayout<>& layout = step.received.layout;
  return {on_device(transfers, step.received),
          on_device(transfers, OfRows{step.row_positions, layout}),
          on_device(transfers, OfQueries{step.query_positions, layout.heads(), step.queries}),
          step.queries,
          step.kept_share,
          step.mean,
          step.largest};
}

}  // namespace kvevict_test
