// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/rerotate_keys.hpp"

namespace kvevict::cpu {

/// Rows of one distance that follow each other, as between two evicted ones, share their sines.
template <class T>
void rerotate_keys_impl(Resources& res, const RowsView<T>& keys, const Positions<>& from,
                        const Positions<>& to, const Rope& rope) {
  const std::int64_t dim = keys.dim();
  const std::int64_t pairs = rope.rotated(dim) / 2;
  WorkspaceScope scope(res.workspace());
  double* frequencies = scope.carve<double>("rerotate_keys.frequencies", pairs);
  double* turns = scope.carve<double>("rerotate_keys.turns", res.threads() * 2 * pairs);
  if (res.workspace().counting()) return;
  for (std::int64_t pair = 0; pair < pairs; ++pair) frequencies[pair] = rope.frequency(pair, dim);
  res.parallel_for(keys.heads(), [&](std::int64_t h, int worker) {
    const HeadView<T> head = keys.head(h);
    const auto old_positions = from.row(h, keys.layout());
    const auto new_positions = to.row(h, keys.layout());
    double* cosines = turns + worker * 2 * pairs;
    double* sines = cosines + pairs;
    std::int64_t known = 0;
    for (std::int64_t i = 0; i < head.rows; ++i) {
      const std::int64_t distance = std::int64_t{new_positions[i]} - old_positions[i];
      if (distance == 0) continue;
      if (distance != known) {
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
          const double angle = static_cast<double>(distance) * frequencies[pair];
          cosines[pair] = std::cos(angle);
          sines[pair] = std::sin(angle);
        }
        known = distance;
      }
      T* key = head.row(i);
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        T& a = key[rope.first_channel(pair) * head.channel_stride];
        T& b = key[rope.second_channel(pair, dim) * head.channel_stride];
        const auto x = static_cast<double>(static_cast<float>(a));
        const auto y = static_cast<double>(static_cast<float>(b));
        a = saturated<T>(x * cosines[pair] - y * sines[pair]);
        b = saturated<T>(x * sines[pair] + y * cosines[pair]);
      }
    }
  });
}

}  // namespace kvevict::cpu
