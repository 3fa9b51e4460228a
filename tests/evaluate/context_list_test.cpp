// SPDX-License-Identifier: Apache-2.0
#include "kvevict_evaluate/context_list.hpp"

#include <fstream>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "kvevict_evaluate/tasks.hpp"

namespace context_list_test {

namespace {

using namespace evaluate;

std::vector<ContextSpec> read(const std::string& text) {
  std::istringstream in(text);
  return read_context_list(in, "contexts");
}

std::string refused(const std::string& text) {
  try {
    read(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("a list of contexts is read", "[evaluate]") {
  const auto list = read(
      "# comment\n\n"
      "one licence tuning text:a.txt 40 100 20 00ff00000000abcd # more\n"
      "two  passkey   confirming task:passkey 7 200 0 1\n");
  REQUIRE(list.size() == 2);
  CHECK(list[0].name == "one");
  CHECK(list[0].kind == "licence");
  CHECK(list[0].use == Use::tuning);
  CHECK(list[0].text == "a.txt");
  CHECK(list[0].task.empty());
  CHECK(list[0].start == 40);
  CHECK(list[0].tokens == 100);
  CHECK(list[0].continuation == 20);
  CHECK(list[0].checksum == 0x00ff00000000abcdu);
  CHECK(list[1].use == Use::confirming);
  CHECK(list[1].text.empty());
  CHECK(list[1].task == "passkey");
  CHECK(list[1].start == 7);
}

TEST_CASE("a list's fault is named with its line", "[evaluate]") {
  CHECK(refused("\nx licence tuning text:a 0 100 20\n") == "contexts:2: has 7 fields, must have 8");
  CHECK(refused("x licence test text:a 0 100 20 1\n") ==
        "contexts:1: use is 'test', must be tuning or confirming");
  CHECK(refused("x licence tuning a 0 100 20 1\n") ==
        "contexts:1: source is 'a', must be text:FILE or task:NAME");
  CHECK(refused("x licence tuning text:a -1 100 20 1\n") ==
        "contexts:1: start is '-1', not a number");
  CHECK(refused("x licence tuning text:a 0 63 20 1\n") ==
        "contexts:1: tokens is 63, must be at least 64");
  CHECK(refused("x licence tuning text:a 0 100 1 1\n") ==
        "contexts:1: continuation is 1, must be at least 2 for a text and 0 for a task");
  CHECK(refused("x passkey tuning task:a 0 100 20 1\n") ==
        "contexts:1: continuation is 20, must be at least 2 for a text and 0 for a task");
  CHECK(refused("x licence tuning text:a 0 100 20 xyz\n") ==
        "contexts:1: checksum is 'xyz', not a number");
  CHECK(refused("x licence tuning text:a 0 100 20 1\nx licence tuning text:a 0 100 20 1\n") ==
        "contexts:2: 'x' was there before");
}

TEST_CASE("the list that comes with the program is of many kinds, for both uses", "[evaluate]") {
  std::ifstream in(KVEVICT_EVALUATE_LISTS "/contexts.list");
  REQUIRE(in);
  const auto list = read_context_list(in, "contexts.list");
  std::set<std::string> kinds[2];
  const auto tasks = task_names();
  for (const ContextSpec& spec : list) {
    INFO(spec.name);
    kinds[spec.use == Use::tuning ? 0 : 1].insert(spec.kind);
    CHECK(spec.checksum != 0);
    CHECK(spec.tokens >= 1000);
    CHECK(spec.tokens <= 4096);
    if (!spec.task.empty()) {
      CHECK(std::find(tasks.begin(), tasks.end(), spec.task) != tasks.end());
    }
  }
  CHECK(list.size() >= 12);
  CHECK(kinds[0].size() >= 5);
  CHECK(kinds[1].size() >= 5);
}

TEST_CASE("the list of long contexts is for both uses", "[evaluate]") {
  std::ifstream in(KVEVICT_EVALUATE_LISTS "/long.list");
  REQUIRE(in);
  const auto list = read_context_list(in, "long.list");
  int of_use[2] = {};
  for (const ContextSpec& spec : list) {
    INFO(spec.name);
    ++of_use[spec.use == Use::tuning ? 0 : 1];
    CHECK(spec.checksum != 0);
    CHECK(spec.tokens == 4000);
  }
  CHECK(of_use[0] >= 2);
  CHECK(of_use[1] >= 2);
}

}  // namespace context_list_test
