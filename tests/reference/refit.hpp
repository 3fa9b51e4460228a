// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

// What a refit of one KV head is given. Probes of all query heads of the group under each other.
struct RefitCase {
  Matrix keys;                    // [row, dim]
  Matrix values;                  // [row, value_dim]
  Matrix probes;                  // [probe, dim]
  std::vector<std::size_t> seen;  // rows that each probe sees; empty: all
  Rows kept;
  std::vector<bool> pinned;  // [kept]; empty: none
  bool mass = true;          // fit mass weights
  bool absorb = true;        // into the keys, else an explicit bias
  bool fit_values = true;
  double ridge = 1e-2;
  double mass_ridge = 1e-2;
  double weight_floor = 1e-4;
  double direction_ridge = 1e-3;
};

struct RefitResult {
  Matrix keys;                    // [kept, dim]
  Matrix values;                  // [kept, value_dim]
  std::vector<double> weights;    // [kept] mass weights
  std::vector<double> direction;  // [dim]
  double spread = 0;
};

// Mass weights by coordinate descent until nothing moves, values by the normal equations.
RefitResult refit(const RefitCase& given);

// |outputs over the given kept rows - outputs over the whole cache| / |outputs over the whole
// cache|; `bias` [kept] is added to the logits, empty: none.
double refit_error(const RefitCase& given, const Matrix& kept_keys, const Matrix& kept_values,
                   const std::vector<double>& bias = {});

}  // namespace kvevict_test::reference
