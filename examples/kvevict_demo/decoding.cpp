// SPDX-License-Identifier: Apache-2.0
#include "decoding.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bounded_sequence.hpp"
#include "model_eviction/key_evidence.hpp"
#include "model_eviction/milliseconds.hpp"
#include "model_eviction/model_evidence.hpp"
#include "report.hpp"

namespace demo {
namespace {

using mini_llama::Index;
using mini_llama::TokenId;

/// The next token of a distribution: the most probable one, or one drawn with a temperature. The
/// draw depends on the position alone, so that a run that was interrupted draws the same.
TokenId choose(const mini_llama::Vector& logits, double temperature, std::int64_t position) {
  if (temperature == 0.0) return mini_llama::argmax(logits);
  const float top = logits.maxCoeff();
  std::vector<double> weights;
  for (const float logit : logits) {
    weights.push_back(std::exp(static_cast<double>(logit - top) / temperature));
  }
  std::mt19937 generator(static_cast<unsigned>(position));
  return std::discrete_distribution<TokenId>(weights.begin(), weights.end())(generator);
}

/// -log p of one token, in nats.
double surprise(const mini_llama::Vector& logits, TokenId token) {
  const float top = logits.maxCoeff();
  const double sum = (logits.array() - top).exp().cast<double>().sum();
  return std::log(sum) - static_cast<double>(logits[token] - top);
}

constexpr std::string_view file_kind = "kvevict_demo";

/// A sequence that is read and goes on, and what it took.
struct Decoding {
  std::string name;
  BoundedSequence sequence;
  TokenId next = 0;
  double loss = 0.0;  ///< sum over the text, then mean
  std::vector<TokenId> generated = {};
  std::int64_t most_rows = 0;
  std::int64_t most_bytes = 0;
  std::vector<double> evictor_milliseconds = {};  ///< of each generated token

  void note_memory() {
    const mini_llama::RaggedCache& cache = sequence.cache();
    most_bytes = std::max(most_bytes, cache.capacity_bytes());
    for (Index layer = 0; layer < cache.shape().layers; ++layer) {
      for (Index head = 0; head < cache.shape().kv_heads; ++head) {
        most_rows = std::max<std::int64_t>(most_rows, cache.rows(layer, head));
      }
    }
  }
};

/// Sequences in step: each step feeds one chunk or token of each.
class Batch {
 public:
  Batch(const Options& options, mini_llama::Engine& engine, kvevict::CpuResources& res,
        const kvevict::Evidence<>& given)
      : options_(options), engine_(engine), res_(res), given_(given) {}

  void add(std::string name, const kvevict::AnyPolicy& policy, const SequenceLimit& limit) {
    const auto rows =
        options_.half_rows ? mini_llama::RowType::float16 : mini_llama::RowType::float32;
    sequences_.push_back({std::move(name), BoundedSequence(engine_, rows, policy, limit)});
    const std::int64_t free = limit.schedule.row_limit - options_.sinks - options_.recent;
    chunk_ = std::min(chunk_, std::clamp<std::int64_t>(free / 2, 1, most_chunk));
  }
  std::vector<Decoding>& sequences() { return sequences_; }

  /// Reads the text in chunks; the loss is that of each token after those before it.
  void read(std::span<const TokenId> text) {
    for (std::size_t begin = 0; begin < text.size(); begin += static_cast<std::size_t>(chunk_)) {
      const auto part =
          text.subspan(begin, std::min(static_cast<std::size_t>(chunk_), text.size() - begin));
      std::vector<Index> rows(part.size());
      std::iota(rows.begin(), rows.end(), Index{0});
      std::vector<BoundedChunk> chunks;
      for (Decoding& one : sequences_) chunks.push_back({one.sequence, part, rows});
      const std::vector<mini_llama::Matrix> logits = feed(chunks);
      for (std::size_t s = 0; s < sequences_.size(); ++s) {
        for (std::size_t i = 0; i < part.size(); ++i) {
          const mini_llama::Vector after = logits[s].row(static_cast<Index>(i));
          if (begin + i + 1 < text.size()) {
            sequences_[s].loss += surprise(after, text[begin + i + 1]);
          } else {
            sequences_[s].next = choose(after, options_.temperature, std::ssize(text));
          }
        }
      }
    }
    for (Decoding& one : sequences_) one.loss /= static_cast<double>(text.size() - 1);
  }

