// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "kvevict/core/protect.hpp"
#include "kvevict/cpu/refit_head.hpp"
#include "kvevict/cpu/refit_scratch.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/refit.hpp"

namespace kvevict::cpu {

/// Mean and mean outer product of the direction probes of one KV head's group.
inline void direction_moments(const QueriesView<>& queries, std::int64_t h, std::int64_t group,
                              float* row, MatrixMap<double> second, VectorMap<double> mean) {
  second.setZero();
  mean.setZero();
  const std::int64_t dim = queries.dim();
  for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
    for (std::int64_t i = 0; i < queries.count(); ++i) {
      load_queries(queries, q, i, 1, row);
      for (std::int64_t a = 0; a < dim; ++a) {
        const double value = row[a];
        mean[a] += value;
        double* out = &second(a, 0);
        for (std::int64_t b = 0; b < dim; ++b) out[b] += value * row[b];
      }
    }
  }
  const double weight = 1.0 / static_cast<double>(group * queries.count());
  second *= weight;
  mean *= weight;
}

template <class T>
void write_rows(const float* from, std::int64_t rows, const HeadView<T>& to) {
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t c = 0; c < to.dim; ++c) {
      to(j, c) = static_cast<T>(from[j * to.dim + c]);
    }
  }
}

template <class T>
void refit_rows_impl(Resources& res, SelectionView<> kept, const RowsView<const T>& keys,
                     const RowsView<const T>& values, const Positions<>& positions,
                     const ProbeQueries<>& probes, const ProbeQueries<>& direction_probes,
                     const RefitOptions& options, const RefitOutput<T>& out) {
  const std::int64_t heads = keys.heads();
  if (heads == 0) return;
  const std::int64_t group = probes.queries.heads() / heads;
  const RefitShape shape{kept.layout.longest(), group * probes.queries.count(), keys.dim(),
                         values.dim()};
  const float scale = 1.0f / std::sqrt(static_cast<float>(keys.dim()));
  WorkspaceScope scope(res.workspace());
  const RefitWorkers workers(scope, res.threads(), shape);
  if (res.workspace().counting()) return;
  res.parallel_for(heads, [&](std::int64_t h, int worker) {
    RefitScratch s = workers.at(worker);
    const std::int64_t rows = kept.count(h);
    const std::int32_t* indices = kept.head(h);
    const auto key_rows = keys.head(h);
    const auto value_rows = values.head(h);
    const auto row_positions = positions.row(h, keys.layout());
    RefitHead& account = out.heads[h];
    account = {};
    for (std::int64_t j = 0; j < rows; ++j) {
      const auto key = load_tile(key_rows, indices[j], 1, s.key_tile);
      std::copy_n(key.data(), shape.dim, s.old_keys + j * shape.dim);
      const auto value = load_tile(value_rows, indices[j], 1, s.value_tile);
      std::copy_n(value.data(), shape.value_dim, s.old_values + j * shape.value_dim);
    }
    const auto finish = [&](const float* new_keys, const float* new_values, bool biased) {
      write_rows(new_keys, rows, out.keys.head(h));
      write_rows(new_values, rows, out.values.head(h));
      if (out.bias == nullptr) return;
      float* bias = out.bias + kept.layout.offset(h);
      for (std::int64_t j = 0; j < rows; ++j) bias[j] = biased ? std::log(s.mass_weights[j]) : 0.0f;
    };
    if (rows == 0 || rows == keys.rows(h)) return finish(s.old_keys, s.old_values, false);

    load_refit_probes(probes, h, group, options.check_every, scale, row_positions, keys.rows(h),
                      s.key_tile, s.probes);
    attend_whole_cache(key_rows, value_rows, keys.rows(h), shape.dim, shape.value_dim, s.key_tile,
                       s.value_tile, s.logits, s.shifts, s.probes);
    std::fill_n(s.pinned, rows, false);
    for_each_protected_range(
        options.pinned, row_positions, keys.rows(h), [&](std::int64_t begin, std::int64_t end) {
          const auto* first = std::lower_bound(indices, indices + rows, begin);
          const auto* last = std::lower_bound(first, indices + rows, end);
          std::fill(s.pinned + (first - indices), s.pinned + (last - indices), true);
        });

    bool mass = options.mass != RefitMass::none;
    if (options.mass == RefitMass::absorbed) {
      VectorMap<double> mean(s.mean, shape.dim);
      direction_moments(direction_probes.queries, h, group, s.key_tile,
                        map_matrix(s.second_moment, shape.dim, shape.dim), mean);
      const double spread = absorbing_direction(
          map_matrix(s.second_moment, shape.dim, shape.dim),
          VectorMap<const double>(s.mean, shape.dim), options.direction_ridge,
          map_matrix(s.factor, shape.dim, shape.dim), VectorMap<double>(s.direction, shape.dim));
      account.spread = static_cast<float>(spread);
      mass = spread <= options.largest_spread;
    }

    HeadRefit<T> refit(s, shape, rows, indices, scale, options);
    refit.evict();
    const RefitErrors evicted = refit.errors();
    account.evict_error = account.error = static_cast<float>(evicted.all);
    // Candidates from the fullest to the plainest; the checked error puts them in order.
    struct Candidate {
      RefitKind kind;
      double checked;
    };
    Candidate candidates[2];
    int count = 0;
    if (mass) {
      candidates[count++] = {options.values ? RefitKind::mass_and_values : RefitKind::mass, 0.0};
    }
    if (options.values) candidates[count++] = {RefitKind::values, 0.0};
    if (refit.has_checks()) {
      int usable = 0;
      for (int c = 0; c < count; ++c) {
        if (!refit.fit(candidates[c].kind, s.probes.fitted)) continue;
        const double checked = refit.errors().checked;
        if (checked < evicted.checked) candidates[usable++] = {candidates[c].kind, checked};
      }
      count = usable;
      if (count == 2 && candidates[1].checked < candidates[0].checked) {
        std::swap(candidates[0], candidates[1]);
      }
    }
    for (int c = 0; c < count; ++c) {
      if (!refit.fit(candidates[c].kind, refit.probes())) continue;
      const double error = refit.errors().all;
      if (!(error < evicted.all)) continue;
      account.applied = candidates[c].kind;
      account.error = static_cast<float>(error);
      account.key_change = refit.largest_change(s.keys, s.old_keys, rows, shape.dim);
      account.value_change = refit.largest_change(s.values, s.old_values, rows, shape.value_dim);
      return finish(s.keys, s.values, candidates[c].kind != RefitKind::values);
    }
    finish(s.old_keys, s.old_values, false);
  });
}

}  // namespace kvevict::cpu
