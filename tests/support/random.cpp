// SPDX-License-Identifier: Apache-2.0
#include "random.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace kvevict_test {
namespace {

// A bijective mix of 64 bits (two multiply-xorshift rounds with odd constants).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93U;
  x = (x ^ (x >> 29)) * 0xa0761d6478bd642fU;
  return x ^ (x >> 32);
}

constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15U;

double one_value(const Random& random, Shape shape, std::uint64_t index) {
  constexpr std::int64_t levels = 5;
  switch (shape) {
    case Shape::uniform:
      return random.uniform(index, -1, 1);
    case Shape::normal:
      return random.normal(index);
    case Shape::heavy_tailed:
      return random.heavy_tailed(index);
    case Shape::ties:
      return 2 * random.with_ties(index, levels) - 1;
  }
  throw std::logic_error("unknown shape");
}

}  // namespace

std::uint64_t Random::bits(std::uint64_t index) const {
  return mix(mix(seed_ * golden_ratio + 1) + index * golden_ratio);
}

double Random::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * 0x1p-53;
}

double Random::uniform(std::uint64_t index, double low, double high) const {
  return low + (high - low) * uniform(index);
}

std::int64_t Random::integer(std::uint64_t index, std::int64_t count) const {
  return static_cast<std::int64_t>(uniform(index) * static_cast<double>(count));
}

// Box-Muller on two independent streams of the same index.
double Random::normal(std::uint64_t index) const {
  const double radius = std::sqrt(-2 * std::log1p(-uniform(2 * index)));
  return radius * std::cos(2 * std::numbers::pi * uniform(2 * index + 1));
}

// The quantile function of Student's t with two degrees of freedom: infinite variance, and one
// value in a thousand beyond 22.
double Random::heavy_tailed(std::uint64_t index) const {
  // The half keeps p inside (0, 1), so that both tails stay finite.
  const double p = (static_cast<double>(bits(index) >> 12) + 0.5) * 0x1p-52;
  const double a = 2 * p - 1;
  return a * std::sqrt(2 / (4 * p * (1 - p)));
}

double Random::with_ties(std::uint64_t index, std::int64_t levels) const {
  return static_cast<double>(integer(index, levels)) / static_cast<double>(levels);
}

std::vector<float> random_values(Shape shape, std::int64_t count, std::uint64_t seed) {
  const Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(one_value(random, shape, i));
  }
  return values;
}

std::vector<std::int64_t> random_permutation(std::int64_t count, std::uint64_t seed) {
  const Random random(seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    const auto other = static_cast<std::size_t>(random.integer(i, static_cast<std::int64_t>(i)));
    std::swap(order[i - 1], order[other]);
  }
  return order;
}

}  // namespace kvevict_test
