// SPDX-License-Identifier: Apache-2.0
#include "reference/score.hpp"

#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "reference/h2o.hpp"
#include "reference/policies.hpp"

namespace kvevict_test::reference {
namespace {

// Takes parameters out of a list one by one; what is left at the end is unknown.
class Reader {
 public:
  explicit Reader(Pairs pairs) : pairs_(std::move(pairs)) {}

  void number(const std::string& name, double& out) {
    if (const std::string text = take(name); !text.empty()) out = parse_number(text);
  }
  void count(const std::string& name, std::size_t& out) {
    double value = static_cast<double>(out);
    number(name, value);
    out = static_cast<std::size_t>(value);
  }
  void integer(const std::string& name, std::int64_t& out) {
    double value = static_cast<double>(out);
    number(name, value);
    out = static_cast<std::int64_t>(value);
  }
  void flag(const std::string& name, bool& out) {
    choice(name, out, {{"true", true}, {"false", false}});
  }
  // KIND:NUMBER, as in absolute:1.
  void scaled(const std::string& name, const std::string& relative_name, bool& relative,
              double& value) {
    const std::string text = take(name);
    if (text.empty()) return;
    const std::size_t colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    if (colon == std::string::npos || (kind != relative_name && kind != "absolute")) {
      fail(name, text);
    }
    relative = kind == relative_name;
    value = parse_number(text.substr(colon + 1));
  }
  template <class T>
  void choice(const std::string& name, T& out,
              std::initializer_list<std::pair<const char*, T>> values) {
    const std::string text = take(name);
    if (text.empty()) return;
    for (const auto& [spelling, value] : values) {
      if (text == spelling) {
        out = value;
        return;
      }
    }
    fail(name, text);
  }
  void reduction(Reduction& out) {
    choice("reduction", out,
           {{"mean", Reduction::mean}, {"max", Reduction::max}, {"sum", Reduction::sum}});
  }
  void covariance(Covariance& out) {
    choice("covariance", out,
           {{"none", Covariance::none},
            {"diagonal", Covariance::diagonal},
            {"full", Covariance::full}});
  }
  void value_norm(ValueNorm& out) {
    choice("value_norm", out,
           {{"none", ValueNorm::none},
            {"norm", ValueNorm::norm},
            {"output_projection", ValueNorm::output_projection}});
  }
  void noise(Noise& out) { scaled("noise", "relative", out.relative, out.value); }
  void output_projection(bool& out) {
    choice("output_projection", out, {{"none", false}, {"factor", true}});
  }
  void finish() const {
    if (!pairs_.empty()) {
      throw std::invalid_argument("unknown parameter '" + pairs_.begin()->first + "'");
    }
  }

 private:
  std::string take(const std::string& name) {
    const auto found = pairs_.find(name);
    if (found == pairs_.end()) return {};
    std::string text = found->second;
    if (text.empty()) fail(name, text);
    pairs_.erase(found);
    return text;
  }
  [[noreturn]] static void fail(const std::string& name, const std::string& text) {
    throw std::invalid_argument("parameter " + name + " cannot be '" + text + "'");
  }

