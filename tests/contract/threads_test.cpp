// SPDX-License-Identifier: Apache-2.0
// Threads, of the library or of an engine, change nothing.
#include <numeric>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "kvevict/cpu/row_pieces.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

namespace {

// An engine's own parallel-for: the last index first, workers in turn.
void backwards(void*, std::int64_t count, kvevict::cpu::Task task, void* data) {
  for (std::int64_t i = count - 1; i >= 0; --i) task(data, i, static_cast<int>(i % 3));
}

// Another: every worker is a thread of its own and takes every third index.
void on_threads(void*, std::int64_t count, kvevict::cpu::Task task, void* data) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 3; ++worker) {
    threads.emplace_back([=] {
      for (std::int64_t i = worker; i < count; i += 3) task(data, i, worker);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void check_threads(const reference::Inputs& inputs, const std::vector<PolicyVariant>& variants) {
  ContractCase given(inputs);
  TestResources two({.threads = 2});
  TestResources three({.threads = 3});
  TestResources reversed({.threads = 3, .parallel_for = {backwards, nullptr}});
  TestResources engine({.threads = 3, .parallel_for = {on_threads, nullptr}});
  for (const auto& [name, policy] : variants) {
    const std::vector<float> one = scores_of(given, policy);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    for (TestResources* const res : {&two, &three, &reversed, &engine}) {
      INFO(name << ", " << res->threads() << " threads");
      CHECK(same_bits(scores_of(*res, policy, given.view(), evidence), one));
    }
  }
}

}  // namespace

TEST_CASE("contract: scores do not depend on the threads", "[contract]") {
  check_threads(contract_inputs(), policy_variants());
}

// Fewer heads than threads, of many pieces of rows each: threads share a head.
TEST_CASE("contract: scores of few long heads do not depend on the threads", "[contract]") {
  constexpr std::size_t pieces_and_rest = 2 * kvevict::cpu::piece_rows + 300;
  reference::Inputs inputs = reference::random_inputs(
      {.group = 3, .rows = {pieces_and_rest, 130}, .dim = 8, .value_dim = 12, .queries = 40}, 5);
  inputs.query_positions.resize(40);
  std::iota(inputs.query_positions.begin(), inputs.query_positions.end(),
            static_cast<std::int64_t>(pieces_and_rest));
  check_threads(inputs, default_policies());
}

TEST_CASE("contract: the selection does not depend on the threads", "[contract]") {
  ContractCase given(contract_inputs());
  TestResources one({.threads = 1});
  TestResources three({.threads = 3});
  TestResources engine({.threads = 3, .parallel_for = {on_threads, nullptr}});
  for (const PolicyVariant& variant : default_policies()) {
    const TestPolicy& policy = variant.policy;
    INFO(variant.name);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    const auto select = [&](TestResources& res) {
      return kvevict::evict(res, policy, given.view(), evidence, kvevict::Budget::evict_ratio(0.6),
                            {.sinks = 1, .recent = 2});
    };
    const auto select_globally = [&](TestResources& res) {
      return kvevict::evict(res, policy, given.view(), evidence, kvevict::Budget::evict_ratio(0.6),
                            {.sinks = 1, .recent = 2},
                            kvevict::GlobalBudget{.allow_incomparable = true});
    };
    CHECK(select(three) == select(one));
    CHECK(select(engine) == select(one));
    CHECK(select_globally(three) == select_globally(one));
  }
}
