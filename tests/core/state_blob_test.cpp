// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/state_blob.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"

using namespace kvevict_test;
using kvevict::ErrorKind;
using kvevict::StateReader;
using kvevict::StateWriter;

namespace {

using Blob = std::vector<std::byte>;

Blob example() {
  StateWriter writer("Thing");
  writer.integer(-3);
  writer.number(0.5);
  const float numbers[] = {1.0f, -2.0f};
  writer.array(numbers, 2);
  writer.text("k");
  return writer.finish();
}

// Puts the checksum right after a change.
Blob signed_again(Blob blob) {
  const std::uint32_t crc =
      kvevict::detail::crc32(std::span<const std::byte>(blob).first(blob.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) {
    blob[blob.size() - 4 + i] = static_cast<std::byte>(crc >> (8 * i));
  }
  return blob;
}

std::string read_all(const Blob& blob) {
  return refused([&] {
    StateReader reader(blob, "Thing");
    reader.integer();
    reader.number();
    reader.array<float>();
    reader.text();
    reader.finish();
  });
}

}  // namespace

TEST_CASE("the checksum is that of zip and PNG", "[core][state_blob]") {
  std::vector<std::byte> digits;
  for (const char c : std::string("123456789")) digits.push_back(static_cast<std::byte>(c));
  CHECK(kvevict::detail::crc32(digits) == 0xcbf43926u);
  CHECK(kvevict::detail::crc32({}) == 0u);
}

TEST_CASE("blobs are little-endian, byte for byte", "[core][state_blob]") {
  const std::string want =
      "6b766576696374 00"  // magic
      "01000000"           // version
      "3600000000000000"   // 54 bytes of payload
      "0500000000000000 5468696e67"
      "fdffffffffffffff"
      "000000000000e03f"
      "0200000000000000 0000803f 000000c0"
      "0100000000000000 6b";
  std::string got;
  const Blob blob = example();
  for (std::size_t i = 0; i + 4 < blob.size(); ++i) {
    const auto byte = static_cast<unsigned>(blob[i]);
    got += "0123456789abcdef"[byte / 16];
    got += "0123456789abcdef"[byte % 16];
  }
  std::string packed;
  for (const char c : want) {
    if (c != ' ') packed += c;
  }
  CHECK(got == packed);
}

TEST_CASE("what was written is read, bit by bit", "[core][state_blob]") {
  StateWriter writer("Thing");
  const std::vector<double> doubles = {0.0, -0.0, std::numeric_limits<double>::denorm_min(),
                                       -std::numeric_limits<double>::infinity(), 1e308};
  const std::vector<std::int64_t> integers = {INT64_MIN, -1, 0, INT64_MAX};
  writer.array(doubles.data(), 5);
  writer.array(integers.data(), 4);
  writer.array(doubles.data(), 0);
  writer.number(std::nan(""));
  writer.text("");
  const Blob blob = writer.finish();
  StateReader reader(blob, "Thing");
  const auto read = reader.array<double>("count", 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(kvevict::detail::bit_cast<std::uint64_t>(read[i]) ==
          kvevict::detail::bit_cast<std::uint64_t>(doubles[i]));
  }
  CHECK(reader.array<std::int64_t>() == integers);
  CHECK(reader.array<double>().empty());
  CHECK(std::isnan(reader.number()));
  CHECK(reader.text().empty());
  reader.finish();
}

TEST_CASE("a blob that is damaged anywhere is refused", "[core][state_blob]") {
  const Blob blob = example();
  REQUIRE(read_all(blob) == "nothing was thrown");
  for (std::size_t i = 0; i < blob.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Blob damaged = blob;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      INFO("byte " << i << " bit " << bit);
      REQUIRE_THROWS_AS(StateReader(damaged, "Thing"), kvevict::Error);
    }
  }
  for (std::size_t size = 0; size < blob.size(); ++size) {
    const Blob shorter(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size));
    REQUIRE_THROWS_AS(StateReader(shorter, "Thing"), kvevict::Error);
  }
  Blob longer = blob;
  longer.push_back(std::byte{0});
  CHECK(read_all(longer) ==
        "blob.payload is 54, must be the bytes between header and checksum, 55");
  Blob magic = blob;
  magic[0] = std::byte{'K'};
  CHECK(read_all(magic) == "blob.magic is another one, must be that of a kvevict state");
}

TEST_CASE("other kinds and versions are told apart from damage", "[core][state_blob]") {
  Blob newer = example();
  newer[8] = std::byte{2};
  CHECK(refused([&] { StateReader(newer, "Thing"); }, ErrorKind::unsupported) ==
        "blob.version is 2, must be equal to 1");
  CHECK(refused([&] { StateReader(example(), "Other"); }) ==
        "blob.kind is 'Thing', must be 'Other'");
}

TEST_CASE("lengths that lie are refused, whatever the checksum says", "[core][state_blob]") {
  // Every byte of the payload takes every value: reading ends well or with the typed error.
  const Blob blob = example();
  for (std::size_t i = 8 + 4 + 8; i + 4 < blob.size(); ++i) {
    for (int value = 0; value < 256; ++value) {
      Blob forged = blob;
      forged[i] = static_cast<std::byte>(value);
      forged = signed_again(forged);
      const std::string end = read_all(forged);
      REQUIRE(end.substr(0, 12) != "another kind");
    }
  }
  StateWriter writer("Thing");
  writer.integer(INT64_MAX);
  const Blob huge = writer.finish();
  StateReader reader(huge, "Thing");
  CHECK(refused([&] { reader.array<double>(); }) ==
        "blob.array is 9223372036854775807, must be in [0, elements left], left = 0");
}

TEST_CASE("what a blob was made for is compared", "[core][state_blob]") {
  const auto with = [](auto&& write) {
    StateWriter writer("Thing");
    write(writer);
    return writer.finish();
  };
  const Blob number = with([](StateWriter& w) { w.number(0.5); });
  CHECK(refused([&] { StateReader(number, "Thing").expect("decay", 0.25); }) ==
        "decay is 0.5, must be equal to 0.25");
  const Blob integer = with([](StateWriter& w) { w.integer(4); });
  CHECK(refused([&] { StateReader(integer, "Thing").expect("heads", std::int64_t{3}); }) ==
        "heads is 4, must be equal to 3");
  CHECK(refused([&] { StateReader(integer, "Thing").integer("count", 5, 9); }) ==
        "count is 4, must be >= 5");
  CHECK(refused([&] { StateReader(integer, "Thing").integer("count", 0, 3); }) ==
        "count is 4, must be <= 3");
  CHECK(refused([&] { StateReader(integer, "Thing").finish(); }) == "blob.unread is 8, must be 0");
}
