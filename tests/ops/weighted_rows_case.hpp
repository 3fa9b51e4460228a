// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kvevict/ops/capacity.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/capacity.hpp"
#include "reference/linear.hpp"

namespace kvevict_test {

// Weights of the rows of `group` blocks per head: roots as the library takes them, in fp32.
struct Roots {
  std::vector<float> data;
  kvevict::RowLayout<> layout;

  Roots(const kvevict::RowLayout<>& rows, std::int64_t group, std::uint64_t seed)
      : data(random_values(Shape::uniform, rows.total() * group, seed)),
        layout(rows.repeated(group)) {
    for (float& root : data) root = std::abs(root);
  }
  kvevict::ScoreView<> view() { return {data.data(), layout}; }
  // Squares of the roots of one block, in double.
  std::vector<double> weights(std::int64_t block) const {
    std::vector<double> out;
    for (std::int64_t i = 0; i < layout.rows(block); ++i) {
      const double root = data[static_cast<std::size_t>(layout.offset(block) + i)];
      out.push_back(root * root);
    }
    return out;
  }
};

// Random d x d matrices R, one for each block, and their metrics R^T R.
struct Transforms {
  std::int64_t count;
  std::int64_t dim;
  std::vector<float> data;

  Transforms(std::int64_t blocks, std::int64_t d, std::uint64_t seed)
      : count(blocks), dim(d), data(random_values(Shape::normal, count * dim * dim, seed)) {}
  kvevict::MatrixBatchView<const float> view() const {
    return kvevict::MatrixBatchView<const float>::packed(data.data(), count, dim, dim);
  }
  reference::Matrix metric(std::int64_t block) const {
    const auto d = static_cast<std::size_t>(dim);
    reference::Matrix r(d, d);
    for (std::size_t i = 0; i < d * d; ++i)
      r.data[i] = data[static_cast<std::size_t>(block) * d * d + i];
    return reference::product(reference::transposed(r), r);
  }
};

inline reference::Noise reference_noise(const kvevict::Noise& noise) {
  return {noise.kind == kvevict::Noise::Kind::relative, noise.value};
}

// Leverages of every block in double, by Gaussian elimination.
template <class T>
std::vector<double> expected_leverages(const RowsCase<T>& rows, const Roots& gram_roots,
                                       const Roots& score_roots, const Transforms* transforms,
                                       const kvevict::Noise& noise) {
  std::vector<double> want;
  const std::int64_t group = rows.heads() == 0 ? 1 : gram_roots.layout.heads() / rows.heads();
  for (std::int64_t m = 0; m < gram_roots.layout.heads(); ++m) {
    const std::vector<double> one =
        reference::leverage(rows.exact()[static_cast<std::size_t>(m / group)],
                            transforms != nullptr ? transforms->metric(m) : reference::Matrix(),
                            gram_roots.weights(m), score_roots.weights(m), reference_noise(noise));
    want.insert(want.end(), one.begin(), one.end());
  }
  return want;
}

}  // namespace kvevict_test
