// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "ops/op_runs.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace softmax_test {

using namespace kvevict_test;
using kvevict::RowLayout;
using kvevict::SoftmaxOutput;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr SoftmaxOutput outputs[] = {SoftmaxOutput::probability, SoftmaxOutput::log_probability,
                                     SoftmaxOutput::jacobian_diagonal, SoftmaxOutput::exponential};

// The difference to the largest logit is rounded to fp32: at -87 by 4e-6, which is the relative
// error of its exponential. Below -87.3 exponentials are zero instead of less than 1.3e-38.
constexpr Tolerance softmax_tolerance{6e-6, 2e-38};
// Logarithms are formed in double and stored once.
constexpr Tolerance log_tolerance{0x1p-24, 1e-12};

std::vector<float> softmax_of(const RowLayout<>& layout, const std::vector<float>& logits,
                              SoftmaxOutput output, std::int64_t skip_first = 0) {
  return scores_of(
      layout, [&](auto& res, auto scores) { softmax(res, scores, skip_first, output); }, logits);
}

std::vector<float> softmax_of(const std::vector<float>& logits, SoftmaxOutput output) {
  return softmax_of(RowLayout<>::uniform(1, static_cast<std::int64_t>(logits.size())), logits,
                    output);
}

// In double, for finite logits; 1 - a as the sum of the others.
void append_expected(std::vector<double>& want, const float* z, std::int64_t rows,
                     std::int64_t skip_first, SoftmaxOutput output) {
  const std::int64_t skipped = std::min(skip_first, rows);
  for (std::int64_t i = 0; i < skipped; ++i) {
    want.push_back(output == SoftmaxOutput::log_probability ? -static_cast<double>(inf) : 0.0);
  }
  if (skipped == rows) return;
  const double largest = *std::max_element(z + skipped, z + rows);
  std::vector<double> e;
  double sum = 0;
  for (std::int64_t i = skipped; i < rows; ++i) {
    e.push_back(std::exp(z[i] - largest));
    sum += e.back();
  }
  for (std::size_t i = 0; i < e.size(); ++i) {
    double others = 0;
    for (std::size_t j = 0; j < e.size(); ++j) others += i == j ? 0 : e[j];
    switch (output) {
      case SoftmaxOutput::probability:
        want.push_back(e[i] / sum);
        break;
      case SoftmaxOutput::log_probability:
        want.push_back(z[static_cast<std::size_t>(skipped) + i] - largest - std::log(sum));
        break;
      case SoftmaxOutput::jacobian_diagonal:
        want.push_back(e[i] / sum * (others / sum));
        break;
      case SoftmaxOutput::exponential:
        want.push_back(e[i]);
        break;
    }
  }
}

}  // namespace

TEST_CASE("softmax outputs agree with double loops", "[ops][softmax]") {
  const std::vector<std::int64_t> offsets = {0, 1, 1, 3, 10, 139, 266};
  const auto layout = RowLayout<>::ragged(offsets.data(), 6);
  for (const double spread : {0.01, 1.0, 20.0, 200.0}) {
    std::vector<float> logits = random_values(Shape::normal, layout.total(), 3);
    for (float& z : logits) z = static_cast<float>(z * spread + 3);
    for (const SoftmaxOutput output : outputs) {
      for (const std::int64_t skip_first : {0, 1, 4, 500}) {
        std::vector<double> want;
        for (std::int64_t h = 0; h < 6; ++h) {
          append_expected(want, logits.data() + layout.offset(h), layout.rows(h), skip_first,
                          output);
        }
        INFO("output " << static_cast<int>(output) << ", spread " << spread << ", skip "
                       << skip_first);
        const std::vector<float> got = softmax_of(layout, logits, output, skip_first);
        require_close(got, want,
                      output == SoftmaxOutput::log_probability ? log_tolerance : softmax_tolerance);
      }
    }
  }
}

TEST_CASE("what softmax takes no part in is not read", "[ops][softmax]") {
  const std::vector<float> poisoned = {std::nanf(""), inf, 1.0f, 2.0f};
  const auto layout = RowLayout<>::uniform(1, 4);
  const std::vector<float> got = softmax_of(layout, poisoned, SoftmaxOutput::probability, 2);
  REQUIRE(got[0] == 0.0f);
  REQUIRE(got[1] == 0.0f);
  REQUIRE(got[2] + got[3] == Approx(1.0));
}

TEST_CASE("adding a number to all logits changes nothing", "[ops][softmax]") {
  // Exact differences in fp32, so the results are the same bits.
  const std::vector<float> logits = {-3.5f, 0.25f, 2.0f, 2.0f, -40.0f, 1.0f, 0.5f};
  for (const float shift : {-1000.0f, 64.0f, 4096.0f}) {
    std::vector<float> shifted = logits;
    for (float& z : shifted) z += shift;
    for (const SoftmaxOutput output : {SoftmaxOutput::probability, SoftmaxOutput::exponential,
                                       SoftmaxOutput::jacobian_diagonal}) {
      REQUIRE(same_bits(softmax_of(shifted, output), softmax_of(logits, output)));
    }
  }
}

