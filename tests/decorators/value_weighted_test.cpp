// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/value_weighted.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"
#include "reference/selection.hpp"
#include "support/random.hpp"

using kvevict::KNorm;
using kvevict::SnapKV;
using kvevict::ValueSize;
using kvevict::ValueWeighted;
using namespace kvevict_test;

namespace {

constexpr SnapKV snapkv{.window = 6, .kernel = 3};

double norm_of(const reference::Matrix& rows, std::size_t row) {
  double sum = 0.0;
  for (std::size_t c = 0; c < rows.cols; ++c) sum += rows(row, c) * rows(row, c);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("scores are weighted by the norms of the values", "[decorators]") {
  DecoratedCase given;
  const auto inner = given.scores(snapkv);
  const auto got = given.scores(ValueWeighted<SnapKV>{.inner = snapkv, .epsilon = 0.01});
  for (std::size_t h = 0; h < inner.size(); ++h) {
    for (std::size_t i = 0; i < inner[h].size(); ++i) {
      const double want =
          (static_cast<double>(inner[h][i]) + 0.01) * norm_of(given.inputs.values[h], i);
      // A norm of 12 channels in fp32, and two roundings.
      REQUIRE(static_cast<double>(got[h][i]) == Approx(want).epsilon(1e-6));
    }
  }
}

TEST_CASE("negative scores count from the head's lowest when asked", "[decorators]") {
  DecoratedCase given;
  const auto inner = given.scores(KNorm{});
  const auto got = given.scores(ValueWeighted<KNorm>{.epsilon = 0.0, .from_lowest = true});
  for (std::size_t h = 0; h < inner.size(); ++h) {
    for (std::size_t i = 0; i < inner[h].size(); ++i) {
      const float lowest = *std::min_element(inner[h].begin(), inner[h].end());
      const double want = (static_cast<double>(inner[h][i]) - static_cast<double>(lowest)) *
                          norm_of(given.inputs.values[h], i);
      REQUIRE(static_cast<double>(got[h][i]) == Approx(want).epsilon(1e-6));
      REQUIRE(got[h][i] >= 0.0f);
    }
  }
}

TEST_CASE("values are seen through the output projection", "[decorators]") {
  // A projection of 12 value channels to 20 outputs for each of the 8 query heads.
  DecoratedCase given;
  const std::vector<float> w = random_values(Shape::normal, 8 * 20 * 12, 3);
  kvevict::Evidence<> evidence = given.evidence.view();
  evidence.output_projection = {kvevict::MatrixBatchView<const float>::packed(w.data(), 8, 20, 12)};
  const auto inner = given.scores(snapkv, evidence);
  for (const ValueSize size : {ValueSize::projected, ValueSize::projected_sum}) {
    const auto got = given.scores(
        ValueWeighted<SnapKV>{.inner = snapkv, .size = size, .epsilon = 1e-4}, evidence);
    for (std::size_t h = 0; h < inner.size(); ++h) {
      for (std::size_t i = 0; i < inner[h].size(); ++i) {
        double mean = 0.0;
        for (std::size_t q = 2 * h; q < 2 * h + 2; ++q) {
          double sum = 0.0;
          for (std::size_t o = 0; o < 20; ++o) {
            double product = 0.0;
            for (std::size_t c = 0; c < 12; ++c) {
              product +=
                  static_cast<double>(w[(q * 20 + o) * 12 + c]) * given.inputs.values[h](i, c);
            }
            sum += size == ValueSize::projected ? product * product : std::abs(product);
          }
          mean += 0.5 * (size == ValueSize::projected ? std::sqrt(sum) : sum);
        }
        const double want = (static_cast<double>(inner[h][i]) + 1e-4) * mean;
        // Sums of 12 products in fp32 that may cancel, 20 of them together.
        REQUIRE(static_cast<double>(got[h][i]) == Approx(want).epsilon(5e-6));
      }
    }
  }
}

TEST_CASE("the first stage ranks first, by the inner score", "[decorators]") {
  DecoratedCase given;
  const auto inner = given.scores(snapkv);
  const ValueWeighted<SnapKV> one_stage{.inner = snapkv};
  const auto weighted = given.scores(one_stage);
  const auto got = given.scores(ValueWeighted<SnapKV>{.inner = snapkv, .first_stage = 0.3});
  for (std::size_t h = 0; h < inner.size(); ++h) {
    const std::size_t rows = inner[h].size();
    const auto first = static_cast<std::size_t>(0.3 * static_cast<double>(rows));
    const reference::Rows by_inner = reference::selection_order({inner[h].begin(), inner[h].end()});
    // The order: the first stage as the inner score has it, then the rest by the weighted score.
    reference::Rows want(by_inner.begin(), by_inner.begin() + static_cast<std::ptrdiff_t>(first));
    for (const std::size_t row :
         reference::selection_order({weighted[h].begin(), weighted[h].end()})) {
      if (std::find(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(first), row) ==
          want.begin() + static_cast<std::ptrdiff_t>(first)) {
        want.push_back(row);
      }
    }
    REQUIRE(reference::selection_order({got[h].begin(), got[h].end()}) == want);
    for (std::size_t k = first; k < rows; ++k) REQUIRE(got[h][want[k]] == weighted[h][want[k]]);
  }
}

TEST_CASE("value-weighted policies are policies", "[decorators]") {
  const ValueWeighted<SnapKV> plain;
  REQUIRE(plain.needs() == SnapKV{}.needs());
  const auto critical = ValueWeighted<SnapKV>::critical(snapkv, 0.5);
  kvevict::EvidenceSet both = SnapKV{}.needs();
  both |= kvevict::EvidenceKind::output_projection;
  REQUIRE(critical.needs() == both);
  REQUIRE(critical.first_stage == 0.25);
  REQUIRE_FALSE(critical == plain);
  REQUIRE(refused([] { ValueWeighted<KNorm>{.epsilon = -1}.validate(); }) ==
          "epsilon is -1, must be finite and >= 0");
  REQUIRE(refused([] { ValueWeighted<KNorm>{.first_stage = 1.5}.validate(); }) ==
          "first_stage is 1.5, must be in [0, 1]");
  DecoratedCase given;
  REQUIRE(refused([&] { given.scores(ValueWeighted<KNorm>{.size = ValueSize::projected}, {}); }) ==
          "evidence.output_projection is missing, must be given for ValueWeighted");
}
