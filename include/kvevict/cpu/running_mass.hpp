// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/combined_mass.hpp"
#include "kvevict/ops/running_mass.hpp"

namespace kvevict::cpu {

inline void accumulate_mass_impl(Resources& res, const RunningMass<>& before,
                                 const MassStep<>& step, const RunningMass<>& after) {
  if (res.workspace().counting()) return;
  res.parallel_for(after.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t known = h < before.layout.heads() ? before.layout.rows(h) : 0;
    const std::int64_t old = known > 0 ? before.layout.offset(h) : 0;
    const std::int64_t now = after.layout.offset(h);
    const float* received = step.received.head(h);
    const auto positions = step.row_positions.row(h, step.received.layout);
    std::int64_t earlier = 0;  // queries before the row, which could not see it; both ascend
    for (std::int64_t i = 0; i < after.layout.rows(h); ++i) {
      while (earlier < step.queries && step.query_positions.at(h, earlier) < positions[i]) {
        ++earlier;
      }
      const double mass = i < known ? before.mass[old + i] * step.kept_share : 0.0;
      const std::int64_t seen = i < known ? before.seen[old + i] : 0;
      double value = after.mass[now + i] =
          combined_mass(mass, static_cast<double>(received[i]), step.largest);
      const std::int64_t sights = after.seen[now + i] = seen + step.queries - earlier;
      if (step.mean) value = sights > 0 ? value / static_cast<double>(sights) : 0.0;
      after.value[now + i] = static_cast<float>(value);
    }
  });
}

inline void gather_mass_impl(Resources& res, const SelectionView<>& kept, const RunningMass<>& from,
                             const RunningMass<>& to) {
  if (res.workspace().counting()) return;
  res.parallel_for(kept.heads(), [&](std::int64_t h, int) {
    const std::int32_t* rows = kept.head(h);
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      const std::int64_t source = from.layout.offset(h) + rows[j];
      const std::int64_t target = to.layout.offset(h) + j;
      to.mass[target] = from.mass[source];
      to.seen[target] = from.seen[source];
      to.value[target] = from.value[source];
    }
  });
}

}  // namespace kvevict::cpu
