// SPDX-License-Identifier: Apache-2.0
// Every seeded defect must be reported where the emulator promises that, and nothing else must.
// Each runs in a child process of its own, because the sanitizers' reports end the process.
#include "self_test_defects.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "settings.hpp"

namespace emulator_test {

void judge(bool right) { std::puts(right ? right_value : wrong_value); }

void print_status(int status) { std::printf("status %d\n", status); }

namespace {

constexpr unsigned longest_run_seconds = 60;
constexpr kvevict_emulation::ThreadOrder all_orders[] = {kvevict_emulation::ThreadOrder::forward,
                                                         kvevict_emulation::ThreadOrder::reverse,
                                                         kvevict_emulation::ThreadOrder::shuffled};

[[noreturn]] void run_child(void (*run)(), kvevict_emulation::ThreadOrder order, int output) {
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  alarm(longest_run_seconds);
  kvevict_emulation::settings().thread_order = order;
  try {
    run();
  } catch (const std::exception& error) {
    std::printf("exception: %s\n", error.what());
  }
  std::fflush(stdout);
  _exit(0);
}

std::string output_of(void (*run)(), kvevict_emulation::ThreadOrder order) {
  int ends[2];
  if (pipe(ends) != 0) {
    std::perror("pipe");
    std::exit(2);
  }
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    std::exit(2);
  }
  if (child == 0) {
    close(ends[0]);
    run_child(run, order, ends[1]);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = read(ends[0], buffer, sizeof buffer)) > 0) {
    output.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    output += "ended by signal " + std::to_string(WTERMSIG(status)) + "\n";
  }
  return output;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// A sanitizer's complaint, the emulator's or a signal.
bool is_report(const std::string& output) {
  return contains(output, "Sanitizer") || contains(output, "runtime error") ||
         contains(output, "exception") || contains(output, "signal");
}

bool passes(const Defect& defect, const Expectation& expected) {
  int as_expected = 0;
  std::string other;
  for (const auto order : all_orders) {
    const std::string output = output_of(defect.run, order);
    const bool silent = std::strcmp(expected.text, right_value) == 0;
    if (contains(output, expected.text) && !(silent && is_report(output))) {
      ++as_expected;
    } else {
      other = output;
    }
  }
  const int needed = expected.orders == Orders::every ? 3 : 1;
  if (as_expected >= needed) {
    return true;
  }
  std::printf("%s: '%s' in %d of 3 thread orders, but:\n%s\n", defect.name, expected.text,
              as_expected, other.c_str());
  return false;
}

int check_all(const char* configuration) {
  int checked = 0;
  int failed = 0;
  std::vector<Defect> all = kernel_defects();
  for (const Defect& defect : call_defects()) {
    all.push_back(defect);
  }
  for (const Defect& defect : all) {
    const Expectation& expected = std::strcmp(configuration, "asan") == 0   ? defect.address
                                  : std::strcmp(configuration, "tsan") == 0 ? defect.thread
                                                                            : defect.plain;
    if (expected.text[0] != '\0') {
      ++checked;
      failed += passes(defect, expected) ? 0 : 1;
    }
  }
  std::printf("%d of %zu seeded defects checked, %d not as expected\n", checked, all.size(),
              failed);
  return checked == 0 || failed != 0 ? 1 : 0;
}

}  // namespace
}  // namespace emulator_test

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s plain|asan|tsan\n", arguments[0]);
    return 2;
  }
  return emulator_test::check_all(arguments[1]);
}
