// SPDX-License-Identifier: Apache-2.0
//
// What LeverageScore and Compactor take of keys, by the CPU's resources.
#include "kvevict/policies/key_leverage.hpp"

#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "kvevict/cpu/centred_leverage.hpp"
#include "kvevict/cpu/resources.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

namespace key_leverage_test {

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::LeverageKeys;
using kvevict::Noise;
using kvevict::RowRange;
using kvevict::RowsView;
using kvevict::ScoreView;
using kvevict::detail::KeyLeverage;

namespace {

std::vector<float> leverages(const reference::Inputs& inputs, const KeyLeverage& how) {
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  CpuResources res({.threads = 2});
  std::vector<float> scores(static_cast<std::size_t>(cache.layout().total()), -1.0f);
  kvevict::detail::key_leverage(res, cache.view(), evidence.view(), how,
                                ScoreView<>{scores.data(), cache.layout()});
  return scores;
}

KeyLeverage taken_from(LeverageKeys keys, std::int64_t sketch = 0, std::uint64_t seed = 5) {
  return {.keys = keys,
          .sketch = sketch,
          .seed = seed,
          .noise = Noise::absolute(0.1),
          .range = RowRange{2, 3}};
}

}  // namespace

TEST_CASE("key leverage: of the cache's keys, or of those before RoPE", "[policies][leverage]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {50, 31}, .dim = 8}, 1);
  const std::vector<float> cached = leverages(inputs, taken_from(LeverageKeys::cached));
  const std::vector<float> before = leverages(inputs, taken_from(LeverageKeys::before_rope));
  CHECK(cached != before);
  const PackedCache<float> cache(inputs);
  CpuResources res({.threads = 1});
  std::vector<float> want(cached.size());
  centred_leverage(res, cache.view().keys(), {}, RowRange{2, 3}, Noise::absolute(0.1),
                   ScoreView<>{want.data(), cache.layout()});
  CHECK(cached == want);
  inputs.keys = inputs.keys_before_rope;
  CHECK(leverages(inputs, taken_from(LeverageKeys::cached)) == before);
}

// Leverages of K S^T are those of keys that were multiplied by the sketch beforehand.
TEST_CASE("key leverage: a sketch is a product with the keys", "[policies][leverage]") {
  constexpr std::size_t dim = 12;
  constexpr std::size_t width = 5;
  reference::Inputs inputs = reference::random_inputs({.rows = {60, 45}, .dim = dim}, 2);
  const std::vector<float> got =
      leverages(inputs, taken_from(LeverageKeys::cached, static_cast<std::int64_t>(width)));
  CpuResources res({.threads = 1});
  std::vector<float> sketch(dim * dim);
  gaussian_sketch(res, 5, static_cast<std::int64_t>(width),
                  kvevict::MatrixView<float>::packed(sketch.data(), dim, dim));
  for (reference::Matrix& head : inputs.keys) {
    reference::Matrix product(head.rows, dim);
    for (std::size_t i = 0; i < head.rows; ++i) {
      for (std::size_t r = 0; r < width; ++r) {
        for (std::size_t c = 0; c < dim; ++c) {
          product(i, r) += static_cast<double>(sketch[r * dim + c]) * head(i, c);
        }
      }
    }
    head = product;
  }
  // fp32 factors behind a double factorisation, and keys that are rounded once more here.
  const Comparison comparison =
      compare(got, leverages(inputs, taken_from(LeverageKeys::cached)), Tolerance{1e-4, 1e-5});
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("key leverage: one sketch for all heads, none as wide as the keys",
          "[policies][leverage]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {40, 40}, .dim = 8}, 3);
  inputs.keys[1] = inputs.keys[0];
  const std::vector<float> exact = leverages(inputs, taken_from(LeverageKeys::cached));
  const std::vector<float> sketched = leverages(inputs, taken_from(LeverageKeys::cached, 3));
  CHECK(sketched != exact);
  CHECK(std::vector<float>(sketched.begin(), sketched.begin() + 40) ==
        std::vector<float>(sketched.begin() + 40, sketched.end()));
  CHECK(leverages(inputs, taken_from(LeverageKeys::cached, 3, 6)) != sketched);
  for (const std::int64_t width : {8, 9, 1000}) {
    CHECK(leverages(inputs, taken_from(LeverageKeys::cached, width)) == exact);
  }
}

}  // namespace key_leverage_test
