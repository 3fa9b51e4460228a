// SPDX-License-Identifier: Apache-2.0
#include "prefill_store.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include <kvevict/core/state_blob.hpp>

#include "mini_llama/rope.hpp"
#include "model_eviction/cache_state.hpp"

namespace evaluate {
namespace {

using mini_llama::Index;
using mini_llama::Matrix;

constexpr std::string_view blob_kind = "Prefill";

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// By another name first, so that an interrupted run leaves no half file behind.
void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  const std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error(part + ": cannot write");
  out.close();
  std::filesystem::rename(part, path);
}

/// Tells the capture of queries whose rotation was not stored.
void replay(const mini_llama::Model& model, Index layer, const Matrix& pre_rope,
            const mini_llama::QueryObserver& observer) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(pre_rope.rows()));
  std::iota(positions.begin(), positions.end(), 0);
  const mini_llama::RotationTable rotation(model.rope_frequencies(), positions);
  const mini_llama::Hyperparameters& shape = model.parameters();
  Matrix post_rope = pre_rope;
  for (Index token = 0; token < post_rope.rows(); ++token) {
    for (Index head = 0; head < shape.query_heads; ++head) {
      rotation.rotate(post_rope.row(token).data() + head * shape.key_dim, token);
    }
  }
  observer({layer, positions, pre_rope, post_rope});
}

void read_stored(std::span<const std::byte> bytes, const std::string& model_name,
                 const mini_llama::Model& model, const Case& context, Prefill& prefill) {
  kvevict::StateReader from(bytes, blob_kind);
  from.expect("model", model_name);
  from.expect("checksum", hexadecimal(context.checksum));
  mini_llama::RaggedCache cache = demo::read_cache(from, prefill.cache.shape());
  const mini_llama::Hyperparameters& shape = model.parameters();
  const auto tokens = static_cast<Index>(context.context.size());
  std::vector<Matrix> queries;
  for (Index layer = 0; layer < shape.layers; ++layer) {
    queries.push_back(
        demo::read_matrix(from, "queries.size", tokens, shape.query_heads * shape.key_dim));
  }
  from.finish();
  cache.advance(static_cast<std::int32_t>(tokens));
  prefill.cache = std::move(cache);
  const mini_llama::QueryObserver observer = prefill.queries.observer();
  for (Index layer = 0; layer < shape.layers; ++layer) {
    replay(model, layer, queries[mini_llama::to_size(layer)], observer);
  }
}

}  // namespace

PrefillStore::PrefillStore(std::string folder, std::string model)
    : folder_(std::move(folder)), model_(std::move(model)) {}

std::string PrefillStore::path_of(const Case& context) const {
  return folder_ + "/" + context.name + "-" + hexadecimal(context.checksum) + ".prefill";
}

Prefill PrefillStore::get(mini_llama::Engine& engine, const Case& context,
                          std::span<const mini_llama::TokenId> question,
                          const std::function<void(const std::string&)>& say) const {
  const mini_llama::Model& model = engine.model();
  const auto tokens = static_cast<std::int64_t>(context.context.size() + question.size());
  Prefill prefill{engine.make_cache(mini_llama::RowType::float32),
                  demo::QueryCapture(model.parameters(), tokens)};
  const std::string path = path_of(context);
  bool stored = std::filesystem::exists(path);
  if (stored) {
    try {
      read_stored(read_bytes(path), model_, model, context, prefill);
    } catch (const kvevict::Error& error) {
      say(path + " is of no use: " + error.what());
      stored = false;
    }
  }
  if (!stored) {
    const auto progress = [&](Index done, Index total) {
      say("reading " + context.name + ": " + std::to_string(done) + " of " + std::to_string(total) +
          " tokens");
    };
    engine.prefill(prefill.cache, context.context, 256, progress, prefill.queries.observer());
    kvevict::StateWriter to(blob_kind);
    to.text(model_);
    to.text(hexadecimal(context.checksum));
    demo::write_cache(to, prefill.cache);
    for (std::int64_t layer = 0; layer < model.parameters().layers; ++layer) {
      const Matrix& rows = prefill.queries.pre_rope(layer);
      const auto count = static_cast<Index>(context.context.size());
      demo::write_matrix(to, {rows.data(), count, rows.cols(), Eigen::OuterStride<>(rows.cols())});
    }
    std::filesystem::create_directories(folder_);
    write_bytes(path, to.finish());
  }
  if (!question.empty()) {
    engine.forward(prefill.cache, question, {}, prefill.queries.observer());
  }
  return prefill;
}

}  // namespace evaluate
