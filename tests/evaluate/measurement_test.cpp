// SPDX-License-Identifier: Apache-2.0
// Over a made-up model: what is stored, and what is measured.
#include "kvevict_evaluate/measurement.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

#include "catch.hpp"
#include "core/errors.hpp"
#include "examples/mini_llama_tiny_model.hpp"
#include "kvevict/kvevict.hpp"
#include "model_eviction/cache_view.hpp"
#include "model_eviction/replay.hpp"
#include "support/temporary_folder.hpp"

namespace measurement_test {

namespace {

using namespace evaluate;
using demo::BudgetKind;
using demo::RefitKind;
using mini_llama::Engine;
using mini_llama::Index;
using mini_llama::Matrix;
using mini_llama::Model;
using mini_llama::TokenId;

Model tiny_model() {
  const auto image = mini_llama_test::TinyModel().write().image();
  mini_llama::ThreadPool pool(1);
  return Model::load(mini_llama::GgufFile::parse(image, "test.gguf"), pool);
}

Case random_case() {
  std::mt19937 random(8);
  Case c;
  c.name = "noise";
  for (int i = 0; i < 120; ++i) c.context.push_back(static_cast<TokenId>(random() % 200));
  for (int i = 0; i < 20; ++i) c.continuation.push_back(static_cast<TokenId>(random() % 200));
  c.checksum = checksum_of(c);
  return c;
}

constexpr auto quiet = [](const std::string&) {};

Measurement measurement_of(kvevict::CpuResources& res, Engine& engine, const Case& c) {
  const kvevict_test::TemporaryFolder folder;
  const PrefillStore store(folder.path(), "tiny");
  Cell name;
  name.context = c.name;
  return {res, engine, c, store.get(engine, c, {}, quiet), name, c.context};
}

Method method_of(const std::string& label) {
  const std::vector<Method> methods = parse_methods(label);
  return *std::find_if(methods.begin(), methods.end(),
                       [&](const Method& method) { return method.label == label; });
}

std::vector<float> rows_of(const mini_llama::RaggedCache& cache) {
  std::vector<float> all;
  std::vector<float> scratch;
  for (Index layer = 0; layer < cache.shape().layers; ++layer) {
    for (Index head = 0; head < cache.shape().kv_heads; ++head) {
      const Matrix keys = cache.float_keys(layer, head, 0, cache.rows(layer, head), scratch);
      all.insert(all.end(), keys.data(), keys.data() + keys.size());
      const Matrix values = cache.float_values(layer, head, 0, cache.rows(layer, head), scratch);
      all.insert(all.end(), values.data(), values.data() + values.size());
    }
  }
  return all;
}

bool same(const Prefill& a, const Prefill& b, Index layers) {
  for (Index layer = 0; layer < layers; ++layer) {
    if (a.queries.pre_rope(layer) != b.queries.pre_rope(layer)) return false;
    if (a.queries.post_rope(layer) != b.queries.post_rope(layer)) return false;
  }
  return rows_of(a.cache) == rows_of(b.cache) &&
         a.cache.next_position() == b.cache.next_position() &&
         a.queries.post_rope_view().count() == b.queries.post_rope_view().count();
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a stored context is the one that the model read", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  const kvevict_test::TemporaryFolder folder;
  const PrefillStore store(folder / "made/on/demand", "tiny");
  const Case c = random_case();
  int said = 0;
  const auto say = [&](const std::string&) { ++said; };
  const Prefill computed = store.get(engine, c, {}, say);
  CHECK(said > 0);
  CHECK(computed.cache.next_position() == 120);
  CHECK(computed.queries.pre_rope_view().count() == 120);
  said = 0;
  CHECK(same(store.get(engine, c, {}, say), computed, model.parameters().layers));
  CHECK(said == 0);

  // With a question behind it, which is not stored.
  const std::string file = read(store.path_of(c));
  const std::vector<TokenId> question = {5, 17, 99};
  const Prefill asked = store.get(engine, c, question, say);
  CHECK(asked.cache.next_position() == 123);
  CHECK(asked.queries.post_rope_view().count() == 123);
  CHECK(read(store.path_of(c)) == file);
  Case longer = c;
  longer.name = "longer";
  longer.context.insert(longer.context.end(), question.begin(), question.end());
  mini_llama::RaggedCache whole = engine.make_cache(mini_llama::RowType::float32);
  engine.forward(whole, c.context, {});
  engine.forward(whole, question, {});
  CHECK(rows_of(asked.cache) == rows_of(whole));
}

TEST_CASE("a stored context that is damaged, or another model's, is replaced", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 1);
  const kvevict_test::TemporaryFolder folder;
  const PrefillStore store(folder.path(), "tiny");
  const Case c = random_case();
  const Prefill computed = store.get(engine, c, {}, quiet);
  const std::string whole = read(store.path_of(c));
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), flipped, std::string()}) {
    std::ofstream(store.path_of(c), std::ios::binary) << damaged;
    std::string said;
    CHECK(same(store.get(engine, c, {}, [&](const std::string& text) { said += text; }), computed,
               model.parameters().layers));
    CHECK(said.find("is of no use") != std::string::npos);
    CHECK(read(store.path_of(c)) == whole);
  }
  const PrefillStore other(folder.path(), "another");
  other.get(engine, c, {}, quiet);
  CHECK(read(store.path_of(c)) != whole);
}

