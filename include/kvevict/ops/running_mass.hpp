// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/core/selection.hpp"

namespace kvevict {

/// The attention that cached rows have received so far, each array packed [head][row] by the
/// layout.
template <MemorySpace S = MemorySpace::host>
struct RunningMass {
  double* mass = nullptr;
  std::int64_t* seen = nullptr;  ///< observed queries that could see the row
  float* value = nullptr;        ///< what policies are told: the mass, or its mean per query seen
  RowLayout<S> layout = {};
};

/// What one call has observed.
template <MemorySpace S = MemorySpace::host>
struct MassStep {
  ScoreView<S> received;              ///< attention received, one value for each row
  Positions<S> row_positions;         ///< of the rows of `received`
  QueryPositions<S> query_positions;  ///< of the queries; a query sees the rows up to its position
  std::int64_t queries = 0;
  double kept_share = 1.0;  ///< by which earlier mass decays
  bool mean = false;        ///< whether `value` is divided by `seen`
  bool largest = false;     ///< whether the larger of both stays, instead of their sum
};

/// after.mass = before.mass * kept_share + received (or the larger of these, with `largest`; a NaN
/// stays) and after.seen = before.seen + the queries at
/// or behind the row, for the rows that `before` holds; rows behind those of `before` start from
/// zero. Each head of `after`, whose layout is that of `received`, holds at least as many rows as
/// in `before`, in other memory. A read and a write of 20 bytes a row, and a binary search over the
/// queries.
template <class R>
void accumulate_mass(R& res, const RunningMass<R::space>& before, const MassStep<R::space>& step,
                     const RunningMass<R::space>& after) {
  require(same_rows(step.received.layout, after.layout), "step.rows", "different",
          "those of the mass it is added to");
  accumulate_mass_impl(res, before, step, after);
}

/// Copies the entries of the kept rows of every head; `to` has the layout of the selection, in
/// other memory.
template <class R>
void gather_mass(R& res, const SelectionView<R::space>& kept, const RunningMass<R::space>& from,
                 const RunningMass<R::space>& to) {
  require(same_rows(kept.layout, to.layout), "kept.rows", "different", "those of the target");
  gather_mass_impl(res, kept, from, to);
}

}  // namespace kvevict