  /// Generates so many tokens in each, token by token.
  void generate(std::int64_t count) {
    const Index row = 0;
    for (std::int64_t step = 0; step < count; ++step) {
      const auto start = Clock::now();
      std::vector<BoundedChunk> chunks;
      for (Decoding& one : sequences_) {
        one.generated.push_back(one.next);
        chunks.push_back({one.sequence, {&one.next, 1}, {&row, 1}});
      }
      const std::vector<mini_llama::Matrix> logits = feed(chunks);
      step_milliseconds_.push_back(milliseconds_since(start));
      for (std::size_t s = 0; s < sequences_.size(); ++s) {
        Decoding& one = sequences_[s];
        one.evictor_milliseconds.push_back(one.sequence.evictor_milliseconds());
        one.next = choose(logits[s].row(0), options_.temperature, one.sequence.next_position());
      }
    }
  }

  DecodeRow row(const Decoding& one) const {
    DecodeRow row;
    row.policy = one.name;
    row.tokens_seen = one.sequence.next_position();
    row.most_rows = one.most_rows;
    row.most_bytes = one.most_bytes;
    row.state_bytes = one.sequence.state_bytes(res_);
    row.loss = one.loss;
    row.in_step = std::ssize(sequences_);
    row.timed = std::min<std::int64_t>(1000, (std::ssize(step_milliseconds_) + 1) / 2);
    row.step_ms = ends_of(step_milliseconds_, row.timed);
    row.evictor_ms = ends_of(one.evictor_milliseconds, row.timed);
    return row;
  }

 private:
  static constexpr std::int64_t most_chunk = 256;

  /// Means of the first and of the last `count` numbers.
  static FirstAndLast ends_of(const std::vector<double>& numbers, std::int64_t count) {
    if (count == 0) return {};
    const auto mean = [&](auto begin) {
      return std::accumulate(begin, begin + count, 0.0) / static_cast<double>(count);
    };
    return {mean(numbers.begin()), mean(numbers.end() - count)};
  }

  std::vector<mini_llama::Matrix> feed(std::span<const BoundedChunk> chunks) {
    std::vector<mini_llama::Matrix> logits = forward_together(res_, engine_, chunks, given_);
    for (Decoding& one : sequences_) one.note_memory();
    return logits;
  }

  const Options& options_;
  mini_llama::Engine& engine_;
  kvevict::CpuResources& res_;
  const kvevict::Evidence<>& given_;
  std::vector<Decoding> sequences_;
  std::int64_t chunk_ = most_chunk;
  std::vector<double> step_milliseconds_;
};

/// A sequence and the token that comes next.
void save(kvevict::CpuResources& res, const Decoding& decoding, const std::string& path) {
  const std::vector<std::byte> sequence = decoding.sequence.save(res);
  kvevict::StateWriter to(file_kind);
  to.integer(decoding.next);
  to.text({reinterpret_cast<const char*>(sequence.data()), sequence.size()});
  const std::vector<std::byte> file = to.finish();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  if (!out.flush()) throw std::runtime_error(path + ": cannot write");
}

void resume(kvevict::CpuResources& res, Decoding& decoding, const std::string& path,
            std::int64_t vocabulary) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot open");
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  kvevict::StateReader from(std::as_bytes(std::span(file)), file_kind);
  const std::int64_t next = from.integer("next token", 0, vocabulary - 1);
  const std::string sequence = from.text();
  from.finish();
  decoding.sequence.restore(res, std::as_bytes(std::span(sequence)));
  decoding.next = static_cast<TokenId>(next);
}

/// Nats per token of what was generated after the text, by the model with the whole cache: what it
/// thinks of what was written under a limit. NaN when nothing was.
double loss_of_generated(mini_llama::Engine& engine, std::span<const TokenId> text,
                         const std::vector<TokenId>& generated) {
  std::vector<TokenId> tokens(text.begin(), text.end());
  tokens.insert(tokens.end(), generated.begin(), generated.end());
  mini_llama::RaggedCache cache = engine.make_cache(mini_llama::RowType::float32);
  constexpr std::size_t chunk = 256;
  double sum = 0.0;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const std::size_t count = std::min(chunk, tokens.size() - begin);
    std::vector<Index> rows;  // tokens whose next one was generated
    for (std::size_t i = begin; i < begin + count; ++i) {
      if (i + 1 >= text.size() && i + 1 < tokens.size()) {
        rows.push_back(static_cast<Index>(i - begin));
      }
    }
    const mini_llama::Matrix logits =
        engine.forward(cache, std::span(tokens).subspan(begin, count), rows);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      sum += surprise(logits.row(static_cast<Index>(k)),
                      tokens[begin + static_cast<std::size_t>(rows[k]) + 1]);
    }
  }
  return sum / static_cast<double>(generated.size());
}