TEST_CASE("an eviction of nothing changes nothing", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  kvevict::CpuResources res({.threads = 2});
  Measurement measurement = measurement_of(res, engine, random_case());
  const Cell full = measurement.full();
  CHECK(full.policy == "full");
  CHECK(full.loss > 0.0);
  for (const char* const name : {"Random", "Oracle", "SnapKV"}) {
    const Cell cell =
        measurement.evict(method_of(name), {0.0, BudgetKind::uniform, RefitKind::none, {}});
    CHECK(cell.policy == name);
    CHECK(cell.rows_after == cell.rows_before);
    CHECK(cell.rows_before == 120 * 4);
    CHECK(cell.error == 0.0);
    CHECK(cell.mean_kl == 0.0);
    CHECK(cell.kl_99 == 0.0);
    CHECK(cell.top1 == 1.0);
    CHECK(cell.loss == full.loss);
  }
}

TEST_CASE("divergence and agreement are those of the evicted cache's own logits", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 1);
  kvevict::CpuResources res({.threads = 1});
  const Case c = random_case();
  const kvevict_test::TemporaryFolder folder;
  const PrefillStore store(folder.path(), "tiny");
  const Prefill prefill = store.get(engine, c, {}, quiet);
  Measurement measurement(res, engine, c, prefill, {}, c.context);
  // StreamingLLM of 2 sinks and 28 recent rows keeps what is known beforehand.
  const Cell cell =
      measurement.evict(method_of("StreamingLLM"),
                        {0.75, BudgetKind::uniform, RefitKind::none, {.sinks = 2, .recent = 28}});
  CHECK(cell.rows_after == 30 * 4);

  std::vector<Index> rows(c.continuation.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Index>(i);
  const auto logits_over = [&](bool all) {
    mini_llama::RaggedCache cache = engine.make_cache(mini_llama::RowType::float32);
    std::vector<float> key_scratch;
    std::vector<float> value_scratch;
    for (Index layer = 0; layer < cache.shape().layers; ++layer) {
      for (Index head = 0; head < cache.shape().kv_heads; ++head) {
        for (std::int32_t row = 0; row < 120; ++row) {
          if (!all && row >= 2 && row < 92) continue;
          cache.append(layer, head, {&row, 1},
                       prefill.cache.float_keys(layer, head, row, 1, key_scratch),
                       prefill.cache.float_values(layer, head, row, 1, value_scratch));
        }
      }
    }
    cache.advance(120);
    return engine.forward(cache, c.continuation, rows);
  };
  const Matrix full = logits_over(true);
  const Matrix kept = logits_over(false);
  std::vector<double> divergence;
  double agreeing = 0.0;
  double loss = 0.0;
  for (Index token = 0; token < full.rows(); ++token) {
    const auto log_softmax = [&](const Matrix& logits) {
      Eigen::ArrayXd row = logits.row(token).cast<double>().transpose().array();
      row -= row.maxCoeff();
      return Eigen::ArrayXd(row - std::log(row.exp().sum()));
    };
    const Eigen::ArrayXd p = log_softmax(full);
    const Eigen::ArrayXd q = log_softmax(kept);
    divergence.push_back((p.exp() * (p - q)).sum());
    Index top[2];
    p.maxCoeff(&top[0]);
    q.maxCoeff(&top[1]);
    agreeing += top[0] == top[1] ? 1.0 : 0.0;
    if (token + 1 < full.rows()) {
      loss -= q(c.continuation[static_cast<std::size_t>(token) + 1]);
    }
  }
  double mean = 0.0;
  double largest = 0.0;
  for (const double kl : divergence) {
    mean += kl / static_cast<double>(divergence.size());
    largest = std::max(largest, kl);
  }
  // Logits and their differences are fp32, sums of some hundred terms.
  CHECK(mean > 1e-3);
  CHECK(cell.mean_kl == Approx(mean).epsilon(1e-3));
  CHECK(cell.kl_99 == Approx(largest).epsilon(1e-3));  // of 20 tokens it is the largest
  CHECK(cell.top1 == Approx(agreeing / static_cast<double>(full.rows())));
  CHECK(cell.loss == Approx(loss / static_cast<double>(full.rows() - 1)).epsilon(1e-5));
}

