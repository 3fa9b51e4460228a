// SPDX-License-Identifier: Apache-2.0
// Measures over a list of contexts what is left of a real language model's behaviour when its cache
// is evicted.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kvevict_evaluate/case.hpp"
#include "kvevict_evaluate/choices.hpp"
#include "kvevict_evaluate/context_list.hpp"
#include "kvevict_evaluate/measurement.hpp"
#include "kvevict_evaluate/method.hpp"
#include "kvevict_evaluate/options.hpp"
#include "kvevict_evaluate/order.hpp"
#include "kvevict_evaluate/prefill_store.hpp"
#include "kvevict_evaluate/results.hpp"
#include "kvevict_evaluate/summary.hpp"
#include "model_eviction/replay.hpp"

namespace evaluate {
namespace {

/// Lines in a log, one line that changes on a terminal.
class Progress {
 public:
  void say(const std::string& text) const {
    std::cerr << (terminal_ ? "\r\x1b[K" : "") << text << (terminal_ ? "" : "\n") << std::flush;
  }
  /// A line that stays.
  void note(const std::string& text) const {
    std::cerr << (terminal_ ? "\r\x1b[K" : "") << text << '\n' << std::flush;
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
};

struct Plan {
  const Method* method;
  demo::EvictionPlan eviction;
};

/// All evictions of one context, those of one method together.
std::vector<Plan> plans_of(const Options& options, const std::vector<Method>& methods) {
  std::vector<Plan> plans;
  const std::vector<BudgetChoice> uniform = {{}};
  const std::vector<RefitChoice> none = {{}};
  for (const Method& method : methods) {
    // The bound would be fitted to what it is measured by.
    const auto& refits = method.asked && !method.sees_future ? options.refits : none;
    for (const kvevict::Protect& protect : options.protections) {
      for (const BudgetChoice& budget : method.asked ? options.budgets : uniform) {
        for (const RefitChoice& refit : refits) {
          for (const double ratio : options.evict_ratios) {
            plans.push_back({&method,
                             {ratio, budget.kind, refit.kind, protect, budget.floor, refit.options,
                              method.critical}});
          }
        }
      }
    }
  }
  return plans;
}

Cell context_name(const ContextSpec& spec, const std::string& model, bool aware) {
  Cell cell;
  cell.model = model;
  cell.context = spec.name;
  cell.kind = spec.kind;
  cell.use = name_of(spec.use);
  cell.checksum = hexadecimal(spec.checksum);
  cell.queries = aware ? "aware" : "agnostic";
  return cell;
}

/// The program at work.
class Evaluation {
 public:
  Evaluation(const Options& options, std::vector<ContextSpec> contexts)
      : options_(options),
        contexts_(std::move(contexts)),
        methods_(parse_methods(options.policies)),
        plans_(plans_of(options, methods_)),
        threads_(options.threads > 0
                     ? options.threads
                     : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
        file_(mini_llama::GgufFile::open(options.model)),
        tokenizer_(mini_llama::Tokenizer::load(file_)),
        model_([&] {
          mini_llama::ThreadPool pool(threads_);
          return mini_llama::Model::load(file_, pool);
        }()),
        engine_(model_, threads_),
        res_({.threads = threads_}),
        name_(std::filesystem::path(options.model).stem().string()),
        store_(options.store, name_),
        results_(options.out + "/results.csv") {}

  void run() {
    for (const bool aware : {false, true}) {
      if (!(aware ? options_.aware : options_.agnostic)) continue;
      for (const ContextSpec& spec : contexts_) {
        try {
          measure(spec, aware);
        } catch (const LeftOut& reason) {
          const std::string when = aware ? " (aware)" : "";
          progress_.note("left out: " + spec.name + when + ": " + reason.what());
        }
      }
    }
  }

  const std::vector<Cell>& cells() const { return results_.cells(); }

 private:
  void measure(const ContextSpec& spec, bool aware) {
    const Case agnostic = make_case(spec, tokenizer_, options_.texts);
    const Case c = aware ? query_aware(agnostic) : agnostic;
    const Cell name = context_name(spec, name_, aware);
    std::vector<Plan> open;
    for (const Plan& plan : plans_) {
      if (!results_.has(name_cell(name, *plan.method, plan.eviction))) open.push_back(plan);
    }
    if (open.empty()) {
      progress_.note(spec.name + ": done before");
      return;
    }
    const auto say = [&](const std::string& text) { progress_.say(text); };
    const auto question = std::span(c.context).subspan(agnostic.context.size());
    Measurement measurement(res_, engine_, c, store_.get(engine_, agnostic, question, say), name,
                            demo::replay_of(tokenizer_, c.context));
    if (measurement.unanswered() > 0) {
      progress_.note(spec.name + ": " + std::to_string(measurement.unanswered()) +
                     " questions do not count, the full cache does not answer them");
    }
    if (const Cell full = measurement.full(); !results_.has(full)) results_.add(full);
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      const Cell cell = measurement.evict(*open[i].method, open[i].eviction);
      results_.add(cell);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      char text[256];
      std::snprintf(text, sizeof text, "%s %zu of %zu: %s %s %s %g: error %.4f, KL %.4f, %.1f s",
                    spec.name.c_str(), i + 1, open.size(), cell.policy.c_str(), cell.budget.c_str(),
                    cell.refit.c_str(), cell.evict_ratio, cell.error, cell.mean_kl,
                    seconds.count());
      progress_.say(text);
    }
    progress_.note(spec.name + ": done");
  }

