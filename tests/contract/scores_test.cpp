// SPDX-License-Identifier: Apache-2.0
// Scores: all written, numbers, the same every time and for any number of threads.
#include <thread>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
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

}  // namespace

TEST_CASE("contract: every score is written and is a number", "[contract]") {
  for (const reference::Inputs& inputs : {contract_inputs(), contract_inputs_with_holes()}) {
    ContractCase given(inputs);
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name);
      CHECK(count_nan(scores_of(given, policy)) == 0);
    }
  }
}

TEST_CASE("contract: every policy distinguishes rows", "[contract]") {
  ContractCase given(contract_inputs());
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const std::vector<float> head = head_of(scores_of(given, policy), given.cache.layout(), 0);
    CHECK(*std::max_element(head.begin(), head.end()) >
          *std::min_element(head.begin(), head.end()));
  }
}

TEST_CASE("contract: scores are the same every time", "[contract]") {
  ContractCase given(contract_inputs());
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const std::vector<float> first = scores_of(given, policy);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    // Resources that other policies have used before, and once more.
    CHECK(same_bits(scores_of(res, policy, given.view(), evidence), first));
    CHECK(same_bits(scores_of(res, policy, given.view(), evidence), first));
  }
}

TEST_CASE("contract: scores do not depend on the threads", "[contract]") {
  ContractCase given(contract_inputs());
  TestResources two({.threads = 2});
  TestResources three({.threads = 3});
  TestResources reversed({.threads = 3, .parallel_for = {backwards, nullptr}});
  TestResources engine({.threads = 3, .parallel_for = {on_threads, nullptr}});
  for (const auto& [name, policy] : policy_variants()) {
    const std::vector<float> one = scores_of(given, policy);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    for (TestResources* const res : {&two, &three, &reversed, &engine}) {
      INFO(name << ", " << res->threads() << " threads");
      CHECK(same_bits(scores_of(*res, policy, given.view(), evidence), one));
    }
  }
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
