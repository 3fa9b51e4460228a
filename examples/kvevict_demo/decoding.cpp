// SPDX-License-Identifier: Apache-2.0
#include "decoding.hpp"

#include <algorithm>
#include <chrono>
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
#include "model_eviction/model_evidence.hpp"
#include "report.hpp"

namespace demo {
namespace {

using Clock = std::chrono::steady_clock;
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

/// One policy at work.
class Decoding {
 public:
  Decoding(const Options& options, const kvevict::AnyPolicy& policy, const SequenceLimit& limit,
           mini_llama::Engine& engine, kvevict::CpuResources& res, const kvevict::Evidence<>& given)
      : options_(options),
        res_(res),
        given_(given),
        sequence_(engine,
                  options.half_rows ? mini_llama::RowType::float16 : mini_llama::RowType::float32,
                  policy, limit) {
    const std::int64_t free = limit.schedule.row_limit - options.sinks - options.recent;
    chunk_ = std::clamp<std::int64_t>(free / 2, 1, 256);
  }

  /// Reads the text in chunks; the loss is that of each token after those before it.
  void read(std::span<const TokenId> text) {
    double sum = 0.0;
    for (std::size_t begin = 0; begin < text.size(); begin += static_cast<std::size_t>(chunk_)) {
      const auto part =
          text.subspan(begin, std::min(static_cast<std::size_t>(chunk_), text.size() - begin));
      std::vector<Index> rows(part.size());
      std::iota(rows.begin(), rows.end(), Index{0});
      const mini_llama::Matrix logits = feed(part, rows);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const mini_llama::Vector after = logits.row(static_cast<Index>(i));
        if (begin + i + 1 < text.size()) {
          sum += surprise(after, text[begin + i + 1]);
        } else {
          next_ = choose(after, options_.temperature, sequence_.next_position());
        }
      }
    }
    loss_ = sum / static_cast<double>(text.size() - 1);
  }

  /// Generates token by token.
  std::vector<TokenId> generate(std::int64_t count) {
    std::vector<TokenId> tokens;
    const Index row = 0;
    while (static_cast<std::int64_t>(tokens.size()) < count) {
      const auto start = Clock::now();
      const mini_llama::Vector logits = feed({&next_, 1}, {&row, 1}).row(0);
      milliseconds_.push_back(
          std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      tokens.push_back(next_);
      next_ = choose(logits, options_.temperature, sequence_.next_position());
    }
    return tokens;
  }

  DecodeRow row(std::string policy) const {
    DecodeRow row;
    row.policy = std::move(policy);
    row.tokens_seen = sequence_.next_position();
    row.most_rows = most_rows_;
    row.most_bytes = most_bytes_;
    row.state_bytes = sequence_.state_bytes(res_);
    row.loss = loss_;
    const auto count = static_cast<std::int64_t>(milliseconds_.size());
    row.timed = std::min<std::int64_t>(1000, (count + 1) / 2);
    if (row.timed > 0) {
      const auto mean = [&](auto begin) {
        return std::accumulate(begin, begin + row.timed, 0.0) / static_cast<double>(row.timed);
      };
      row.first_ms = mean(milliseconds_.begin());
      row.last_ms = mean(milliseconds_.end() - row.timed);
    }
    return row;
  }

  /// The sequence and the token that comes next.
  void save(const std::string& path) {
    const std::vector<std::byte> sequence = sequence_.save(res_);
    kvevict::StateWriter to(file_kind);
    to.integer(next_);
    to.text({reinterpret_cast<const char*>(sequence.data()), sequence.size()});
    const std::vector<std::byte> file = to.finish();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(file.data()),
              static_cast<std::streamsize>(file.size()));
    if (!out.flush()) throw std::runtime_error(path + ": cannot write");
  }
  void resume(const std::string& path, std::int64_t vocabulary) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error(path + ": cannot open");
    const std::string file{std::istreambuf_iterator<char>(in), {}};
    kvevict::StateReader from(std::as_bytes(std::span(file)), file_kind);
    const std::int64_t next = from.integer("next token", 0, vocabulary - 1);
    const std::string sequence = from.text();
    from.finish();
    sequence_.restore(res_, std::as_bytes(std::span(sequence)));
    next_ = static_cast<TokenId>(next);
  }

 private:
  mini_llama::Matrix feed(std::span<const TokenId> tokens, std::span<const Index> rows) {
    mini_llama::Matrix logits = sequence_.forward(res_, tokens, rows, given_);
    const mini_llama::RaggedCache& cache = sequence_.cache();
    most_bytes_ = std::max(most_bytes_, cache.capacity_bytes());
    for (Index layer = 0; layer < cache.shape().layers; ++layer) {
      for (Index head = 0; head < cache.shape().kv_heads; ++head) {
        most_rows_ = std::max<std::int64_t>(most_rows_, cache.rows(layer, head));
      }
    }
    return logits;
  }

  const Options& options_;
  kvevict::CpuResources& res_;
  const kvevict::Evidence<>& given_;
  BoundedSequence sequence_;
  std::int64_t chunk_;
  TokenId next_ = 0;
  double loss_ = 0.0;
  std::int64_t most_rows_ = 0;
  std::int64_t most_bytes_ = 0;
  std::vector<double> milliseconds_;  // of each generated token
};

/// The first and the last characters of a long text.
std::string ends_of(const std::string& text) {
  constexpr std::size_t shown = 200;
  if (text.size() <= 2 * shown) return text;
  return text.substr(0, shown) + " [...] " + text.substr(text.size() - shown);
}

}  // namespace

void run_decoding(const Options& options, const mini_llama::Tokenizer& tokenizer,
                  std::span<const TokenId> text, mini_llama::Engine& engine,
                  kvevict::CpuResources& res) {
  const kvevict::ProjectionFactors projection = projection_of(res, engine.model());
  kvevict::Evidence<> given;
  given.output_projection = projection.view();
  std::vector<DecodeRow> rows;
  const auto decode = [&](const std::string& name, const kvevict::AnyPolicy& policy,
                          const SequenceLimit& limit) {
    Decoding decoding(options, policy, limit, engine, res, given);
    if (options.resume.empty()) {
      decoding.read(text);
    } else {
      decoding.resume(options.resume, engine.model().parameters().vocabulary);
    }
    const std::vector<TokenId> tokens = decoding.generate(options.generate);
    rows.push_back(decoding.row(name));
    print_row(std::cout, rows.back());
    std::cout << "  " << one_line(ends_of(tokenizer.decode(tokens))) << '\n' << std::flush;
    if (!options.save.empty()) decoding.save(options.save);
  };
  print_decode_header(std::cout);
  if (options.save.empty() && options.resume.empty()) {
    decode("no limit", kvevict::KNorm{}, {});
  }
  for (const kvevict::AnyPolicy& policy : options.policies) {
    for (const BudgetKind budget : options.budgets) {
      SequenceLimit limit;
      limit.budget = budget;
      limit.schedule.row_limit = options.decode_limit;
      limit.schedule.slack = std::min(options.slack, options.decode_limit - 1);
      limit.schedule.protect = {.sinks = options.sinks, .recent = options.recent};
      if (budget == BudgetKind::global) limit.schedule.head_limit = 4 * options.decode_limit;
      decode(std::string(policy.name()) + " " + std::string(name_of(budget)), policy, limit);
    }
  }
  if (!options.json.empty()) write_json(options.json, rows);
}

}  // namespace demo
