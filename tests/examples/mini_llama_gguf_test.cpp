// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "error.hpp"
#include "gguf.hpp"
#include "mini_llama_errors.hpp"
#include "mini_llama_gguf_writer.hpp"

namespace mini_llama_gguf_test {

namespace {

using namespace mini_llama;
using namespace mini_llama_test;

constexpr auto overflowing = ~std::uint64_t{0};

GgufFile parse(const Bytes& image) { return GgufFile::parse(image, "test.gguf"); }

void require_error(const Bytes& image, const std::string& message) {
  REQUIRE(throws_with<FileError>([&] { parse(image); }, {"test.gguf", message}));
}

GgufWriter small_file() {
  GgufWriter file;
  file.add("general.architecture", "llama");
  file.add("count", std::uint32_t{7});
  file.add("scale", 0.5f);
  file.add("on", true);
  file.add_texts("words", {"a", "", "bcd"});
  file.add_integers("numbers", {-1, 2, 3});
  file.add_tensor("weights", {2, 3}, {1, 2, 3, 4, 5, 6});
  file.add_tensor("half", {4}, 1, Bytes(8));
  return file;
}

// Reads everything a parsed file offers.
std::size_t read_all(const GgufFile& file) {
  std::size_t sum = 0;
  for (const auto& [key, value] : file.metadata()) {
    for (const std::byte b : value.bytes) sum += std::to_integer<std::size_t>(b);
    if (value.type == ValueType::string) sum += file.text(key).size();
    if (value.type == ValueType::array && value.element_type == ValueType::string) {
      for (const std::string_view text : file.text_list(key)) sum += text.size();
    }
  }
  for (const auto& [name, tensor] : file.tensors()) {
    for (const std::byte b : tensor.data) sum += std::to_integer<std::size_t>(b);
  }
  return sum;
}

TEST_CASE("mini_llama gguf: values and tensors are read as written", "[mini_llama]") {
  const std::uint32_t version = GENERATE(2u, 3u);
  GgufWriter writer = small_file();
  writer.version = version;
  const Bytes image = writer.image();
  const GgufFile file = parse(image);
  CHECK(file.version() == version);
  CHECK(file.text("general.architecture") == "llama");
  CHECK(file.unsigned_value("count") == 7);
  CHECK(file.number("scale") == 0.5);
  CHECK(file.flag("on"));
  CHECK(file.text_list("words") == std::vector<std::string_view>{"a", "", "bcd"});
  CHECK(file.integer_list("numbers") == std::vector<std::int64_t>{-1, 2, 3});
  const TensorInfo& tensor = file.tensor("weights");
  CHECK(tensor.shape == std::array<std::uint64_t, 4>{2, 3, 1, 1});
  CHECK(tensor.elements == 6);
  const std::array<float, 6> expected{1, 2, 3, 4, 5, 6};
  REQUIRE(tensor.data.size() == sizeof(expected));
  CHECK(std::memcmp(tensor.data.data(), expected.data(), sizeof(expected)) == 0);
}

TEST_CASE("mini_llama gguf: every type of value", "[mini_llama]") {
  GgufWriter writer;
  writer.add("u8", ValueType::u8, std::uint8_t{200});
  writer.add("i8", ValueType::i8, std::int8_t{-3});
  writer.add("u16", ValueType::u16, std::uint16_t{60000});
  writer.add("i16", ValueType::i16, std::int16_t{300});
  writer.add("i32", ValueType::i32, std::int32_t{70000});
  writer.add("u64", ValueType::u64, std::uint64_t{1} << 40);
  writer.add("u64 large", ValueType::u64, overflowing);
  writer.add("i64", ValueType::i64, std::int64_t{1} << 41);
  writer.add("f64", ValueType::f64, 0.1);
  writer.add_array_head("empty", ValueType::f64, 0);
  writer.add_array_head("nested", ValueType::array, 0);
  const Bytes image = writer.image();
  const GgufFile file = parse(image);
  CHECK(file.unsigned_value("u8") == 200);
  CHECK(file.unsigned_value("u16") == 60000);
  CHECK(file.unsigned_value("i16") == 300);
  CHECK(file.unsigned_value("i32") == 70000);
  CHECK(file.unsigned_value("u64") == std::uint64_t{1} << 40);
  CHECK(file.unsigned_value("i64") == std::uint64_t{1} << 41);
  CHECK(file.number("f64") == 0.1);
  CHECK(file.metadata().at("empty").count == 0);
  CHECK(file.metadata().at("nested").bytes.empty());
  CHECK_THROWS_AS(file.unsigned_value("i8"), FileError);
  CHECK_THROWS_AS(file.unsigned_value("u64 large"), FileError);
}

TEST_CASE("mini_llama gguf: a value of another kind, or none, is an error that names the key",
          "[mini_llama]") {
  const Bytes image = small_file().image();
  const GgufFile file = parse(image);
  CHECK(throws_with<FileError>([&] { file.unsigned_value("scale"); }, {"'scale'", "integer"}));
  CHECK(throws_with<FileError>([&] { file.number("count"); }, {"'count'", "floating"}));
  CHECK(throws_with<FileError>([&] { file.flag("count"); }, {"'count'", "boolean"}));
  CHECK(throws_with<FileError>([&] { file.text("words"); }, {"'words'", "string"}));
  CHECK(throws_with<FileError>([&] { file.text_list("numbers"); }, {"'numbers'", "strings"}));
  CHECK(throws_with<FileError>([&] { file.integer_list("words"); }, {"'words'", "integers"}));
  CHECK(throws_with<FileError>([&] { file.text("absent"); }, {"'absent' is missing"}));
  CHECK(throws_with<FileError>([&] { file.tensor("absent"); }, {"'absent' is missing"}));
}

TEST_CASE("mini_llama gguf: cut off anywhere, a file is an error", "[mini_llama]") {
  const Bytes image = small_file().image();
  REQUIRE_NOTHROW(parse(image));
  for (std::size_t size = 0; size < image.size(); ++size) {
    INFO(size << " of " << image.size() << " bytes");
    // A copy of its own, so that a sanitizer sees any read past its end.
    const Bytes front(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size));
    REQUIRE_THROWS_AS(parse(front), FileError);
  }
}

TEST_CASE("mini_llama gguf: with any byte changed, a file is read or refused", "[mini_llama]") {
  const Bytes image = small_file().image();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < image.size(); ++at) {
    for (const unsigned value : {0x00u, 0x01u, 0x7fu, 0x80u, 0xffu}) {
      Bytes changed = image;
      changed[at] = static_cast<std::byte>(value);
      try {
        read_all(parse(changed));
      } catch (const FileError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > image.size());
}

TEST_CASE("mini_llama gguf: wrong magic or version", "[mini_llama]") {
  GgufWriter file = small_file();
  SECTION("magic") {
    file.magic = "GGML";
    require_error(file.image(), "GGUF");
  }
  SECTION("version") {
    file.version = GENERATE(0u, 1u, 4u, 0x03000000u);
    require_error(file.image(), concat("version at byte 8: is ", file.version));
  }
}

TEST_CASE("mini_llama gguf: absurd counts and lengths are refused before they are used",
          "[mini_llama]") {
  const std::uint64_t count = GENERATE(std::uint64_t{1} << 32, std::uint64_t{1} << 62, overflowing);
  GgufWriter file;
  SECTION("metadata") {
    file.extra_metadata = count;
    require_error(file.image(), concat("count is ", count));
  }
  SECTION("tensors") {
    file.extra_tensors = count;
    require_error(file.image(), concat("count is ", count));
  }
  SECTION("array of numbers") {
    file.add_array_head("a", ValueType::u64, count);
    require_error(file.image(), concat("count is ", count));
  }
  SECTION("array of strings") {
    file.add_array_head("a", ValueType::string, count);
    require_error(file.image(), concat("count is ", count));
  }
  SECTION("array of arrays") {
    file.add_array_head("a", ValueType::array, count);
    require_error(file.image(), concat("count is ", count));
  }
  SECTION("string") {
    file.add("a", ValueType::string, count);
    require_error(file.image(), concat("needs ", count, " bytes"));
  }
  SECTION("dimension") {
    file.add_tensor_entry("t", {count, 8}, 0, 0);
    require_error(file.image(), "'t'");
  }
  SECTION("product of dimensions") {
    file.add_tensor_entry("t", {std::uint64_t{1} << 31, std::uint64_t{1} << 31, 1, count}, 0, 0);
    require_error(file.image(), "'t'");
  }
  SECTION("offset") {
    file.add_tensor("u", {1}, {1});
    file.add_tensor_entry("t", {8}, 0, count / 32 * 32);
    require_error(file.image(), "'t': needs 32 bytes at offset");
  }
}

TEST_CASE("mini_llama gguf: alignment", "[mini_llama]") {
  SECTION("a power of two moves the data") {
    GgufWriter file;
    file.alignment = 64;
    file.add("general.alignment", std::uint32_t{64});
    file.add_tensor("t", {1}, {2.5f});
    const Bytes image = file.image();
    const TensorInfo tensor = parse(image).tensor("t");
    CHECK((tensor.data.data() - image.data()) % 64 == 0);
    CHECK(std::memcmp(tensor.data.data(), "\x00\x00\x20\x40", 4) == 0);
  }
  SECTION("anything else is an error") {
    const std::uint32_t bad = GENERATE(0u, 3u, 24u, 1u << 21, 0xffffffffu);
    GgufWriter file;
    file.add("general.alignment", bad);
    require_error(file.image(), concat("general.alignment"));
    require_error(file.image(), concat("is ", bad));
  }
  SECTION("of another type") {
    GgufWriter file;
    file.add("general.alignment", "32");
    require_error(file.image(), "general.alignment");
  }
  SECTION("an offset that does not keep it") {
    GgufWriter file;
    file.add_tensor("u", {16}, std::vector<float>(16));
    file.add_tensor_entry("t", {1}, 0, 4);
    require_error(file.image(), "'t': offset is 4, must be a multiple of 32");
  }
}

TEST_CASE("mini_llama gguf: tensors that are not possible", "[mini_llama]") {
  GgufWriter file;
  SECTION("type") {
    const std::uint32_t type = GENERATE(4u, 5u, 13u, 31u, 0xffffffffu);
    file.add_tensor_entry("t", {256}, type, 0);
    require_error(file.image(), concat("'t' at byte "));
    require_error(file.image(), concat("type number ", type, " is not supported"));
  }
  SECTION("no dimension") {
    file.add_tensor_entry("t", {}, 0, 0);
    file.add_tensor_entry("padding", {1}, 0, 0);
    require_error(file.image(), "has 0 dimensions");
  }
  SECTION("five dimensions") {
    file.add_tensor_entry("t", {1, 1, 1, 1, 1}, 0, 0);
    require_error(file.image(), "has 5 dimensions");
  }
  SECTION("an extent of zero") {
    file.add_tensor_entry("t", {4, 0}, 0, 0);
    require_error(file.image(), "dimension 1 is 0");
  }
  SECTION("rows that are no whole blocks") {
    file.add_tensor_entry("t", {48, 2}, 8, 0);
    require_error(file.image(), "rows have 48 elements, Q8_0 needs a multiple of 32");
  }
}

TEST_CASE("mini_llama gguf: names that occur twice", "[mini_llama]") {
  GgufWriter file;
  SECTION("key") {
    file.add("a", std::uint32_t{1});
    file.add("a", std::uint32_t{2});
    require_error(file.image(), "'a' occurs twice");
  }
  SECTION("tensor") {
    file.add_tensor("t", {1}, {1});
    file.add_tensor("t", {1}, {2});
    require_error(file.image(), "'t' occurs twice");
  }
}

TEST_CASE("mini_llama gguf: unknown types of values, deep arrays", "[mini_llama]") {
  GgufWriter file;
  SECTION("value") {
    file.add("a", static_cast<ValueType>(13), std::uint64_t{0});
    require_error(file.image(), "type number is 13");
  }
  SECTION("element") {
    file.add_array_head("a", static_cast<ValueType>(99), 0);
    require_error(file.image(), "type number is 99");
  }
  SECTION("arrays in arrays") {
    Bytes image;
    file.add_array_head("a", ValueType::array, 1);
    image = file.image();
    for (int depth = 0; depth < 20; ++depth) {
      put(image, static_cast<std::uint32_t>(ValueType::array));
      put(image, std::uint64_t{1});
    }
    require_error(image, "nested deeper");
  }
}

TEST_CASE("mini_llama gguf: files on disk", "[mini_llama]") {
  const auto folder = std::filesystem::temp_directory_path();
  const Bytes image = small_file().image();
  const auto path = folder / concat("mini_llama_gguf_test_", image.data(), ".gguf");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(image.data()), std::ssize(image));
  GgufFile moved = parse(image);
  {
    GgufFile opened = GgufFile::open(path);
    moved = std::move(opened);
  }
  CHECK(read_all(moved) == read_all(parse(image)));

  std::filesystem::resize_file(path, 0);
  CHECK(throws_with<FileError>([&] { GgufFile::open(path); }, {path.string(), "is empty"}));
  std::filesystem::remove(path);
  CHECK(throws_with<FileError>([&] { GgufFile::open(path); }, {path.string(), "cannot open"}));
  CHECK(throws_with<FileError>([&] { GgufFile::open(folder); }, {"not a regular file"}));
}

}  // namespace

}  // namespace mini_llama_gguf_test
