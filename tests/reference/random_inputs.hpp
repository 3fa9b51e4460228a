// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/types.hpp"
#include "support/random.hpp"

namespace kvevict_test::reference {

// What random_inputs makes: as many KV heads as entries in `rows`, each with that many rows.
struct InputShape {
  std::size_t group = 2;
  std::vector<std::size_t> rows = {50, 50};
  std::size_t dim = 8;
  std::size_t value_dim = 8;
  std::size_t queries = 12;
  std::size_t probes = 6;
  std::size_t hidden = 24;
  Shape values = Shape::normal;
};

// Random keys, values, queries (of which the statistics are taken), probes, output projection,
// query filter and keys before RoPE, which are no rotation of the keys. Every number, the
// statistics included, is rounded to float32, so that the library and these loops read equal
// inputs.
Inputs random_inputs(const InputShape& shape, std::uint64_t seed);

}  // namespace kvevict_test::reference
