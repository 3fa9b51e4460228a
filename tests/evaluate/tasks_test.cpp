// SPDX-License-Identifier: Apache-2.0
#include "kvevict_evaluate/tasks.hpp"

#include <stdexcept>

#include "catch.hpp"

namespace tasks_test {

namespace {

using namespace evaluate;

std::int64_t bytes_of(std::string_view text) { return static_cast<std::int64_t>(text.size()); }

std::string text_of(const Task& task) {
  std::string text;
  for (const Segment& segment : task.context) text += segment.text;
  for (const Question& question : task.questions) text += question.prompt + question.answer;
  return text;
}

}  // namespace

TEST_CASE("a task is that of its seed and as long as there is room for", "[evaluate]") {
  for (const std::string_view name : task_names()) {
    INFO(name);
    for (const std::uint64_t seed : {0u, 1u, 2u, 77u}) {
      const Task task = make_task(name, seed, 4000, bytes_of);
      CHECK(text_of(task) == text_of(make_task(name, seed, 4000, bytes_of)));
      CHECK(text_of(task) != text_of(make_task(name, seed + 1, 4000, bytes_of)));
      std::int64_t length = 0;
      for (const Segment& segment : task.context) length += bytes_of(segment.text);
      CHECK(length <= 4000);
      // All names of a lookup together are shorter than that.
      if (name != "lookup") CHECK(length > 3900);
    }
  }
}

TEST_CASE("every question is asked about what stands in the context", "[evaluate]") {
  for (const std::string_view name : task_names()) {
    INFO(name);
    const Task task = make_task(name, 5, 3000, bytes_of);
    for (std::size_t i = 0; i < task.questions.size(); ++i) {
      int evidence = 0;
      int answers = 0;
      for (const Segment& segment : task.context) {
        if (segment.question != static_cast<int>(i)) {
          CHECK(segment.text.find(task.questions[i].answer) == std::string::npos);
          continue;
        }
        ++evidence;
        answers += segment.text == task.questions[i].answer ? 1 : 0;
      }
      CHECK(evidence >= 1);
      CHECK(answers >= 1);
    }
    CHECK(!task.questions.empty());
  }
}

TEST_CASE("five needles lie in their fifths of the context", "[evaluate]") {
  const Task task = make_task("needles", 9, 6000, bytes_of);
  std::int64_t length = 0;
  std::vector<std::int64_t> at;
  for (const Segment& segment : task.context) {
    if (segment.question >= 0) at.push_back(length);
    length += bytes_of(segment.text);
  }
  REQUIRE(at.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    // A sentence is some 60 bytes long.
    CHECK(static_cast<double>(at[i]) / static_cast<double>(length) ==
          Approx(0.2 * static_cast<double>(i) + 0.1).margin(0.03));
  }
}

TEST_CASE("a task that cannot be is refused", "[evaluate]") {
  CHECK_THROWS_AS(make_task("riddle", 1, 1000, bytes_of), std::runtime_error);
  for (const std::string_view name : task_names()) {
    INFO(name);
    CHECK_THROWS_AS(make_task(name, 1, 20, bytes_of), std::runtime_error);
  }
}

}  // namespace tasks_test
