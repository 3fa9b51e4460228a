// SPDX-License-Identifier: Apache-2.0
// Policies and their parameters as text.
#include <string>
#include <vector>

#include "catch.hpp"
#include "kvevict/any_policy.hpp"

using kvevict::AnyPolicy;
using kvevict::Error;
using kvevict::ErrorKind;

namespace {

std::string value_of(const AnyPolicy& policy, const std::string& parameter) {
  for (const AnyPolicy::Parameter& entry : policy.parameters()) {
    if (entry.name == parameter) return entry.value;
  }
  return "no such parameter";
}

// The error that `assignment` meets; the policy must come out of it unchanged.
Error refusal(const std::string& policy, const std::string& assignment) {
  AnyPolicy changed = AnyPolicy::named(policy);
  try {
    changed.set(assignment);
  } catch (const Error& error) {
    CHECK(changed == AnyPolicy::named(policy));
    CHECK(error.kind() == ErrorKind::invalid_argument);
    return error;
  }
  FAIL(policy << " accepts " << assignment);
  throw;
}

// Values of one parameter, separated by bars, and what an error says of them.
struct Row {
  const char* policy;
  const char* parameter;
  const char* values;
  const char* valid = "";
};

std::vector<std::string> values_of(const Row& row) {
  std::vector<std::string> values(1);
  for (const char* c = row.values; *c != 0; ++c) {
    if (*c == '|') {
      values.emplace_back();
    } else {
      values.back() += *c;
    }
  }
  return values;
}

bool says(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("parameters: present values read back as they were written", "[policies][parameters]") {
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    for (const AnyPolicy::Parameter& parameter : policy.parameters()) {
      INFO(policy.name() << " " << parameter.name << "=" << parameter.value);
      AnyPolicy copy = policy;
      copy.set(parameter.name, parameter.value);
      CHECK(copy == policy);
      CHECK_FALSE(parameter.description.empty());
    }
  }
}

TEST_CASE("parameters: every spelling of every value", "[policies][parameters]") {
  constexpr const char* booleans = "true|false";
  constexpr const char* reductions = "mean|max|sum";
  constexpr const char* covariances = "none|diagonal|full";
  constexpr const char* noises =
      "absolute:1|absolute:1e-09|relative:0.1|relative:0.30000000000000004";
  constexpr const char* projections = "none|factor";
  constexpr Row rows[] = {
      {"Jacap", "temperature", "1|10|0.1|1e-300"},
      {"Jacap", "covariance", covariances},
      {"Jacap", "noise", noises},
      {"Jacap", "output_projection", projections},
      {"Jacap", "reduction", reductions},
      {"Jacap", "pooled", booleans},
      {"Jacap", "evidence", "automatic|mean|probes"},
      {"CapKV", "form", "paper|reference"},
      {"CapKV", "sharpness", "5|0.25"},
      {"CapKV", "temperature", "1|2.5"},
      {"CapKV", "epsilon", "0|1e-06|1"},
      {"CapKV", "skip_first", "0|4|1000000"},
      {"CapKV", "noise", noises},
      {"CapKV", "output_projection", projections},
      {"CapKV", "reduction", reductions},
      {"CapKV", "pooled", booleans},
      {"SnapKV", "window", "1|64|9223372036854775807"},
      {"SnapKV", "kernel", "1|3|65"},
      {"SnapKV", "pooling", "average|max"},
      {"SnapKV", "count_padding", booleans},
      {"SnapKV", "reduction", reductions},
      {"H2O", "accumulation", "sum|mean|decay|max"},
      {"H2O", "decay", "0.5|1|1e-300"},
      {"ExpectedAttention", "covariance", covariances},
      {"ExpectedAttention", "value_norm", "none|norm|output_projection"},
      {"ExpectedAttention", "epsilon", "absolute:0|absolute:0.02|per_row:0.5"},
      {"ExpectedAttention", "skip_first", "0|4"},
      {"ExpectedAttention", "reduction", reductions},
      {"ExpectedAttention", "log_domain", booleans},
      {"ProbeAttention", "statistic", "mean|rms|max"},
      {"ProbeAttention", "value_norm", "none|norm|output_projection"},
      {"DropLoss", "output_projection", projections},
      {"TOVA", "reduction", reductions},
      {"LagKV", "lag", "1|128"},
      {"LagKV", "skip_first", "0|4"},
      {"LagKV", "cross_scoring", booleans},
      {"NonCausalAttention", "chunk", "1|256"},
      {"NonCausalAttention", "padding", "none|zeros"},
      {"NonCausalAttention", "kernel", "1|3"},
      {"NonCausalAttention", "scale_logits", booleans},
      {"NonCausalAttention", "reduction", reductions},
      {"LeverageScore", "keys", "before_rope|cached"},
      {"LeverageScore", "sketch", "0|48"},
      {"LeverageScore", "seed", "0|18446744073709551615"},
      {"LeverageScore", "noise", noises},
      {"Compactor", "keys", "before_rope|cached"},
      {"Compactor", "sketch", "0|48"},
      {"Compactor", "seed", "0|18446744073709551615"},
      {"Compactor", "noise", noises},
      {"Compactor", "chunk", "1|256"},
      {"Compactor", "padding", "none|zeros"},
      {"Compactor", "blending", "0.35|1"},
      {"Compactor", "skip_first", "0|8"},
      {"Compactor", "skip_last", "0|4"},
      {"CurDKV", "leverage", "product|key|value|average"},
      {"CurDKV", "window", "0|16"},
      {"CurDKV", "skip_first", "0|4"},
      {"RKV", "window", "1|8"},
      {"RKV", "kernel", "1|7"},
      {"RKV", "lambda", "0|0.1|1"},
      {"RKV", "threshold", "0.5|1"},
      {"RKV", "reduction", reductions},
      {"StreamingLLM", "sinks", "0|4"},
      {"Random", "seed", "0|18446744073709551615"},
  };
  std::vector<std::string> covered;
  for (const Row& row : rows) {
    for (const std::string& value : values_of(row)) {
      AnyPolicy policy = AnyPolicy::named(row.policy);
      policy.set(row.parameter, value);
      INFO(row.policy << " " << row.parameter << "=" << value);
      CHECK(value_of(policy, row.parameter) == value);
    }
    covered.push_back(std::string(row.policy) + " " + row.parameter);
  }
  std::vector<std::string> all;
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    for (const AnyPolicy::Parameter& parameter : policy.parameters()) {
      all.push_back(std::string(policy.name()) + " " + parameter.name);
    }
  }
  CHECK_THAT(covered, Catch::Matchers::UnorderedEquals(all));
}