TEST_CASE("the Oracle errs less than Random, and a refit needs no other rows", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 1);
  kvevict::CpuResources res({.threads = 1});
  Measurement measurement = measurement_of(res, engine, random_case());
  const auto error = [&](const char* name, BudgetKind budget, RefitKind refit) {
    const Cell cell = measurement.evict(method_of(name), {0.75, budget, refit, {.sinks = 2}});
    CHECK(cell.rows_after == 30 * 4);
    CHECK(cell.refit == demo::name_of(refit));
    CHECK((cell.refit_ms > 0.0) == (refit != RefitKind::none));
    return cell.error;
  };
  const double random = error("Random", BudgetKind::uniform, RefitKind::none);
  CHECK(error("Oracle", BudgetKind::uniform, RefitKind::none) < random);
  error("ProbeAttention", BudgetKind::global, RefitKind::values);
  CHECK(name_cell({}, method_of("KNorm"), {0.5, BudgetKind::global, RefitKind::none, {}})
            .incomparable == 1);
  CHECK(name_cell({}, method_of("KNorm"), {0.5, BudgetKind::uniform, RefitKind::none, {}})
            .incomparable == 0);
}

TEST_CASE("answers count when the full cache gives them", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 1);
  kvevict::CpuResources res({.threads = 1});
  Case c = random_case();
  mini_llama::RaggedCache cache = engine.make_cache(mini_llama::RowType::float32);
  engine.forward(cache, c.context, {});
  // The model's own most probable token stands at 4, something else at 8.
  c.continuation.resize(4);
  const Index last = 3;
  const Matrix logits = engine.forward(cache, c.continuation, {&last, 1});
  const TokenId given = mini_llama::argmax(logits.row(0));
  const std::vector<TokenId> rest = {given, 1, 2, 3, 4, 5};
  c.continuation.insert(c.continuation.end(), rest.begin(), rest.end());
  const Index after = 3;
  const TokenId next = mini_llama::argmax(
      engine.forward(cache, std::span(c.continuation).subspan(4, 4), {&after, 1}).row(0));
  c.continuation[8] = (next + 1) % 200;
  const Answer right{{4, 5}, {{10, 12}}, 0.1};
  const Answer wrong{{8, 9}, {{50, 51}}, 0.5};
  c.answers = {right, wrong};

  Measurement measurement = measurement_of(res, engine, c);
  CHECK(measurement.unanswered() == 1);
  const Cell full = measurement.full();
  REQUIRE(full.answers.size() == 1);
  CHECK(full.answers[0].depth == 0.1);
  CHECK(full.answers[0].survival == 1.0);
  const auto row = logits.row(0).cast<double>().eval();
  const double log_sum = std::log((row.array() - row.maxCoeff()).exp().sum()) + row.maxCoeff();
  CHECK(full.answers[0].log_probability == Approx(row(given) - log_sum).epsilon(1e-5));
  const Cell recent = measurement.evict(
      method_of("StreamingLLM"), {0.5, BudgetKind::uniform, RefitKind::none, {.recent = 10}});
  CHECK(recent.answers[0].survival == 0.0);

  c.answers = {wrong};
  CHECK_THROWS_AS(measurement_of(res, engine, c), LeftOut);
}

