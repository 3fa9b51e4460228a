// SPDX-License-Identifier: Apache-2.0
#include "kvevict_evaluate/choices.hpp"

#include <string>

#include "catch.hpp"
#include "kvevict_evaluate/method.hpp"

namespace choices_test {

namespace {

using namespace evaluate;

std::string refit_again(const std::string& text) {
  const RefitChoice choice = parse_refit("--refit", text);
  return refit_label({.evict_ratio = 0.5,
                      .budget = demo::BudgetKind::uniform,
                      .refit = choice.kind,
                      .protect = {},
                      .refitting = choice.options});
}

std::string budget_again(const std::string& text) {
  const BudgetChoice choice = parse_budget("--budget", text);
  return budget_label({.evict_ratio = 0.5,
                       .budget = choice.kind,
                       .refit = demo::RefitKind::none,
                       .protect = {},
                       .floor = choice.floor});
}

}  // namespace

TEST_CASE("budgets and refits are called as they are written", "[evaluate]") {
  for (const std::string text : {"uniform", "global", "global/floor=0.25"}) {
    CHECK(budget_again(text) == text);
  }
  for (const std::string text : {"none", "values", "absorbed", "absorbed/ridge=0.05",
                                 "values/ridge=0.05/check_every=4", "absorbed/mass_ridge=0.5"}) {
    CHECK(refit_again(text) == text);
  }
  // A default is no other strength: the cell is the same.
  CHECK(budget_again("global/floor=0") == "global");
  CHECK(refit_again("absorbed/check_every=2") == "absorbed");
  CHECK(parse_refit("--refit", "absorbed/ridge=0.05").options.ridge == 0.05);
  CHECK(parse_budget("--budget", "global/floor=0.25").floor == 0.25);
}

TEST_CASE("labels of no budget and no refit are refused", "[evaluate]") {
  for (const std::string text :
       {"", "local", "uniform/floor=0.5", "global/cap=3", "global/floor", "global/floor=2"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_budget("--budget", text), kvevict::Error);
  }
  for (const std::string text :
       {"", "all", "none/ridge=1", "absorbed/slope=1", "values/ridge", "values/ridge=much"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_refit("--refit", text), kvevict::Error);
  }
}

TEST_CASE("a method may have probes of its own, and CriticalKV around it", "[evaluate]") {
  const Method method =
      parse_methods("ProbeAttention/probes.last=32/statistic=rms/probes.sampled=8").back();
  CHECK(method.label == "ProbeAttention/probes.last=32/statistic=rms/probes.sampled=8");
  CHECK(method.probes.last == 32);
  CHECK(method.probes.sampled == 8);
  CHECK(method.probes.future == kvevict::FutureProbesOptions{}.future);
  CHECK(std::get<kvevict::ProbeAttention>(method.policy.variant()).statistic ==
        kvevict::ProbeStatistic::rms);
  CHECK_FALSE(method.critical);

  const Method critical = parse_methods("CriticalKV/SnapKV/window=32").back();
  CHECK(critical.critical);
  CHECK(critical.policy.name() == "SnapKV");
  CHECK(std::get<kvevict::SnapKV>(critical.policy.variant()).window == 32);
  CHECK(parse_methods("all").back().label == "CriticalKV/SnapKV");

  CHECK_THROWS_AS(parse_methods("CriticalKV"), kvevict::Error);
  CHECK_THROWS_AS(parse_methods("CriticalKV/Oracle"), kvevict::Error);
  CHECK_THROWS_AS(parse_methods("SnapKV/probes.many=3"), kvevict::Error);
}

}  // namespace choices_test
