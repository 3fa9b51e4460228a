// SPDX-License-Identifier: Apache-2.0
#include "reference/golden_inputs.hpp"

#include <numeric>
#include <stdexcept>

#include "reference/query_stats.hpp"

namespace kvevict_test::reference {
namespace {

void load_query_stats(const GoldenData& data, const GoldenEntry& entry, Inputs& inputs) {
  const std::string folder = entry.case_name() + "/input/";
  const Pairs& evidence = entry.evidence;
  if (required(evidence, "queries") == "post_rope") {
    const Heads queries = golden_heads(data, folder + "queries_post_rope");
    const auto window = static_cast<std::size_t>(required_integer(evidence, "window"));
    inputs.stats = query_stats(queries, queries[0].rows - window);
    return;
  }
  const Heads queries = golden_heads(data, folder + "queries_pre_rope");
  inputs.stats = future_query_stats(
      queries, static_cast<std::size_t>(required_integer(evidence, "skip_first")),
      required_integer(evidence, "next_position"), required_integer(evidence, "future"),
      golden_rope(evidence, queries[0].cols));
}

}  // namespace

Heads golden_heads(const GoldenData& data, const std::string& id) {
  const NpyArray array = data.array(id);
  if (array.shape().size() != 3) throw std::runtime_error(id + ": not [head, row, dim]");
  return split_heads(array.values_double(), static_cast<std::size_t>(array.dim(0)),
                     static_cast<std::size_t>(array.dim(1)),
                     static_cast<std::size_t>(array.dim(2)));
}

Rope golden_rope(const Pairs& evidence, std::size_t dim) {
  Rope rope;
  rope.frequencies = rope_frequencies(required_number(evidence, "rope_theta"), dim);
  rope.pairing = required(evidence, "rope_pairing") == "half" ? Pairing::half : Pairing::adjacent;
  return rope;
}

Inputs golden_inputs(const GoldenData& data, const GoldenEntry& entry) {
  const std::string folder = entry.case_name() + "/input/";
  Inputs inputs;
  inputs.keys = golden_heads(data, folder + "keys");
  inputs.values = golden_heads(data, folder + "values");

  const std::string& kind = required(entry.evidence, "kind");
  if (kind == "query_stats") {
    load_query_stats(data, entry, inputs);
  } else if (kind == "query_window" || kind == "all_queries") {
    inputs.queries = golden_heads(data, folder + "queries_post_rope");
    inputs.query_positions.resize(inputs.queries[0].rows);
    std::iota(inputs.query_positions.begin(), inputs.query_positions.end(), std::int64_t{0});
    if (entry.evidence.count("keys") != 0) {
      inputs.keys_before_rope = golden_heads(data, folder + "keys_pre_rope");
    }
  } else if (kind == "probes") {
    inputs.probes = golden_heads(data, folder + "probe_queries");
  } else if (kind == "keys_before_rope") {
    inputs.keys_before_rope = golden_heads(data, folder + "keys_pre_rope");
    if (entry.evidence.count("sketch") != 0) {
      inputs.sketches = golden_heads(data, folder + required(entry.evidence, "sketch"));
    }
  } else if (kind == "query_filter") {
    const NpyArray array = data.array(folder + "query_filter");
    inputs.query_filter =
        split_heads(array.values_double(), 1, static_cast<std::size_t>(array.dim(0)),
                    static_cast<std::size_t>(array.dim(1)))[0];
  } else if (kind != "none") {
    throw std::runtime_error(entry.id + ": unknown evidence '" + kind + "'");
  }

  const auto projection = entry.parameters.find("output_projection");
  if (projection != entry.parameters.end() && projection->second != "none") {
    const NpyArray array = data.array(folder + "output_projection");
    inputs.output_projection =
        split_heads(array.values_double(), 1, static_cast<std::size_t>(array.dim(0)),
                    static_cast<std::size_t>(array.dim(1)))[0];
  }
  return inputs;
}

}  // namespace kvevict_test::reference
