// SPDX-License-Identifier: Apache-2.0
#include "kvevict/output_projection.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/projection_factor.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

using namespace kvevict_test;
using kvevict::half;
using kvevict::MatrixView;
using kvevict::ProjectionFactors;

TEST_CASE("layers follow one another, each of its own projection", "[front][output_projection]") {
  TestResources res({.threads = 2});
  ProjectionFactors factors(3, 4);
  REQUIRE(factors.view().factors.shape[0] == 0);
  const std::vector<float> first = random_values(Shape::normal, 20 * 12, 1);
  const std::vector<float> second = random_values(Shape::normal, 33 * 12, 2);
  factors.add_layer(res, MatrixView<const float>::packed(first.data(), 20, 12));
  factors.add_layer(res, MatrixView<const float>::packed(second.data(), 33, 12));
  const auto view = factors.view().factors;
  REQUIRE(view.shape[0] == 6);
  REQUIRE(view.shape[1] == 4);
  REQUIRE(view.shape[2] == 4);
  // |R v| is |W v| for any v.
  const std::vector<float> v = random_values(Shape::normal, 4, 3);
  for (std::int64_t head = 0; head < 6; ++head) {
    const std::vector<float>& w = head < 3 ? first : second;
    double through_w = 0;
    for (std::size_t row = 0; row < w.size() / 12; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < 4; ++c) {
        sum += static_cast<double>(w[row * 12 + static_cast<std::size_t>(head % 3) * 4 + c]) *
               static_cast<double>(v[c]);
      }
      through_w += sum * sum;
    }
    double through_r = 0;
    for (std::int64_t row = 0; row < 4; ++row) {
      double sum = 0;
      for (std::int64_t c = 0; c < 4; ++c) {
        sum += static_cast<double>(view(head, row, c)) *
               static_cast<double>(v[static_cast<std::size_t>(c)]);
      }
      through_r += sum * sum;
    }
    INFO("head " << head);
    REQUIRE(through_r == Approx(through_w).epsilon(1e-5));
  }
}

TEST_CASE("a layer that is refused leaves the others", "[front][output_projection]") {
  TestResources res({.threads = 1});
  ProjectionFactors factors(2, 3);
  std::vector<half> w(10 * 6, half(0.5f));
  factors.add_layer(res, MatrixView<const half>::packed(w.data(), 10, 6));
  REQUIRE(refused([&] {
            factors.add_layer(res, MatrixView<const half>::packed(w.data(), 10, 5));
          }) == "w_o.columns is 5, must be query heads * dim = 6");
  w[7] = half(std::nanf(""));
  REQUIRE(refused([&] { factors.add_layer(res, MatrixView<const half>::packed(w.data(), 10, 6)); },
                  kvevict::ErrorKind::numerical) == "w_o of query head is 0, must be finite");
  REQUIRE(factors.view().factors.shape[0] == 2);
  REQUIRE(refused([] { ProjectionFactors(0, 3); }) == "heads_per_layer is 0, must be >= 1");
  REQUIRE(refused([] { ProjectionFactors(2, 0); }) == "dim is 0, must be >= 1");
}