TEST_CASE("kept positions are written as ranges", "[evaluate]") {
  CHECK(ranges_of({}).empty());
  CHECK(ranges_of(std::vector<std::int32_t>{7}) == "7");
  CHECK(ranges_of(std::vector<std::int32_t>{0, 1, 2, 4, 8, 9}) == "0-2;4;8-9");
}

TEST_CASE("evidence survives in the heads that hold all of it", "[evaluate]") {
  mini_llama::RaggedCache cache({1, 2, 1, 1, mini_llama::RowType::float32});
  const std::vector<std::int32_t> positions[2] = {{0, 4, 5, 6, 9}, {4, 6, 7, 8, 9}};
  const Matrix rows = Matrix::Zero(5, 1);
  for (Index head = 0; head < 2; ++head) cache.append(0, head, positions[head], rows, rows);
  CHECK(survival(cache, {{4, 7}}) == 0.5);
  CHECK(survival(cache, {{9, 10}}) == 1.0);
  CHECK(survival(cache, {{4, 5}, {9, 10}}) == 1.0);
  CHECK(survival(cache, {{4, 5}, {0, 1}}) == 0.5);
  CHECK(survival(cache, {{2, 3}}) == 0.0);
}

TEST_CASE("methods are read by name, with their settings", "[evaluate]") {
  const auto methods = parse_methods("SnapKV/window=16/kernel=3,Random,Jacap");
  std::vector<std::string> labels;
  for (const Method& method : methods) labels.push_back(method.label);
  CHECK(labels == std::vector<std::string>{"Random", "StreamingLLM", "Oracle",
                                           "SnapKV/window=16/kernel=3", "Jacap"});
  CHECK(methods[2].sees_future);
  CHECK(!methods[3].sees_future);
  std::vector<bool> asked;
  for (const Method& method : methods) asked.push_back(method.asked);
  CHECK(asked == std::vector<bool>{true, false, false, true, true});
  demo::ModelPolicy snapkv = demo::ModelPolicy::named("SnapKV");
  snapkv.set("window", "16");
  snapkv.set("kernel", "3");
  CHECK(methods[3].policy == snapkv);
  // The Oracle and CriticalKV besides.
  CHECK(parse_methods("all").size() == demo::ModelPolicy::all().size() + 2);
  CHECK(kvevict_test::refused([] { parse_methods("Snap"); }).substr(0, 6) == "policy");
  CHECK(kvevict_test::refused([] { parse_methods("SnapKV/size=3"); }).find("size") !=
        std::string::npos);
}