/// Evidence that does not change while a sequence goes on.
struct FixedEvidence {
  kvevict::ProjectionFactors projection;
  std::vector<float> filters;

  /// Query filters are found from the queries of the text's first tokens.
  FixedEvidence(kvevict::CpuResources& res, mini_llama::Engine& engine,
                std::span<const TokenId> text)
      : projection(projection_of(res, engine.model())) {
    const mini_llama::Hyperparameters& shape = engine.model().parameters();
    const auto first = text.first(std::min<std::size_t>(text.size(), 256));
    QueryCapture queries(shape, std::ssize(first));
    mini_llama::RaggedCache cache = engine.make_cache(mini_llama::RowType::float32);
    engine.prefill(cache, first, 256, {}, queries.observer());
    filters = query_filters(res, queries.post_rope_view(), shape.layers * shape.kv_heads);
  }

  kvevict::Evidence<> view(std::int64_t dim) const {
    kvevict::Evidence<> evidence;
    evidence.output_projection = projection.view();
    evidence.query_filter = {
        kvevict::MatrixView<const float>::packed(filters.data(), std::ssize(filters) / dim, dim)};
    return evidence;
  }
};

/// The first and the last characters of a long text.
std::string shortened(const std::string& text) {
  constexpr std::size_t shown = 200;
  if (text.size() <= 2 * shown) return text;
  return text.substr(0, shown) + " [...] " + text.substr(text.size() - shown);
}

}  // namespace

void run_decoding(const Options& options, const mini_llama::Tokenizer& tokenizer,
                  std::span<const TokenId> text, mini_llama::Engine& engine,
                  kvevict::CpuResources& res) {
  const mini_llama::Hyperparameters& shape = engine.model().parameters();
  const FixedEvidence fixed(res, engine, text);
  const kvevict::Evidence<> given = fixed.view(shape.key_dim);
  const bool moved = !options.save.empty() || !options.resume.empty();
  std::vector<DecodeRow> rows;
  const auto run = [&](Batch& batch) {
    if (options.resume.empty()) {
      batch.read(text);
    } else {
      resume(res, batch.sequences().front(), options.resume, shape.vocabulary);
    }
    batch.generate(options.generate);
    for (const Decoding& one : batch.sequences()) {
      rows.push_back(batch.row(one));
      if (!moved && !one.generated.empty()) {
        rows.back().generated_loss = loss_of_generated(engine, text, one.generated);
      }
      print_row(std::cout, rows.back());
      std::cout << "  " << one_line(shortened(tokenizer.decode(one.generated))) << '\n';
    }
    print_steps(std::cout, rows.back());
    if (!options.save.empty()) save(res, batch.sequences().front(), options.save);
  };
  print_decode_header(std::cout);
  if (!moved) {
    Batch whole(options, engine, res, given);
    whole.add("no limit", kvevict::KNorm{}, {});
    run(whole);
  }
  Batch limited(options, engine, res, given);
  for (const kvevict::AnyPolicy& policy : options.policies) {
    for (const BudgetKind budget : options.budgets) {
      SequenceLimit limit;
      limit.budget = budget;
      limit.schedule.row_limit = options.decode_limit;
      limit.schedule.slack = std::min(options.slack, options.decode_limit - 1);
      limit.schedule.protect = kvevict::Protect{.sinks = options.sinks, .recent = options.recent};
      if (budget == BudgetKind::global) limit.schedule.head_limit = 4 * options.decode_limit;
      limited.add(std::string(policy.name()) + " " + std::string(name_of(budget)), policy, limit);
    }
  }
  run(limited);
  if (!options.json.empty()) write_json(options.json, rows);
}

}  // namespace demo
