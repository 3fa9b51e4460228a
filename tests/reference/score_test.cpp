// SPDX-License-Identifier: Apache-2.0
#include "reference/score.hpp"

#include <stdexcept>

#include "catch.hpp"
#include "reference/h2o.hpp"
#include "reference/policies.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

TEST_CASE("names and pairs choose the same policies as the structures") {
  const Inputs inputs = random_inputs({}, 1);
  CHECK(score("Jacap", {}, inputs) == score(Jacap{.probes = true}, inputs));
  CHECK(score("Jacap", {{"evidence", "automatic"}}, inputs) ==
        score(Jacap{.probes = true}, inputs));
  CHECK(score("CapKV", {}, inputs) == score(CapKV{}, inputs));
  CHECK(score("Jacap",
              {{"temperature", "10"},
               {"covariance", "full"},
               {"noise", "absolute:2"},
               {"output_projection", "factor"},
               {"reduction", "max"},
               {"pooled", "false"},
               {"evidence", "mean"}},
              inputs) ==
        score(Jacap{10, Covariance::full, {false, 2}, true, Reduction::max, false, false}, inputs));
  CHECK(score("CapKV", {{"form", "paper"}, {"temperature", "2"}, {"pooled", "true"}}, inputs) ==
        score(CapKV{.form = CapKV::Form::paper, .temperature = 2, .pooled = true}, inputs));
  CHECK(score("SnapKV",
              {{"window", "4"}, {"pooling", "max"}, {"count_padding", "false"}, {"kernel", "3"}},
              inputs) == score(SnapKV{4, 3, Pooling::max, false, Reduction::mean}, inputs));
  CHECK(score("H2O", {{"accumulation", "decay"}, {"decay", "0.5"}}, inputs) ==
        score(H2O{Accumulation::decay, 0.5}, inputs));
  CHECK(score("ExpectedAttention", {{"epsilon", "per_row:0.3"}, {"value_norm", "norm"}}, inputs) ==
        score(ExpectedAttention{.epsilon = 0.3, .epsilon_per_row = true}, inputs));
  CHECK(score("ProbeAttention", {{"statistic", "rms"}}, inputs) ==
        score(ProbeAttention{ProbeStatistic::rms}, inputs));
}

TEST_CASE("unknown names and values are refused") {
  const Inputs inputs = random_inputs({}, 1);
  CHECK_THROWS_WITH(score("Jacob", {}, inputs), "no reference for a policy named 'Jacob'");
  CHECK_THROWS_WITH(score("Jacap", {{"tau", "1"}}, inputs), "unknown parameter 'tau'");
  CHECK_THROWS_WITH(score("KNorm", {{"window", "1"}}, inputs), "unknown parameter 'window'");
  CHECK_THROWS_WITH(score("Jacap", {{"noise", "0.1"}}, inputs), "parameter noise cannot be '0.1'");
  CHECK_THROWS_WITH(score("Jacap", {{"noise", "per_row:0.1"}}, inputs),
                    "parameter noise cannot be 'per_row:0.1'");
  CHECK_THROWS_WITH(score("SnapKV", {{"pooling", "mean"}}, inputs),
                    "parameter pooling cannot be 'mean'");
}
