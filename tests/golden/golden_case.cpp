// SPDX-License-Identifier: Apache-2.0
#include "golden/golden_case.hpp"

#include <numeric>
#include <stdexcept>
#include <variant>

#include "kvevict/cpu/query_moments.hpp"
#include "kvevict/cpu/query_stats.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/policy_inputs.hpp"

namespace kvevict_test {

using namespace kvevict;

namespace {

std::vector<float> load(const std::string& id) { return golden_data().array(id).values_float(); }

std::vector<half> load_half(const std::string& id) {
  std::vector<half> out;
  for (const std::uint16_t bits : golden_data().array(id).bits_float16()) {
    out.push_back(half::from_bits(bits));
  }
  return out;
}

Covariance covariance_of(const Pairs& parameters) {
  Covariance covariance = Covariance::none;
  const auto given = parameters.find("covariance");
  if (given != parameters.end()) parse_parameter("covariance", given->second, covariance);
  return covariance;
}

}  // namespace

Rope golden_rope(const Pairs& evidence) {
  Rope rope{.theta = required_number(evidence, "rope_theta")};
  parse_parameter("rope_pairing", required(evidence, "rope_pairing"), rope.pairing);
  return rope;
}

TestPolicy golden_policy(const GoldenEntry& entry) {
  return make_policy(entry.policy, entry.parameters);
}

GoldenCase& golden_case(const GoldenEntry& entry) {
  static std::map<std::string, GoldenCase> cases;
  return cases.try_emplace(entry.case_name(), entry.case_name()).first->second;
}

GoldenCase::GoldenCase(const std::string& name) {
  const std::string folder = name + "/input/";
  keys_ = load(folder + "keys");
  values_ = load(folder + "values");
  half_keys_ = load_half(folder + "keys");
  half_values_ = load_half(folder + "values");
  queries_before_rope_ = load(folder + "queries_pre_rope");
  queries_after_rope_ = load(folder + "queries_post_rope");
  probes_ = load(folder + "probe_queries");
  query_filter_ = load(folder + "query_filter");
  keys_before_rope_ = load_half(folder + "keys_pre_rope");
  probe_positions_ = golden_data().array(folder + "probe_positions").values_int32();
  factors_ =
      projection_factors(load(folder + "output_projection"), query_heads * dim, query_heads, dim);
}

ProbeQueries<> GoldenCase::probes() const {
  const auto count = static_cast<std::int64_t>(probe_positions_.size());
  return {QueriesView<>::packed(probes_.data(), query_heads, count, dim),
          QueryPositions<>::shared(probe_positions_.data()), ProbeMask::none};
}

QueryStats& GoldenCase::stats(const Pairs& evidence, Covariance covariance) {
  const auto known = stats_.find({evidence, covariance});
  if (known != stats_.end()) return known->second;
  QueryStats made =
      required(evidence, "queries") == "post_rope"
          ? window_query_stats(
                res_, queries_after_rope().last(required_integer(evidence, "window")), covariance)
          : estimate_query_stats(res_, queries_before_rope(), golden_rope(evidence),
                                 {.next_position = required_integer(evidence, "next_position"),
                                  .future = required_integer(evidence, "future"),
                                  .skip_first = required_integer(evidence, "skip_first"),
                                  .covariance = covariance});
  return stats_.emplace(std::pair(evidence, covariance), std::move(made)).first->second;
}

AttentionMass<> GoldenCase::mass(const Pairs& parameters) {
  const auto [place, is_new] = masses_.try_emplace(parameters);
  if (is_new) {
    const TestPolicy policy = make_policy("H2O", parameters);
    H2O::State state(std::get<H2O>(policy.variant()));
    observe(res_, state, cache(),
            QueryWindow<>{queries_after_rope(), QueryPositions<>::consecutive(0)});
    const AttentionMass<> seen = state.mass();
    place->second.assign(seen.data, seen.data + seen.layout.total());
  }
  return {place->second.data(), RowLayout<>::uniform(kv_heads, rows)};
}

Evidence<> GoldenCase::evidence(const GoldenEntry& entry) {
  Evidence<> given;
  const std::string& kind = required(entry.evidence, "kind");
  if (kind == "query_stats") {
    given.query_stats = stats(entry.evidence, covariance_of(entry.parameters)).view();
  } else if (kind == "query_window") {
    const std::int64_t window = required_integer(entry.evidence, "window");
    given.query_window = {queries_after_rope().last(window),
                          QueryPositions<>::consecutive(static_cast<std::int32_t>(rows - window))};
    if (entry.evidence.count("keys") != 0) given.keys_before_rope = {keys_before_rope()};
  } else if (kind == "all_queries") {
    given.attention_mass = mass(entry.parameters);
  } else if (kind == "probes") {
    given.probes = probes();
  } else if (kind == "keys_before_rope") {
    given.keys_before_rope = {keys_before_rope()};
  } else if (kind == "query_filter") {
    given.query_filter = {MatrixView<const float>::packed(query_filter_.data(), kv_heads, dim)};
  } else if (kind != "none") {
    throw std::runtime_error(entry.id + ": unknown evidence '" + kind + "'");
  }
  const auto projection = entry.parameters.find("output_projection");
  if (projection != entry.parameters.end() && projection->second != "none") {
    given.output_projection = {
        MatrixBatchView<const float>::packed(factors_.data(), query_heads, dim, dim)};
  }
  return given;
}

}  // namespace kvevict_test
