// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/workspace.hpp"
#include "kvevict/cpu/refit_fit.hpp"
#include "kvevict/cpu/refit_probes.hpp"
#include "kvevict/cpu/tile.hpp"

namespace kvevict::cpu {

/// Scratch of one worker, for the longest selection of a call.
struct RefitScratch {
  float* key_tile;
  float* value_tile;
  float* logits;          // [tile_rows][probes]
  float* shifts;          // [2][probes]
  float* old_keys;        // [kept][dim]
  float* old_values;      // [kept][value dim]
  float* keys;            // [kept][dim], as they will be written
  float* values;          // [kept][value dim], likewise
  float* change;          // [kept][value dim]
  float* shares;          // [kept][probes], parts of the attention over the whole cache
  float* weights;         // [kept][probes]
  float* plain_residual;  // [probes][value dim], of the kept rows as they were
  float* residual;        // [probes][value dim]
  float* mass_weights;    // [kept]
  bool* pinned;           // [kept]
  double* second_moment;  // [dim][dim]
  double* factor;         // [dim][dim]
  double* mean;           // [dim]
  double* direction;      // [dim]
  RefitProbes probes;
  RefitSystem system;
};

struct RefitShape {
  std::int64_t kept;    ///< longest head of the selection
  std::int64_t probes;  ///< of the query heads of a group together
  std::int64_t dim;
  std::int64_t value_dim;
};

/// Carves the scratch of all workers; `at` serves worker after worker.
class RefitWorkers {
 public:
  RefitWorkers(WorkspaceScope& scope, std::int64_t workers, const RefitShape& shape)
      : shape_(shape) {
    const std::int64_t unknowns = std::min(shape.kept, shape.probes);
    floats_ = std::int64_t{2} * tile_rows * std::max(shape.dim, shape.value_dim) +
              tile_rows * shape.probes + 2 * shape.probes +
              shape.kept * (2 * shape.dim + 3 * shape.value_dim + 2 * shape.probes + 1) +
              shape.probes * (shape.dim + 1 + 3 * shape.value_dim) +
              unknowns * (unknowns + shape.value_dim);
    doubles_ = 2 * shape.dim * shape.dim + 2 * shape.dim + 5 * shape.probes + shape.kept +
               unknowns * (unknowns + shape.value_dim);
    float_base_ = scope.carve<float>("refit.floats", workers * floats_);
    double_base_ = scope.carve<double>("refit.doubles", workers * doubles_);
    row_base_ = scope.carve<std::int64_t>("refit.rows", workers * shape.probes);
    flag_base_ = scope.carve<bool>("refit.flags", workers * 2 * shape.kept);
  }

  RefitScratch at(std::int64_t worker) const {
    const RefitShape& s = shape_;
    const std::int64_t unknowns = std::min(s.kept, s.probes);
    float* next = float_base_ + worker * floats_;
    const auto floats = [&](std::int64_t count) {
      float* taken = next;
      next += count;
      return taken;
    };
    double* next_double = double_base_ + worker * doubles_;
    const auto doubles = [&](std::int64_t count) {
      double* taken = next_double;
      next_double += count;
      return taken;
    };
    RefitScratch scratch{};
    const std::int64_t tile = tile_rows * std::max(s.dim, s.value_dim);
    scratch.key_tile = floats(tile);
    scratch.value_tile = floats(tile);
    scratch.logits = floats(tile_rows * s.probes);
    // Logits of the whole cache are done with before systems are set up, and no more rows than
    // probes take columns.
    scratch.system.tile = scratch.logits;
    scratch.shifts = floats(2 * s.probes);
    scratch.old_keys = floats(s.kept * s.dim);
    scratch.old_values = floats(s.kept * s.value_dim);
    scratch.keys = floats(s.kept * s.dim);
    scratch.values = floats(s.kept * s.value_dim);
    scratch.change = floats(s.kept * s.value_dim);
    scratch.shares = floats(s.kept * s.probes);
    scratch.weights = floats(s.kept * s.probes);
    scratch.mass_weights = floats(s.kept);
    scratch.probes.queries = floats(s.probes * s.dim);
    scratch.probes.largest = floats(s.probes);
    scratch.probes.target = floats(s.probes * s.value_dim);
    scratch.plain_residual = floats(s.probes * s.value_dim);
    scratch.residual = floats(s.probes * s.value_dim);
    scratch.system.gram = floats(unknowns * unknowns);
    scratch.system.solution = floats(unknowns * s.value_dim);
    scratch.second_moment = doubles(s.dim * s.dim);
    scratch.factor = doubles(s.dim * s.dim);
    scratch.mean = doubles(s.dim);
    scratch.direction = doubles(s.dim);
    scratch.probes.mass = doubles(s.probes);
    scratch.system.matrix = doubles(unknowns * unknowns);
    scratch.system.right = doubles(unknowns * s.value_dim);
    scratch.system.dual = doubles(4 * s.probes);
    scratch.system.slopes = doubles(s.kept);
    scratch.probes.rows = row_base_ + worker * s.probes;
    scratch.pinned = flag_base_ + worker * 2 * s.kept;
    scratch.system.solved_free = scratch.pinned + s.kept;
    return scratch;
  }

 private:
  RefitShape shape_;
  std::int64_t floats_;
  std::int64_t doubles_;
  float* float_base_;
  double* double_base_;
  std::int64_t* row_base_;
  bool* flag_base_;
};

}  // namespace kvevict::cpu