TEST_CASE("parameters: values outside their bounds", "[policies][parameters]") {
  constexpr const char* not_positive = "0|-1|inf|-inf|nan";
  constexpr Row rows[] = {
      {"Jacap", "temperature", not_positive, "finite and > 0"},
      {"CapKV", "temperature", not_positive, "finite and > 0"},
      {"CapKV", "sharpness", not_positive, "finite and > 0"},
      {"CapKV", "epsilon", "-0.1|1.5|nan|inf", "in [0, 1]"},
      {"CapKV", "skip_first", "-1", ">= 0"},
      {"SnapKV", "window", "0|-5", ">= 1"},
      {"SnapKV", "kernel", "0|2|64|-3", "odd and >= 1"},
      {"H2O", "decay", "0|-0.5|1.01|nan|inf", "in (0, 1]"},
      {"ExpectedAttention", "skip_first", "-1", ">= 0"},
      {"StreamingLLM", "sinks", "-1", ">= 0"},
  };
  for (const Row& row : rows) {
    for (const std::string& value : values_of(row)) {
      const Error error = refusal(row.policy, std::string(row.parameter) + "=" + value);
      INFO(error.what());
      CHECK(error.argument() == row.parameter);
      CHECK(says(error, " is " + value + ","));
      CHECK(says(error, std::string("must be ") + row.valid));
    }
  }
  constexpr Row kinds[] = {
      {"Jacap", "noise", "absolute:0|relative:-1|relative:nan|absolute:inf", "finite and > 0"},
      {"CapKV", "noise", "absolute:0|relative:-1|relative:nan|absolute:inf", "finite and > 0"},
      {"ExpectedAttention", "epsilon", "absolute:-1|per_row:nan|absolute:inf", "finite and >= 0"},
  };
  for (const Row& row : kinds) {
    for (const std::string& value : values_of(row)) {
      const Error error = refusal(row.policy, std::string(row.parameter) + "=" + value);
      INFO(error.what());
      CHECK(error.argument() == row.parameter);
      CHECK(says(error, row.valid));
    }
  }
}

TEST_CASE("parameters: text that is no value", "[policies][parameters]") {
  constexpr Row rows[] = {
      {"Jacap", "temperature", "|ten|1,5| 1|1 |0x10|1e999", "a number"},
      {"Jacap", "covariance", "|Full|diag|full ", "one of none, diagonal, full"},
      {"Jacap", "noise", "|0.1|relative|other:1", "absolute:NUMBER or relative:NUMBER"},
      {"Jacap", "noise", "relative:|relative:0.1:2", "a number"},
      {"Jacap", "pooled", "|1|yes|True", "one of true, false"},
      {"Jacap", "evidence", "window", "one of automatic, mean, probes"},
      {"Jacap", "output_projection", "norm", "one of none, factor"},
      {"CapKV", "form", "kvpress", "one of reference, paper"},
      {"SnapKV", "window", "|64.5|1e2|99999999999999999999|sixty", "an integer"},
      {"SnapKV", "pooling", "avg", "one of average, max"},
      {"SnapKV", "reduction", "median", "one of mean, max, sum"},
      {"H2O", "accumulation", "total", "one of sum, mean, decay, max"},
      {"ExpectedAttention", "value_norm", "true", "one of none, norm, output_projection"},
      {"ExpectedAttention", "epsilon", "0.02|relative:0.02", "absolute:NUMBER"},
      {"ProbeAttention", "statistic", "maximum", "one of mean, rms, max"},
      {"Random", "seed", "-1|0.5|18446744073709551616", "an integer"},
  };
  for (const Row& row : rows) {
    for (const std::string& value : values_of(row)) {
      const Error error = refusal(row.policy, std::string(row.parameter) + "=" + value);
      INFO(error.what());
      CHECK(error.argument() == row.parameter);
      CHECK(says(error, row.valid));
    }
  }
}

