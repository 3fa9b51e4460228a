// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.hpp"
#include "error.hpp"
#include "mini_llama_errors.hpp"
#include "mini_llama_tiny_model.hpp"
#include "model.hpp"

namespace mini_llama_model_test {

namespace {

using namespace mini_llama;
using namespace mini_llama_test;

Model load(const GgufWriter& writer) {
  const Bytes image = writer.image();
  ThreadPool pool(2);
  return Model::load(GgufFile::parse(image, "test.gguf"), pool);
}

void require_error(const GgufWriter& writer, std::initializer_list<std::string_view> parts) {
  CHECK(throws_with<FileError>([&] { load(writer); }, parts));
}

TEST_CASE("mini_llama model: hyperparameters and weights come from the file", "[mini_llama]") {
  TinyModel tiny;
  tiny.tied = GENERATE(true, false);
  const Model model = load(tiny.write());
  const Hyperparameters& p = model.parameters();
  CHECK(p.layers == 2);
  CHECK(p.embedding == 32);
  CHECK(p.query_heads == 6);
  CHECK(p.kv_heads == 2);
  CHECK(p.key_dim == 10);
  CHECK(p.value_dim == 7);
  CHECK(p.feed_forward == 44);
  CHECK(p.vocabulary == 200);
  CHECK(p.context == 400);
  CHECK(p.rms_epsilon == 1e-3f);
  CHECK(model.layers().at(1).attention_output.rows() == 32);
  CHECK(model.layers().at(1).attention_output.cols() == 42);
  CHECK((&model.output() == &model.embedding()) == tiny.tied);
  CHECK(model.output().rows() == 200);

  const Bytes image = tiny.write().image();
  const GgufFile file = GgufFile::parse(image, "test.gguf");
  const Matrix& down = model.layers().at(1).down;
  const auto raw = file.tensor("blk.1.ffn_down.weight").data;
  REQUIRE(raw.size() == to_size(down.size()) * sizeof(float));
  CHECK(std::memcmp(raw.data(), down.data(), raw.size()) == 0);
}

TEST_CASE("mini_llama model: quantised rows are decoded into their rows", "[mini_llama]") {
  TinyModel tiny;
  tiny.quantised = true;
  const Bytes image = tiny.write().image();
  const GgufFile file = GgufFile::parse(image, "test.gguf");
  ThreadPool pool(2);
  const Model model = Model::load(file, pool);
  const auto raw = file.tensor("token_embd.weight").data;
  for (Index row = 0; row < 200; ++row) {
    for (Index i = 0; i < 32; ++i) {
      const auto q = std::to_integer<std::uint8_t>(raw[to_size(row * 34 + 2 + i)]);
      REQUIRE(model.embedding()(row, i) ==
              static_cast<float>(static_cast<std::int8_t>(q)) * 3 / 1024);
    }
  }
}

TEST_CASE("mini_llama model: frequencies of the rotation", "[mini_llama]") {
  TinyModel tiny;
  tiny.with_rope_factors = false;
  const std::vector<double> plain = load(tiny.write()).rope_frequencies();
  REQUIRE(plain.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    // Powers of the same double: equal to a few units in the last place.
    CHECK(plain[i] == Approx(std::pow(50.0, -static_cast<double>(i) / 4)).epsilon(1e-14));
  }
  tiny.with_rope_factors = true;
  const Bytes image = tiny.write().image();
  const GgufFile file = GgufFile::parse(image, "test.gguf");
  const std::vector<double> divided = load(tiny.write()).rope_frequencies();
  for (std::size_t i = 0; i < 4; ++i) {
    float factor;
    std::memcpy(&factor, file.tensor("rope_freqs.weight").data.data() + 4 * i, 4);
    CHECK(divided[i] == Approx(plain[i] / factor).epsilon(1e-14));
  }
}

TEST_CASE("mini_llama model: what is optional has the defaults of the format", "[mini_llama]") {
  GgufWriter file;
  file.add("general.architecture", "llama");
  file.add("llama.block_count", std::uint32_t{2});
  file.add("llama.embedding_length", std::uint32_t{32});
  file.add("llama.attention.head_count", std::uint32_t{4});
  file.add("llama.feed_forward_length", std::uint32_t{44});
  file.add("llama.context_length", std::uint32_t{64});
  file.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  TinyModel tiny;
  tiny.query_heads = 4;
  tiny.kv_heads = 4;
  tiny.key_dim = 8;
  tiny.value_dim = 8;
  tiny.with_rope_factors = false;
  tiny.write_tensors(file);
  const Model model = load(file);
  CHECK(model.parameters().kv_heads == 4);
  CHECK(model.parameters().key_dim == 8);
  CHECK(model.parameters().value_dim == 8);
  REQUIRE(model.rope_frequencies().size() == 4);
  CHECK(model.rope_frequencies()[1] == Approx(0.1).epsilon(1e-14));
}

TEST_CASE("mini_llama model: other architectures are refused by name", "[mini_llama]") {
  GgufWriter file;
  file.add("general.architecture", "gemma3");
  require_error(file, {"test.gguf", "'gemma3' is not supported", "llama"});
}

TEST_CASE("mini_llama model: hyperparameters that contradict each other or the tensors",
          "[mini_llama]") {
  TinyModel tiny;
  TinyModel written = tiny;
  const auto mixed = [&] {
    GgufWriter file;
    written.write_metadata(file);
    tiny.write_tensors(file);
    return file;
  };
  SECTION("heads") {
    written.kv_heads = 4;
    require_error(mixed(), {"6 query heads", "4 key-value heads"});
  }
  SECTION("zero") {
    written.layers = 0;
    require_error(mixed(), {"llama.block_count is 0"});
  }
  SECTION("huge") {
    written.feed_forward = 0xffffffffu;
    require_error(mixed(), {"llama.feed_forward_length is 4294967295"});
  }
  SECTION("more layers than there are") {
    written.layers = 1u << 24;
    require_error(mixed(), {"'blk.2.attn_norm.weight' is missing"});
  }
  SECTION("fewer layers than there are") {
    written.layers = 1;
    require_error(mixed(), {"'blk.1.", "no part"});
  }
  SECTION("key dimension") {
    written.key_dim = 12;
    require_error(mixed(), {"'blk.0.attn_q.weight' has shape [32, 60, 1, 1]", "[32, 72, 1, 1]"});
  }
  SECTION("value dimension") {
    written.value_dim = 8;
    require_error(mixed(), {"'blk.0.attn_v.weight'", "expected [32, 16, 1, 1]"});
  }
  SECTION("feed forward") {
    written.feed_forward = 40;
    require_error(mixed(), {"'blk.0.ffn_gate.weight'", "expected [32, 40, 1, 1]"});
  }
  SECTION("vocabulary") {
    written.vocabulary = 201;
    require_error(mixed(), {"llama.vocab_size is not 200"});
  }
  SECTION("rotated dimensions") {
    written.rotated = GENERATE(7u, 12u);
    require_error(mixed(),
                  {concat("llama.rope.dimension_count is ", written.rotated), "at most 10"});
  }
  SECTION("factors of another count") {
    written.rotated = 10;
    require_error(mixed(), {"'rope_freqs.weight' has shape [4, 1, 1, 1], expected [5, 1, 1, 1]"});
  }
}

TEST_CASE("mini_llama model: parts that the engine would ignore are errors", "[mini_llama]") {
  GgufWriter file = TinyModel().write();
  SECTION("a bias") {
    file.add_tensor("blk.0.attn_q.bias", {60}, std::vector<float>(60));
    require_error(file, {"'blk.0.attn_q.bias'", "no part"});
  }
  SECTION("scaled RoPE") {
    file.add("llama.rope.scaling.type", "yarn");
    require_error(file, {"llama.rope.scaling.type 'yarn' is not supported"});
  }
  SECTION("scaled RoPE in the older way") {
    file.add("llama.rope.scale_linear", 4.0f);
    require_error(file, {"llama.rope.scale_linear is 4"});
  }
  SECTION("no scaling is no error") {
    file.add("llama.rope.scaling.type", "none");
    file.add("llama.rope.scale_linear", 1.0f);
    CHECK_NOTHROW(load(file));
  }
}

TEST_CASE("mini_llama model: numbers that are not possible", "[mini_llama]") {
  GgufWriter file;
  const float bad = GENERATE(0.0f, -1.0f, NAN, INFINITY);
  file.add("general.architecture", "llama");
  file.add("llama.block_count", std::uint32_t{2});
  file.add("llama.embedding_length", std::uint32_t{32});
  file.add("llama.attention.head_count", std::uint32_t{4});
  file.add("llama.feed_forward_length", std::uint32_t{44});
  file.add("llama.context_length", std::uint32_t{64});
  file.add("llama.attention.layer_norm_rms_epsilon", bad);
  TinyModel().write_tensors(file);
  require_error(file, {"layer_norm_rms_epsilon", "must be positive and finite"});
}

}  // namespace

}  // namespace mini_llama_model_test
