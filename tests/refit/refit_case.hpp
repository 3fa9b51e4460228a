// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/selections.hpp"
#include "kvevict/cpu/copy_rows.hpp"
#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/refit.hpp"
#include "kvevict/refit.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/refit.hpp"

namespace kvevict_test {

// Every `step`-th row of every head, beginning with the first.
inline kvevict::Selection every(std::int64_t step, const kvevict::RowLayout<>& layout) {
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    rows.emplace_back();
    for (std::int64_t i = 0; i < layout.rows(h); i += step) {
      rows.back().push_back(static_cast<std::int32_t>(i));
    }
  }
  return selection_of(rows);
}

// What a refit writes, owned.
template <class T>
struct Refitted {
  std::vector<T> keys;
  std::vector<T> values;
  std::vector<float> bias;
  std::vector<kvevict::RefitHead> heads;
  kvevict::Selection kept;  // whose offsets the view reads
  std::int64_t dim;
  std::int64_t value_dim;

  Refitted(const kvevict::Selection& selection, const kvevict::KvView<const T>& cache,
           const kvevict::RefitOptions& options)
      : kept(selection), dim(cache.keys().dim()), value_dim(cache.values().dim()) {
    const auto total = static_cast<std::size_t>(kept.total());
    keys.assign(total * static_cast<std::size_t>(dim), T(77.0f));
    values.assign(total * static_cast<std::size_t>(value_dim), T(77.0f));
    if (options.mass == kvevict::RefitMass::bias) bias.assign(total, 77.0f);
    heads.resize(static_cast<std::size_t>(kept.heads()));
  }

  kvevict::KvView<T> view() {
    return {kvevict::RowsView<T>::packed(keys.data(), kept.layout(), dim, dim),
            kvevict::RowsView<T>::packed(values.data(), kept.layout(), value_dim, value_dim)};
  }
};

template <class T>
Refitted<T> refitted(kvevict::CpuResources& res, const kvevict::Selection& kept,
                     const kvevict::KvView<const T>& cache, const kvevict::ProbeQueries<>& probes,
                     const kvevict::RefitOptions& options) {
  Refitted<T> out(kept, cache, options);
  kvevict::refit(res, kept, cache, probes, options, out.view(), out.heads, out.bias);
  return out;
}

// One head of the inputs as the double-precision loops read it.
inline reference::RefitCase refit_case(const reference::Inputs& inputs, std::size_t head,
                                       const kvevict::Selection& kept,
                                       const kvevict::RefitOptions& options) {
  reference::RefitCase out;
  out.keys = inputs.keys[head];
  out.values = inputs.values[head];
  const std::size_t group = inputs.group();
  const reference::Matrix& first = inputs.probes[head * group];
  out.probes = reference::Matrix(group * first.rows, first.cols);
  auto to = out.probes.data.begin();
  for (std::size_t r = 0; r < group; ++r) {
    const auto& from = inputs.probes[head * group + r].data;
    to = std::copy(from.begin(), from.end(), to);
  }
  if (!inputs.probe_positions.empty()) {
    const reference::Positions rows = inputs.positions_of_rows(head);
    for (std::size_t r = 0; r < group; ++r) {
      for (const std::int64_t position : inputs.probe_positions) {
        std::size_t seen = 0;
        while (seen < rows.size() && rows[seen] <= position) ++seen;
        out.seen.push_back(seen);
      }
    }
  }
  for (const std::int32_t row : kept.head(static_cast<std::int64_t>(head))) {
    out.kept.push_back(static_cast<std::size_t>(row));
  }
  out.mass = options.mass != kvevict::RefitMass::none;
  out.absorb = options.mass == kvevict::RefitMass::absorbed;
  out.fit_values = options.values;
  out.ridge = options.ridge;
  out.mass_ridge = options.mass_ridge;
  out.weight_floor = options.weight_floor;
  out.direction_ridge = options.direction_ridge;
  return out;
}

// Rows of one head of a packed array, in double.
template <class T>
reference::Matrix head_matrix(const std::vector<T>& packed, const kvevict::Selection& kept,
                              std::size_t head, std::int64_t dim) {
  const auto h = static_cast<std::int64_t>(head);
  reference::Matrix out(static_cast<std::size_t>(kept.count(h)), static_cast<std::size_t>(dim));
  const auto first = static_cast<std::size_t>(kept.offsets()[head] * dim);
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] = static_cast<double>(static_cast<float>(packed[first + i]));
  }
  return out;
}

}  // namespace kvevict_test