TEST_CASE("a (1 - a) keeps its digits where a rounds to one", "[ops][softmax]") {
  // The gap makes 1 - a from 1e-4 to 1e-35; a itself is 1 in fp32 from about 1e-8 on.
  for (const float gap : {9.25f, 16.0f, 20.75f, 27.625f, 50.0f, 80.0f}) {
    for (const std::size_t at : {0u, 3u, 8u}) {
      std::vector<float> logits(9, -gap);
      logits[at] = 0.0f;
      logits[(at + 1) % 9] = -gap - 0.5f;
      std::vector<double> want;
      append_expected(want, logits.data(), 9, 0, SoftmaxOutput::jacobian_diagonal);
      INFO("gap " << gap << ", largest at " << at);
      require_close(softmax_of(logits, SoftmaxOutput::jacobian_diagonal), want, {1e-6, 0});
    }
  }
}

TEST_CASE("saturated heads keep their order in the log domain", "[ops][softmax]") {
  const std::vector<float> logits = {0.0f, -200.0f, -300.0f, -250.0f};
  const std::vector<float> probability = softmax_of(logits, SoftmaxOutput::probability);
  REQUIRE(probability == std::vector<float>{1, 0, 0, 0});
  REQUIRE(softmax_of(logits, SoftmaxOutput::log_probability) ==
          std::vector<float>{0, -200, -300, -250});
}

TEST_CASE("equal logits are uniform, a single row has all", "[ops][softmax]") {
  REQUIRE(softmax_of(std::vector<float>(8, 7.5f), SoftmaxOutput::probability) ==
          std::vector<float>(8, 0.125f));
  REQUIRE(softmax_of(std::vector<float>{-3.0f}, SoftmaxOutput::probability)[0] == 1.0f);
  REQUIRE(softmax_of(std::vector<float>{-3.0f}, SoftmaxOutput::jacobian_diagonal)[0] == 0.0f);
  REQUIRE(softmax_of(std::vector<float>{-3.0f}, SoftmaxOutput::log_probability)[0] == 0.0f);
  // Logits beside which a logarithm is nothing.
  for (const float log_weight :
       softmax_of(std::vector<float>(16, 3e38f), SoftmaxOutput::log_probability)) {
    REQUIRE(log_weight == static_cast<float>(-std::log(16.0)));
  }
  REQUIRE(softmax_of(std::vector<float>{-3.0f}, SoftmaxOutput::exponential)[0] == 1.0f);
}

TEST_CASE("minus infinity has no weight", "[ops][softmax]") {
  const std::vector<float> some = {-inf, 1.0f, -inf, 1.0f};
  REQUIRE(softmax_of(some, SoftmaxOutput::probability) == std::vector<float>{0, 0.5f, 0, 0.5f});
  REQUIRE(softmax_of(some, SoftmaxOutput::exponential) == std::vector<float>{0, 1, 0, 1});
  REQUIRE(softmax_of(some, SoftmaxOutput::jacobian_diagonal) ==
          std::vector<float>{0, 0.25f, 0, 0.25f});
  const std::vector<float> logs = softmax_of(some, SoftmaxOutput::log_probability);
  REQUIRE(logs[0] == -inf);
  REQUIRE(logs[1] == Approx(-std::log(2.0)));

  // Nothing but that: no row has any.
  const std::vector<float> all(5, -inf);
  REQUIRE(softmax_of(all, SoftmaxOutput::probability) == std::vector<float>(5, 0.0f));
  REQUIRE(softmax_of(all, SoftmaxOutput::exponential) == std::vector<float>(5, 0.0f));
  REQUIRE(softmax_of(all, SoftmaxOutput::jacobian_diagonal) == std::vector<float>(5, 0.0f));
  REQUIRE(softmax_of(all, SoftmaxOutput::log_probability) == std::vector<float>(5, -inf));
}

TEST_CASE("NaN or plus infinity leaves NaN throughout its own head", "[ops][softmax]") {
  for (const float bad : {std::nanf(""), inf}) {
    for (std::size_t at = 0; at < 40; at += 3) {
      std::vector<float> logits(80, 0.5f);
      logits[at] = bad;
      logits[(at + 5) % 40] = -inf;
      for (const SoftmaxOutput output : outputs) {
        const std::vector<float> got = softmax_of(RowLayout<>::uniform(2, 40), logits, output);
        INFO("output " << static_cast<int>(output) << ", at " << at << ", " << bad);
        int nan = 0;
        for (std::size_t i = 0; i < 40; ++i) nan += std::isnan(got[i]) ? 1 : 0;
        REQUIRE(nan == 40);
        for (std::size_t i = 40; i < 80; ++i) REQUIRE(std::isfinite(got[i]));
      }
    }
  }
}

TEST_CASE("huge finite logits are no infinity", "[ops][softmax]") {
  // Their sum overflows fp32.
  std::vector<float> logits(16, 3e38f);
  logits[3] = -3e38f;
  const std::vector<float> got = softmax_of(logits, SoftmaxOutput::probability);
  REQUIRE(got[0] == Approx(1.0 / 15.0));
  REQUIRE(got[3] == 0.0f);
}

TEST_CASE("a negative number of skipped rows is refused", "[ops][softmax]") {
  TestResources res({.threads = 1});
  float z = 0;
  REQUIRE(refused([&] {
            softmax(res, kvevict::ScoreView<>{&z, RowLayout<>::uniform(1, 1)}, -1,
                    SoftmaxOutput::probability);
          }) == "skip_first is -1, must be >= 0");
}

}  // namespace softmax_test