TEST_CASE("a replay leaves the cache as it was and finds what is said again", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  const kvevict_test::TemporaryFolder folder;
  const PrefillStore store(folder.path(), "tiny");
  const Case c = random_case();
  Prefill prefill = store.get(engine, c, {}, quiet);
  const std::vector<float> before = rows_of(prefill.cache);
  kvevict::CpuResources res({.threads = 1});
  const kvevict::KVzip::State state =
      demo::replayed_attention(res, engine, prefill.cache, c.context);
  CHECK(rows_of(prefill.cache) == before);
  CHECK(prefill.cache.next_position() == 120);
  // Rows of the replay lie behind those of the context.
  const kvevict::AttentionMass<> mass = state.mass();
  CHECK(mass.layout.rows(0) == 240);
  for (std::int64_t i = 0; i < 240; ++i) {
    REQUIRE(mass.data[i] > 0.0f);
    REQUIRE(mass.data[i] <= 1.0f);
  }
  // The same queries by hand: the largest weight over rows of cache and replay.
  demo::QueryCapture queries(model.parameters(), 120);
  engine.forward(prefill.cache, c.context, {}, queries.observer());
  std::vector<float> scores(
      static_cast<std::size_t>(model.parameters().layers * model.parameters().kv_heads * 240));
  demo::with_view(prefill.cache, [&](const auto& view) {
    kvevict::score_rows(
        res, kvevict::ProbeAttention{}, view,
        {.probes = {{queries.post_rope_view(), kvevict::QueryPositions<>::consecutive(120),
                     kvevict::ProbeMask::by_position}}},
        kvevict::ScoreView<>{scores.data(), view.layout()});
  });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    REQUIRE(mass.data[i] == Approx(scores[i]).epsilon(1e-4));
  }
}

TEST_CASE("policies that need a replay are measured like others", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  kvevict::CpuResources res({.threads = 1});
  Measurement measurement = measurement_of(res, engine, random_case());
  for (const char* const label : {"KVzip", "Blend/of=values", "H2O", "KVzip"}) {
    const Cell cell = measurement.evict(
        method_of(label), {0.5, demo::BudgetKind::global, demo::RefitKind::none, {.sinks = 2}});
    INFO(label);
    CHECK(cell.rows_after * 2 == cell.rows_before);
    CHECK(cell.incomparable == (std::string(label) == "H2O" ? 1 : 0));
  }
}

TEST_CASE("CriticalKV, floors, other probes and strengths change what is kept", "[evaluate]") {
  const Model model = tiny_model();
  Engine engine(model, 1);
  kvevict::CpuResources res({.threads = 1});
  Measurement measurement = measurement_of(res, engine, random_case());
  const demo::EvictionPlan uniform{0.5, BudgetKind::uniform, RefitKind::none, {.sinks = 2}};
  const auto evict = [&](const char* label, const demo::EvictionPlan& plan) {
    const Method method = method_of(label);
    demo::EvictionPlan with = plan;
    with.critical = method.critical;
    const Cell cell = measurement.evict(method, with);
    CHECK(cell.rows_after * 2 == cell.rows_before);
    return cell;
  };
  const Cell plain = evict("SnapKV", uniform);
  CHECK(evict("CriticalKV/SnapKV", uniform).error != plain.error);
  CHECK(evict("SnapKV", uniform).error == plain.error);
  // The factors of the projection again, after the projection itself.
  evict("DropLoss/output_projection=factor", uniform);

  demo::EvictionPlan global{0.5, BudgetKind::global, RefitKind::none, {.sinks = 2}};
  const Cell free = evict("ProbeAttention", global);
  global.floor = 1.0;
  const Cell floored = evict("ProbeAttention", global);
  CHECK(floored.budget == "global/floor=1");
  CHECK(floored.error != free.error);
  CHECK(floored.error == evict("ProbeAttention", uniform).error);
  CHECK(evict("ProbeAttention/probes.last=8", uniform).error != floored.error);

  demo::EvictionPlan refitted{0.5, BudgetKind::uniform, RefitKind::values, {.sinks = 2}};
  const Cell usual = evict("ProbeAttention", refitted);
  refitted.refitting.ridge = 1.0;
  const Cell other = evict("ProbeAttention", refitted);
  CHECK(other.refit == "values/ridge=1");
  CHECK(other.error != usual.error);
}

}  // namespace measurement_test