  const Options& options_;
  std::vector<ContextSpec> contexts_;
  std::vector<Method> methods_;
  std::vector<Plan> plans_;  // of each context; refer to methods_
  int threads_;
  mini_llama::GgufFile file_;
  mini_llama::Tokenizer tokenizer_;
  mini_llama::Model model_;
  mini_llama::Engine engine_;
  kvevict::CpuResources res_;
  std::string name_;
  PrefillStore store_;
  Results results_;
  Progress progress_;
};

std::vector<ContextSpec> chosen_contexts(const Options& options) {
  std::ifstream in(options.list);
  if (!in) throw std::runtime_error(options.list + ": cannot open");
  std::vector<ContextSpec> list = read_context_list(in, options.list);
  for (const std::string& name : options.contexts) {
    const bool there = std::any_of(list.begin(), list.end(),
                                   [&](const ContextSpec& spec) { return spec.name == name; });
    if (!there) throw UsageError("--contexts: '" + name + "' is not in the list");
  }
  std::erase_if(list, [&](const ContextSpec& spec) {
    const auto& names = options.contexts;
    return (options.use && spec.use != *options.use) ||
           (!names.empty() && std::find(names.begin(), names.end(), spec.name) == names.end());
  });
  return list;
}

template <class Write>
void write_file(const std::string& path, Write&& write) {
  std::ofstream out(path);
  write(out);
  if (!out.flush()) throw std::runtime_error(path + ": cannot write");
}

/// The exit code.
int run(const Options& options) {
  std::filesystem::create_directories(options.out);
  Evaluation evaluation(options, chosen_contexts(options));
  evaluation.run();
  // Of everything in the folder, earlier runs included.
  const std::vector<SummaryRow> summary = summarise(evaluation.cells(), options.by_use);
  print_summary(std::cout, summary);
  write_file(options.out + "/summary.csv",
             [&](std::ostream& out) { write_summary_csv(out, summary); });
  write_file(options.out + "/results.json",
             [&](std::ostream& out) { write_json(out, evaluation.cells()); });
  if (!options.gate) return 0;
  const std::vector<std::string> found = contradictions(summary);
  for (const std::string& text : found) std::cout << "contradiction: " << text << '\n';
  if (found.empty()) std::cout << "the order that is certain was found\n";
  return found.empty() ? 0 : 3;
}

}  // namespace
}  // namespace evaluate

int main(int argc, char** argv) {
  const auto fail = [](const std::string& message, int code) {
    std::cerr << "kvevict_evaluate: " << message << '\n';
    return code;
  };
  try {
    const evaluate::Options options = evaluate::parse_options({argv + 1, argv + argc});
    if (options.help) {
      std::cout << evaluate::help_text();
      return 0;
    }
    return evaluate::run(options);
  } catch (const evaluate::UsageError& error) {
    return fail(std::string(error.what()) + "\n(--help lists the options)", 2);
  } catch (const kvevict::Error& error) {
    return fail(error.what(), error.kind() == kvevict::ErrorKind::invalid_argument ? 2 : 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}
