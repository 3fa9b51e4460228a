// SPDX-License-Identifier: Apache-2.0
// Evicts the KV cache of a real language model with every policy and shows what is left of the
// model's behaviour.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kvevict_demo/decoding.hpp"
#include "kvevict_demo/options.hpp"
#include "kvevict_demo/report.hpp"
#include "mini_llama/engine.hpp"
#include "mini_llama/error.hpp"
#include "model_eviction/eviction.hpp"
#include "model_eviction/metrics.hpp"
#include "model_eviction/replay.hpp"

namespace demo {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string read_file(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  if (!input) throw std::runtime_error(path + ": cannot open");
  return {std::istreambuf_iterator<char>(input), {}};
}

/// A text read by the model, with what is needed to evict and to compare.
struct Session {
  std::vector<mini_llama::TokenId> context;
  std::vector<mini_llama::TokenId> continuation;
  mini_llama::RaggedCache cache;
  mini_llama::Vector logits;  ///< after the context's last token
  QueryCapture queries;
};

bool on_terminal() { return isatty(STDERR_FILENO) != 0; }

Session read_context(const Options& options, const mini_llama::Tokenizer& tokenizer,
                     mini_llama::Engine& engine) {
  const std::vector<mini_llama::TokenId> tokens = tokenizer.encode(read_file(options.text));
  const auto available = static_cast<std::int64_t>(tokens.size());
  if (available < options.continuation + 8) {
    throw std::runtime_error(options.text + ": has " + std::to_string(available) +
                             " tokens, must have at least " +
                             std::to_string(options.continuation + 8));
  }
  const std::int64_t length = std::min(options.context, available - options.continuation);
  if (length < options.context) {
    std::cerr << "the text has " << available << " tokens: context shortened to " << length << '\n';
  }
  const auto middle = tokens.begin() + length;
  Session session{{tokens.begin(), middle},
                  {middle, middle + options.continuation},
                  engine.make_cache(options.half_rows ? mini_llama::RowType::float16
                                                      : mini_llama::RowType::float32),
                  {},
                  QueryCapture(engine.model().parameters(), length)};
  const auto start = Clock::now();
  session.logits = engine.prefill(
      session.cache, session.context, 256,
      [](mini_llama::Index done, mini_llama::Index total) {
        // A log gets a line for each step, a terminal one line that counts.
        std::cerr << (on_terminal() ? "\r" : "") << "reading the context: " << done << " of "
                  << total << " tokens" << (on_terminal() ? "" : "\n") << std::flush;
      },
      session.queries.observer());
  std::fprintf(stderr, "%s in %.1f s\n", on_terminal() ? "" : "read the context",
               seconds_since(start));
  return session;
}

Row evict_and_measure(const kvevict::AnyPolicy& policy, const EvictionPlan& plan,
                      kvevict::CpuResources& res, mini_llama::Engine& engine,
                      const Session& session, const Reference& reference,
                      const kvevict::Evidence<>& evidence) {
  mini_llama::RaggedCache cache = session.cache;
  Row row;
  row.policy = policy.name();
  row.budget = name_of(plan.budget);
  row.refit = name_of(plan.refit);
  row.evict_ratio = plan.evict_ratio;
  row.rows_before = cache.total_rows();
  row.bytes_before = cache.capacity_bytes();
  const EvictionOutcome outcome = evict_cache(res, cache, model_policy(policy), evidence, plan);
  row.rows_after = cache.total_rows();
  row.bytes_after = cache.capacity_bytes();
  row.evict_ms = outcome.milliseconds;
  row.refit_ms = outcome.refit_milliseconds;
  row.incomparable = plan.budget == BudgetKind::global && !policy.comparable_across_heads();
  if (outcome.report.nan_scores != 0 || outcome.report.failed_factorizations != 0) {
    std::cerr << row.policy << ": " << outcome.report.nan_scores << " NaN scores, "
              << outcome.report.failed_factorizations << " failed factorisations\n";
  }
  const Distance distance = measure(engine, reference, cache, session.continuation);
  row.mean_kl = distance.mean_kl;
  row.top1_agreement = distance.top1_agreement;
  row.attention_output_error = distance.attention_output_error;
  return row;
}

void generate(const Options& options, const std::string& label, mini_llama::Engine& engine,
              const mini_llama::Tokenizer& tokenizer, mini_llama::RaggedCache cache,
              const mini_llama::Vector& logits) {
  const auto tokens =
      mini_llama::generate(engine, cache, logits, options.generate, tokenizer.eos());
  std::cout << "  " << label << ": " << one_line(tokenizer.decode(tokens)) << '\n' << std::flush;
}

void run(const Options& options) {
  const int threads = options.threads > 0
                          ? options.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto start = Clock::now();
  const auto file = mini_llama::GgufFile::open(options.model);
  const auto tokenizer = mini_llama::Tokenizer::load(file);
  const mini_llama::Model model = [&] {
    mini_llama::ThreadPool pool(threads);
    return mini_llama::Model::load(file, pool);
  }();
  mini_llama::Engine engine(model, threads);
  kvevict::CpuResources res({.threads = threads});
  const mini_llama::Hyperparameters& shape = model.parameters();
  std::fprintf(stderr, "model read in %.1f s: %lld layers, %lld KV heads, head dimension %lld\n",
               seconds_since(start), static_cast<long long>(shape.layers),
               static_cast<long long>(shape.kv_heads), static_cast<long long>(shape.key_dim));

  if (options.decode_limit > 0) {
    std::vector<mini_llama::TokenId> text = tokenizer.encode(read_file(options.text));
    text.resize(std::min(text.size(), static_cast<std::size_t>(options.context)));
    run_decoding(options, tokenizer, text, engine, res);
    return;
  }
  Session session = read_context(options, tokenizer, engine);
  std::cerr << "running the continuation over the full cache\n";
  const Reference reference = run_reference(engine, session.cache, session.continuation);

  std::cout << "context " << session.context.size() << " tokens, continuation "
            << session.continuation.size() << ", always kept: " << options.sinks << " sinks and "
            << options.recent << " recent rows; full cache: loss " << reference.loss
            << " nats per token\n";
  print_header(std::cout);
  const kvevict::Protect protect{.sinks = options.sinks, .recent = options.recent};
  ContextEvidence evidence(replay_of(tokenizer, session.context));
  std::vector<Row> rows;
  bool marked = false;
  for (const kvevict::AnyPolicy& policy : options.policies) {
    start = Clock::now();
    evidence.collect(res, engine, session.cache, session.queries, model_policy(policy),
                     options.probes);
    if (seconds_since(start) > 1.0) {
      std::fprintf(stderr, "evidence for %s: %.1f s\n", std::string(policy.name()).c_str(),
                   seconds_since(start));
    }
    for (const BudgetKind budget : options.budgets) {
      for (const RefitKind refit : options.refits) {
        for (const double ratio : options.evict_ratios) {
          rows.push_back(evict_and_measure(policy, {ratio, budget, refit, protect}, res, engine,
                                           session, reference, evidence.view()));
          print_row(std::cout, rows.back());
          marked = marked || rows.back().incomparable;
        }
      }
    }
  }
  if (marked) {
    std::cout << "* scores of this policy are not comparable across heads; ranked together all the "
                 "same\n";
  }
  if (!options.json.empty()) write_json(options.json, rows);
  if (options.generate == 0 || options.evict_ratios.empty() || options.budgets.empty() ||
      options.refits.empty()) {
    return;
  }

  const EvictionPlan plan{options.evict_ratios.front(), options.budgets.front(),
                          options.refits.front(), protect};
  std::cout << "generated after the context, " << 100.0 * plan.evict_ratio << " % evicted ("
            << name_of(plan.budget) << " budget):\n";
  generate(options, "full cache", engine, tokenizer, session.cache, session.logits);
  for (const kvevict::AnyPolicy& policy : options.policies) {
    evidence.collect(res, engine, session.cache, session.queries, model_policy(policy),
                     options.probes);
    mini_llama::RaggedCache cache = session.cache;
    evict_cache(res, cache, model_policy(policy), evidence.view(), plan);
    generate(options, std::string(policy.name()), engine, tokenizer, std::move(cache),
             session.logits);
  }
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  try {
    const demo::Options options = demo::parse_options({argv + 1, argv + argc});
    if (options.help) {
      std::cout << demo::usage_text();
      return 0;
    }
    demo::run(options);
    return 0;
  } catch (const demo::UsageError& error) {
    std::cerr << "kvevict_demo: " << error.message << "\n(--help lists the options)\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "kvevict_demo: " << error.what() << '\n';
    return 1;
  }
}
