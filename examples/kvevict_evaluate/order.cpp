// SPDX-License-Identifier: Apache-2.0
#include "order.hpp"

#include <cstdio>
#include <map>

namespace evaluate {
namespace {

/// Rows of texts or of tasks with the same queries, protection and ratio.
class Group {
 public:
  Group(std::string name, std::vector<std::string>& found)
      : name_(std::move(name)), found_(found) {}

  void add(const SummaryRow& row) { rows_.push_back(&row); }

  void check() const {
    const SummaryRow* oracle = row("Oracle", "uniform", "none");
    if (oracle == nullptr) {
      say("Oracle is missing");
      return;
    }
    for (const SummaryRow* other : rows_) {
      if (other->name.budget == "uniform" && other->name.refit == "none" &&
          oracle->error > most_above * other->error) {
        say(other->name.policy + number(" has an error of %.4f, below the Oracle's", other->error));
      }
    }
    for (const char* const policy : {"SnapKV", "ProbeAttention"}) {
      const SummaryRow* plain = row(policy, "uniform", "none");
      // Not a number, without Random beside it, is not enough either.
      if (plain == nullptr || !(plain->recovered.value >= least_recovered)) {
        say(std::string(policy) +
            (plain == nullptr
                 ? " is missing"
                 : number(" recovers only %.2f of Random's error", plain->recovered.value)));
      }
    }
    bool refitted = false;
    for (const SummaryRow* after : rows_) {
      if (after->name.policy != "ProbeAttention" || after->name.refit == "none") continue;
      const SummaryRow* before = row("ProbeAttention", after->name.budget, "none");
      refitted = true;
      if (before == nullptr || after->error > most_after_refit * before->error) {
        say("ProbeAttention, " + after->name.budget + ", refit " + after->name.refit +
            number(": an error of %.4f is left", after->error));
      }
    }
    if (!refitted) say("a refitted ProbeAttention is missing");
  }

 private:
  const SummaryRow* row(std::string_view policy, std::string_view budget,
                        std::string_view refit) const {
    for (const SummaryRow* candidate : rows_) {
      const Cell& name = candidate->name;
      if (name.policy == policy && name.budget == budget && name.refit == refit) return candidate;
    }
    return nullptr;
  }

  static std::string number(const char* pattern, double value) {
    char text[128];
    std::snprintf(text, sizeof text, pattern, value);
    return text;
  }

  void say(const std::string& text) const { found_.push_back(name_ + ": " + text); }

  std::string name_;
  std::vector<std::string>& found_;
  std::vector<const SummaryRow*> rows_;
};

}  // namespace

std::vector<std::string> contradictions(std::span<const SummaryRow> rows) {
  std::vector<std::string> found;
  std::map<std::string, Group> groups;
  for (const SummaryRow& row : rows) {
    const Cell& name = row.name;
    if (name.is_full()) continue;
    char text[128];
    std::snprintf(text, sizeof text, "%s, %s, %lld+%lld kept, %g evicted", name.kind.c_str(),
                  name.queries.c_str(), static_cast<long long>(name.sinks),
                  static_cast<long long>(name.recent), name.evict_ratio);
    groups.try_emplace(text, text, found).first->second.add(row);
  }
  if (groups.empty()) found.push_back("nothing was measured");
  for (const auto& [name, group] : groups) group.check();
  return found;
}

}  // namespace evaluate
