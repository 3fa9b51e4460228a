// SPDX-License-Identifier: Apache-2.0
//
// Scores the rows of a KV cache that lies in NumPy files, and chooses the rows to keep: for
// comparing with Python, and for looking at one head of a model. `kvevict_score --help` lists the
// options.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kvevict/kvevict.hpp"
#include "kvevict_score/arrays.hpp"
#include "kvevict_score/evidence.hpp"
#include "kvevict_score/options.hpp"

namespace kvevict_score {
namespace {

void print(const char* label, const std::string& text) {
  std::printf("%-10s%s\n", label, text.c_str());
}

std::string milliseconds(const std::string& label, double value) {
  char text[32];
  std::snprintf(text, sizeof text, " %.3f ms", value);
  return label + text;
}

/// Milliseconds between calls of `lap`.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> passed = now - last_;
    last_ = now;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Writes one file when all heads keep equally many rows, else one for each head. Returns what was
/// written.
std::string write_kept(const std::string& file, const kvevict::Selection& kept) {
  bool equal = true;
  for (std::int64_t h = 0; h < kept.heads(); ++h) equal = equal && kept.count(h) == kept.count(0);
  if (equal) {
    const std::int64_t shape[] = {kept.heads(), kept.count(0)};
    write_npy(file, kept.indices(), shape);
    return file;
  }
  const std::filesystem::path path(file);
  std::string written;
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    std::filesystem::path part = path;
    part.replace_filename(path.stem().string() + "_h" + std::to_string(h) +
                          path.extension().string());
    const std::int64_t shape[] = {kept.count(h)};
    write_npy(part, kept.head(h), shape);
    written.append(h == 0 ? "" : ", ").append(part.string());
  }
  return written;
}

template <class T>
std::string describe_kept(const kvevict::Selection& kept, const kvevict::KvView<const T>& cache) {
  std::int64_t fewest = kept.count(0);
  std::int64_t most = fewest;
  for (std::int64_t h = 1; h < kept.heads(); ++h) {
    fewest = std::min(fewest, kept.count(h));
    most = std::max(most, kept.count(h));
  }
  std::string text = std::to_string(fewest);
  if (most != fewest) text += " to " + std::to_string(most);
  return text + " of " + std::to_string(cache.rows(0)) + " rows in each head, " +
         std::to_string(kept.total() * cache.row_bytes()) + " of " +
         std::to_string(cache.layout().total() * cache.row_bytes()) + " bytes";
}

/// What went wrong inside without stopping the computation.
void print_report(const kvevict::Report& report, std::int64_t nan_scores, std::size_t scores) {
  print("nan", std::to_string(nan_scores) + " of " + std::to_string(scores) + " scores");
  if (report.zero_capacity_heads > 0) {
    print("warning", "capacity matrices without weight, scores all 0: " +
                         std::to_string(report.zero_capacity_heads));
  }
  if (report.failed_factorizations > 0) {
    print("warning", "capacity matrices not positive definite, scores all 0: " +
                         std::to_string(report.failed_factorizations));
  }
}

/// The rows to keep by scores that are there; `evict` does both steps at once.
template <class T>
kvevict::Selection select(kvevict::CpuResources& res, const kvevict::ScoreView<>& scores,
                          const kvevict::KvView<const T>& cache, bool comparable_across_heads,
                          const kvevict::Budget& budget, const Options& options) {
  const kvevict::Protect protect{.sinks = options.sinks, .recent = options.recent};
  kvevict::Selection kept;
  if (options.scope == BudgetScope::global) {
    const kvevict::GlobalBudget global{.allow_incomparable = options.allow_incomparable};
    kvevict::select_rows(res, kept, scores, cache, comparable_across_heads, budget, protect,
                         global);
  } else {
    kvevict::select_rows(res, kept, scores, cache, comparable_across_heads, budget, protect);
  }
  return kept;
}

template <class T>
void run(const kvevict::AnyPolicy& policy, const CacheArrays& arrays, const Options& options) {
  kvevict::CpuResources res({.threads = options.threads});
  const kvevict::KvView<const T> cache = view_of<T>(arrays);
  print("cache", std::to_string(cache.heads()) + " heads x " + std::to_string(cache.rows(0)) +
                     " rows, " + std::to_string(cache.keys().dim()) + " + " +
                     std::to_string(cache.values().dim()) + " channels, " +
                     (arrays.keys.is_half() ? "float16" : "float32"));

  Stopwatch watch;
  const PreparedEvidence evidence(res, policy, arrays, cache, options);
  const double evidence_ms = watch.lap();
  for (const std::string& note : evidence.notes()) print("evidence", note);

  std::vector<float> scores(static_cast<std::size_t>(cache.layout().total()));
  const kvevict::ScoreView<> score_view{scores.data(), cache.layout()};
  kvevict::score_rows(res, policy, cache, evidence.view(), score_view);
  const double score_ms = watch.lap();
  const auto nan_scores =
      std::count_if(scores.begin(), scores.end(), [](float score) { return std::isnan(score); });
  print_report(res.report(), nan_scores, scores.size());
  if (!options.scores.empty()) {
    write_npy(options.scores, scores, std::vector{cache.heads(), cache.rows(0)});
    print("scores", options.scores);
  }

  std::string times = milliseconds("evidence", evidence_ms) + milliseconds(", scores", score_ms);
  if (const auto budget = options.budget()) {
    watch.lap();
    const kvevict::Selection kept =
        select(res, score_view, cache, policy.comparable_across_heads(), *budget, options);
    times += milliseconds(", selection", watch.lap());
    print("kept", describe_kept(kept, cache));
    if (!options.kept.empty()) print("kept", write_kept(options.kept, kept));
  }
  print("time", times);
}

kvevict::AnyPolicy configured_policy(const Options& options) {
  kvevict::AnyPolicy policy = kvevict::AnyPolicy::named(options.policy);
  for (const std::string& setting : options.settings) policy.set(setting);
  return policy;
}

void list_policies() {
  for (const kvevict::AnyPolicy& policy : kvevict::AnyPolicy::all()) {
    std::printf("%s\n", std::string(policy.name()).c_str());
    std::string presets;
    for (const std::string& preset : policy.presets()) {
      presets.append(presets.empty() ? "" : ", ").append(preset);
    }
    if (!presets.empty()) std::printf("  preset=%-21s %s\n", "NAME", presets.c_str());
    for (const auto& parameter : policy.parameters()) {
      const std::string assignment = parameter.name + "=" + parameter.value;
      std::printf("  %-28s %s\n", assignment.c_str(), parameter.description.c_str());
    }
  }
}

int start(const std::vector<std::string>& arguments) {
  Options options;
  std::optional<kvevict::AnyPolicy> policy;
  try {
    options = parse_options(arguments);
    if (options.help) {
      std::fputs(help_text().c_str(), stdout);
      return 0;
    }
    if (options.list_policies) {
      list_policies();
      return 0;
    }
    policy = configured_policy(options);
  } catch (const kvevict::Error& error) {
    throw UsageError(error.what());
  }
  std::string settings;
  for (const auto& parameter : policy->parameters()) {
    settings += " " + parameter.name + "=" + parameter.value;
  }
  print("policy", std::string(policy->name()) + settings);
  const CacheArrays arrays = read_cache(options.keys, options.values);
  if (arrays.keys.is_half()) {
    run<kvevict::half>(*policy, arrays, options);
  } else {
    run<float>(*policy, arrays, options);
  }
  return 0;
}

}  // namespace
}  // namespace kvevict_score

int main(int argc, char** argv) {
  try {
    return kvevict_score::start({argv + 1, argv + argc});
  } catch (const kvevict_score::UsageError& error) {
    std::fprintf(stderr, "kvevict_score: %s\nkvevict_score --help lists the options.\n",
                 error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvevict_score: %s\n", error.what());
    return 1;
  }
}
