// SPDX-License-Identifier: Apache-2.0
// Parameters that code sets past the checks of their text: refused by every call, before any work.
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using namespace kvevict;

TEST_CASE("validation: bad parameters are refused by every call", "[policies][parameters]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    TestPolicy policy;
    std::string argument;
    std::string value;
  };
  const std::vector<Case> cases = {
      {Jacap{.temperature = 0}, "temperature", "0"},
      {Jacap{.temperature = nan}, "temperature", "nan"},
      {Jacap{.noise = Noise::relative(0)}, "noise", "0"},
      {Jacap{.noise = Noise::absolute(-1)}, "noise", "-1"},
      {CapKV{.sharpness = -2}, "sharpness", "-2"},
      {CapKV{.temperature = infinity}, "temperature", "inf"},
      {CapKV{.epsilon = 2}, "epsilon", "2"},
      {CapKV{.skip_first = -1}, "skip_first", "-1"},
      {CapKV{.noise = Noise::relative(nan)}, "noise", "nan"},
      {SnapKV{.window = 0}, "window", "0"},
      {SnapKV{.kernel = 4}, "kernel", "4"},
      {H2O{.decay = 1.5}, "decay", "1.5"},
      {ExpectedAttention{.epsilon = Epsilon::absolute(-1)}, "epsilon", "-1"},
      {ExpectedAttention{.skip_first = -3}, "skip_first", "-3"},
      {LagKV{.lag = 0}, "lag", "0"},
      {LagKV{.skip_first = -2}, "skip_first", "-2"},
      {CurDKV{.window = -1}, "window", "-1"},
      {CurDKV{.skip_first = -1}, "skip_first", "-1"},
      {RKV{.window = 0}, "window", "0"},
      {RKV{.kernel = 4}, "kernel", "4"},
      {RKV{.lambda = 1.5}, "lambda", "1.5"},
      {RKV{.threshold = -2}, "threshold", "-2"},
      {NonCausalAttention{.chunk = 0}, "chunk", "0"},
      {NonCausalAttention{.kernel = 2}, "kernel", "2"},
      {LeverageScore{.sketch = -1}, "sketch", "-1"},
      {LeverageScore{.noise = Noise::absolute(0)}, "noise", "0"},
      {Compactor{.blending = nan}, "blending", "nan"},
      {Compactor{.skip_last = -1}, "skip_last", "-1"},
      {StreamingLLM{.sinks = -1}, "sinks", "-1"},
  };
  const reference::Inputs inputs = reference::random_inputs({}, 1);
  const PackedCache<float> cache(inputs);
  PolicyEvidence evidence(inputs);
  const Evidence<> given = evidence.with_mass(H2O{}, cache);
  for (const Case& entry : cases) {
    INFO(entry.policy.name() << " " << entry.argument << "=" << entry.value);
    TestResources res({.threads = 1});
    std::vector<float> scores(100, 7.0f);
    const auto refused = [&](const auto& call) {
      try {
        call();
        FAIL("accepted");
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::invalid_argument);
        CHECK(error.argument() == entry.argument);
        CHECK(std::string(error.what()).find(" is " + entry.value + ",") != std::string::npos);
      }
    };
    refused([&] {
      score_rows(res, entry.policy, cache.view(), given,
                 ScoreView<>{scores.data(), cache.layout()});
    });
    refused([&] { evict(res, entry.policy, cache.view(), given, Budget::rows(5)); });
    CHECK(scores == std::vector<float>(100, 7.0f));
    CHECK(res.workspace().peak_bytes() == 0);
  }
}