TEST_CASE("parameters: unknown names list the valid ones", "[policies][parameters]") {
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    const std::string name(policy.name());
    const Error error = refusal(name, "no_such=1");
    INFO(error.what());
    CHECK(says(error, name));
    CHECK(says(error, "'no_such'"));
    for (const AnyPolicy::Parameter& parameter : policy.parameters()) {
      CHECK(says(error, parameter.name));
    }
  }
  CHECK(says(refusal("Jacap", "temperature"), "name=value"));
  CHECK(says(refusal("Jacap", ""), "name=value"));
  CHECK(says(refusal("Jacap", "=1"), "temperature"));

  for (const char* const name : {"", "jacap", "Jacap ", "NoSuchPolicy"}) {
    try {
      AnyPolicy::named(name);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::invalid_argument);
      CHECK(says(error, "'" + std::string(name) + "'"));
      for (const AnyPolicy& policy : AnyPolicy::all()) {
        CHECK(says(error, std::string(policy.name())));
      }
    }
  }
}

TEST_CASE("parameters: policies are found by the names they were published under",
          "[policies][parameters]") {
  std::vector<std::string> names;
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    names.emplace_back(policy.name());
    CHECK(AnyPolicy::named(policy.name()) == policy);
  }
  CHECK_THAT(names, Catch::Matchers::UnorderedEquals(std::vector<std::string>{"Jacap",
                                                                              "CapKV",
                                                                              "SnapKV",
                                                                              "KeyDiff",
                                                                              "KNorm",
                                                                              "H2O",
                                                                              "ExpectedAttention",
                                                                              "ProbeAttention",
                                                                              "DropLoss",
                                                                              "KVzip",
                                                                              "TOVA",
                                                                              "LagKV",
                                                                              "QFilter",
                                                                              "NonCausalAttention",
                                                                              "LeverageScore",
                                                                              "Compactor",
                                                                              "CurDKV",
                                                                              "RKV",
                                                                              "StreamingLLM",
                                                                              "Random"}));
}

TEST_CASE("parameters: presets by name", "[policies][parameters]") {
  const auto preset = [](const char* policy, const char* name) {
    AnyPolicy changed = AnyPolicy::named(policy);
    changed.set("preset", name);
    return changed;
  };
  CHECK(preset("Jacap", "published") == AnyPolicy(kvevict::Jacap::published()));
  CHECK(preset("Jacap", "measured") == AnyPolicy(kvevict::Jacap{}));
  CHECK(preset("CapKV", "reference") == AnyPolicy(kvevict::CapKV::reference()));
  CHECK(preset("CapKV", "measured") == AnyPolicy(kvevict::CapKV{}));
  CHECK(preset("SnapKV", "published") == AnyPolicy(kvevict::SnapKV{}));
  CHECK(preset("H2O", "published") == AnyPolicy(kvevict::H2O{}));
  CHECK(preset("H2O", "observed_attention") == AnyPolicy(kvevict::H2O::observed_attention()));
  CHECK(preset("ExpectedAttention", "published") == AnyPolicy(kvevict::ExpectedAttention{}));
  CHECK(preset("ExpectedAttention", "leaderboard") ==
        AnyPolicy(kvevict::ExpectedAttention::leaderboard()));

  // A preset replaces every parameter; what is set after it stays.
  AnyPolicy policy = AnyPolicy::named("Jacap");
  policy.set("temperature=3");
  policy.set("preset=published");
  CHECK(policy == AnyPolicy(kvevict::Jacap::published()));
  policy.set("temperature=3");
  CHECK(value_of(policy, "temperature") == "3");
  CHECK(value_of(policy, "noise") == "absolute:1");
}

TEST_CASE("parameters: unknown presets list the valid ones", "[policies][parameters]") {
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    const std::string name(policy.name());
    const Error error = refusal(name, "preset=no_such");
    INFO(error.what());
    CHECK(says(error, name));
    CHECK(says(error, "'no_such'"));
    for (const std::string& preset : policy.presets()) {
      CHECK(says(error, preset));
      AnyPolicy changed = policy;
      changed.set("preset", preset);
      CHECK(changed.name() == policy.name());
    }
  }
}