  Pairs pairs_;
};

SnapKV snapkv(Reader& reader) {
  SnapKV policy;
  reader.count("window", policy.window);
  reader.count("kernel", policy.kernel);
  reader.choice("pooling", policy.pooling, {{"average", Pooling::average}, {"max", Pooling::max}});
  reader.flag("count_padding", policy.count_padding);
  reader.reduction(policy.reduction);
  return policy;
}

H2O h2o(Reader& reader) {
  H2O policy;
  reader.choice("accumulation", policy.accumulation,
                {{"sum", Accumulation::sum},
                 {"mean", Accumulation::mean},
                 {"decay", Accumulation::decay},
                 {"max", Accumulation::max}});
  reader.number("decay", policy.decay);
  return policy;
}

ExpectedAttention expected_attention(Reader& reader) {
  ExpectedAttention policy;
  reader.covariance(policy.covariance);
  reader.value_norm(policy.value_norm);
  reader.scaled("epsilon", "per_row", policy.epsilon_per_row, policy.epsilon);
  reader.count("skip_first", policy.skip_first);
  reader.reduction(policy.reduction);
  reader.flag("log_domain", policy.log_domain);
  return policy;
}

ProbeAttention probe_attention(Reader& reader) {
  ProbeAttention policy;
  reader.choice(
      "statistic", policy.statistic,
      {{"mean", ProbeStatistic::mean}, {"rms", ProbeStatistic::rms}, {"max", ProbeStatistic::max}});
  reader.value_norm(policy.value_norm);
  return policy;
}

DropLoss drop_loss(Reader& reader) {
  DropLoss policy;
  reader.output_projection(policy.output_projection);
  return policy;
}

Jacap jacap(Reader& reader, const Inputs& inputs) {
  Jacap policy;
  policy.probes = !inputs.probes.empty();
  reader.number("temperature", policy.temperature);
  reader.covariance(policy.covariance);
  reader.noise(policy.noise);
  reader.output_projection(policy.output_projection);
  reader.reduction(policy.reduction);
  reader.flag("pooled", policy.pooled);
  reader.choice("evidence", policy.probes,
                {{"automatic", policy.probes}, {"mean", false}, {"probes", true}});
  return policy;
}

CapKV capkv(Reader& reader) {
  CapKV policy;
  reader.choice("form", policy.form,
                {{"reference", CapKV::Form::reference}, {"paper", CapKV::Form::paper}});
  reader.number("sharpness", policy.sharpness);
  reader.number("temperature", policy.temperature);
  reader.number("epsilon", policy.epsilon);
  reader.count("skip_first", policy.skip_first);
  reader.noise(policy.noise);
  reader.output_projection(policy.output_projection);
  reader.reduction(policy.reduction);
  reader.flag("pooled", policy.pooled);
  return policy;
}

LagKV lagkv(Reader& reader) {
  LagKV policy;
  reader.count("lag", policy.lag);
  reader.count("skip_first", policy.skip_first);
  reader.flag("cross_scoring", policy.cross_scoring);
  return policy;
}

RKV rkv(Reader& reader) {
  RKV policy;
  reader.count("window", policy.window);
  reader.count("kernel", policy.kernel);
  reader.number("lambda", policy.lambda);
  reader.number("threshold", policy.threshold);
  reader.reduction(policy.reduction);
  return policy;
}

NonCausalAttention noncausal_attention(Reader& reader) {
  NonCausalAttention policy;
  reader.count("chunk", policy.chunk);
  reader.choice("padding", policy.padded, {{"none", false}, {"zeros", true}});
  reader.count("kernel", policy.kernel);
  reader.flag("scale_logits", policy.scale_logits);
  reader.reduction(policy.reduction);
  return policy;
}

// A random sketch is the library's own: only its absence has a reference.
LeverageScore leverage_score(Reader& reader) {
  LeverageScore policy;
  reader.choice("keys", policy.before_rope, {{"before_rope", true}, {"cached", false}});
  reader.noise(policy.noise);
  std::size_t sketch = 0;
  reader.count("sketch", sketch);
  if (sketch != 0) throw std::invalid_argument("no reference for a random sketch");
  return policy;
}

Compactor compactor(Reader& reader) {
  Compactor policy;
  policy.leverage = leverage_score(reader);
  reader.count("chunk", policy.attention.chunk);
  reader.choice("padding", policy.attention.padded, {{"none", false}, {"zeros", true}});
  reader.number("blending", policy.blending);
  reader.count("skip_first", policy.skip_first);
  reader.count("skip_last", policy.skip_last);
  return policy;
}

CurDKV curdkv(Reader& reader) {
  CurDKV policy;
  reader.choice("leverage", policy.leverage,
                {{"key", CurDKV::Leverage::key},
                 {"value", CurDKV::Leverage::value},
                 {"average", CurDKV::Leverage::average},
                 {"product", CurDKV::Leverage::product}});
  reader.count("window", policy.window);
  reader.count("skip_first", policy.skip_first);
  return policy;
}

template <class Policy>
Scores finish(const Reader& reader, const Policy& policy, const Inputs& inputs) {
  reader.finish();
  return score(policy, inputs);
}

}  // namespace

Scores score(const std::string& policy, const Pairs& parameters, const Inputs& inputs) {
  Reader reader(parameters);
  if (policy == "KNorm") return finish(reader, KNorm{}, inputs);
  if (policy == "KeyDiff") return finish(reader, KeyDiff{}, inputs);
  if (policy == "SnapKV") return finish(reader, snapkv(reader), inputs);
  if (policy == "H2O") return finish(reader, h2o(reader), inputs);
  if (policy == "KVzip") return finish(reader, KVzip{}, inputs);
  if (policy == "ExpectedAttention") return finish(reader, expected_attention(reader), inputs);
  if (policy == "Jacap") return finish(reader, jacap(reader, inputs), inputs);
  if (policy == "CapKV") return finish(reader, capkv(reader), inputs);
  if (policy == "TOVA") {
    TOVA tova;
    reader.reduction(tova.reduction);
    return finish(reader, tova, inputs);
  }
  if (policy == "LayerTOVA") return finish(reader, LayerTOVA{}, inputs);
  if (policy == "LagKV") return finish(reader, lagkv(reader), inputs);
  if (policy == "QFilter") return finish(reader, QFilter{}, inputs);
  if (policy == "CurDKV") return finish(reader, curdkv(reader), inputs);
  if (policy == "RKV") return finish(reader, rkv(reader), inputs);
  if (policy == "NonCausalAttention") return finish(reader, noncausal_attention(reader), inputs);
  if (policy == "LeverageScore") return finish(reader, leverage_score(reader), inputs);
  if (policy == "Compactor") return finish(reader, compactor(reader), inputs);
  if (policy == "LayerNonCausalAttention") {
    return finish(reader, LayerNonCausalAttention{noncausal_attention(reader)}, inputs);
  }
  if (policy == "LayerCompactor") {
    return finish(reader, LayerCompactor{compactor(reader)}, inputs);
  }
  if (policy == "SketchedLeverage") {
    LeverageScore leverage = leverage_score(reader);
    leverage.sketched = true;
    return finish(reader, leverage, inputs);
  }
  if (policy == "StreamingLLM") {
    StreamingLLM streaming;
    reader.integer("sinks", streaming.sinks);
    return finish(reader, streaming, inputs);
  }
  if (policy == "ProbeAttention") return finish(reader, probe_attention(reader), inputs);
  if (policy == "DropLoss") return finish(reader, drop_loss(reader), inputs);
  throw std::invalid_argument("no reference for a policy named '" + policy + "'");
}

}  // namespace kvevict_test::reference
