// SPDX-License-Identifier: Apache-2.0
#include "kvevict_score/npy.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "kvevict_score/npy_header.hpp"
#include "program.hpp"
#include "support/npy.hpp"

namespace npy_test {

namespace {

using kvevict_score::read_npy;
using kvevict_test::TemporaryFolder;
using kvevict_test::write_file;

// A file of the given format version with a header and data.
std::string npy_bytes(int major, const std::string& header, const std::string& data) {
  std::string length;
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    length += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  }
  return std::string("\x93NUMPY") + static_cast<char>(major) + '\0' + length + header + data;
}

const std::string plain_header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n";
const std::string two_floats("\0\0\x80\x3f\0\0\0\xc0", 8);  // 1, -2

// What reading a file of these bytes throws.
std::string complaint(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string file = write_file(folder / "a.npy", bytes);
  try {
    read_npy(file);
  } catch (const kvevict_score::FileError& error) {
    const std::string text = error.what();
    CHECK(text.starts_with(file + ": "));
    return text.substr(file.size() + 2);
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("npy: all format versions are read") {
  const TemporaryFolder folder;
  for (const int major : {1, 2, 3}) {
    CAPTURE(major);
    const auto array =
        read_npy(write_file(folder / "a.npy", npy_bytes(major, plain_header, two_floats)));
    CHECK(array.shape == std::vector<std::int64_t>{2, 1});
    CHECK(std::get<std::vector<float>>(array.values) == std::vector<float>{1.0F, -2.0F});
  }
}

TEST_CASE("npy: fields in any order, double quotes, float16 as it is stored") {
  const TemporaryFolder folder;
  const std::string header = "{\"shape\": (2,), 'fortran_order':False,\"descr\": '<f2'}   \n";
  const auto array = read_npy(
      write_file(folder / "a.npy", npy_bytes(1, header, std::string("\xff\x7b\x01\0", 4))));
  REQUIRE(array.is_half());
  const auto& values = std::get<std::vector<kvevict::half>>(array.values);
  REQUIRE(values.size() == 2);
  CHECK(float{values[0]} == 65504.0F);
  CHECK(float{values[1]} == 0x1p-24F);
}

TEST_CASE("npy: what is written is read back, by the independent reader too") {
  const TemporaryFolder folder;
  const std::vector<float> floats = {1.5F, std::numeric_limits<float>::infinity(), -0.0F, 3e-42F};
  const std::vector<std::vector<std::int64_t>> shapes = {{4}, {2, 2}, {1, 4, 1}};
  for (const auto& shape : shapes) {
    kvevict_score::write_npy(folder / "f.npy", floats, shape);
    const auto array = read_npy(folder / "f.npy");
    CHECK(array.shape == shape);
    CHECK(std::get<std::vector<float>>(array.values) == floats);
    const auto other = kvevict_test::read_npy(folder / "f.npy");
    CHECK(other.shape() == shape);
    CHECK(other.values_float() == floats);
  }
  const std::vector<std::int32_t> integers = {0, -1, 2147483647};
  kvevict_score::write_npy(folder / "i.npy", integers, std::vector<std::int64_t>{3});
  CHECK(kvevict_test::read_npy(folder / "i.npy").values_int32() == integers);
}

TEST_CASE("npy: data starts at a multiple of 64 bytes, whatever the shape") {
  const TemporaryFolder folder;
  for (std::size_t axes = 1; axes < 30; ++axes) {
    const std::vector<std::int64_t> shape(axes, 1);
    kvevict_score::write_npy(folder / "a.npy", std::vector<float>{1.0F}, shape);
    CHECK((std::filesystem::file_size(folder / "a.npy") - 4) % 64 == 0);
    CHECK(read_npy(folder / "a.npy").shape == shape);
  }
}

TEST_CASE("npy: an axis of length 0 is an array without values") {
  const TemporaryFolder folder;
  kvevict_score::write_npy(folder / "a.npy", std::vector<float>{},
                           std::vector<std::int64_t>{3, 0, 64});
  const auto array = read_npy(folder / "a.npy");
  CHECK(array.shape == std::vector<std::int64_t>{3, 0, 64});
  CHECK(std::get<std::vector<float>>(array.values).empty());
}

TEST_CASE("npy: every cut of a good file is refused") {
  const std::string whole = npy_bytes(1, plain_header, two_floats);
  REQUIRE(complaint(whole).empty());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(complaint(whole.substr(0, size)).empty());
  }
  CHECK(says(complaint(whole.substr(0, 4)), "not a NumPy file"));
  CHECK(says(complaint(whole.substr(0, 9)), "ends within the length of the header"));
  CHECK(says(complaint(whole.substr(0, 30)), "ends within the header"));
  CHECK(says(complaint(whole.substr(0, whole.size() - 1)),
             "holds 7 bytes of data, its shape [2, 1] needs 8"));
  CHECK(says(complaint(whole + "x"), "holds 9 bytes of data"));
}

TEST_CASE("npy: other files and versions are named") {
  CHECK(says(complaint(std::string("PK\x03\x04 and more", 13)), "archive"));
  CHECK(says(complaint(npy_bytes(4, plain_header, two_floats)), "format 4.0"));
  CHECK(says(complaint(npy_bytes(0, plain_header, two_floats)), "format 0.0"));
  std::string odd = npy_bytes(1, plain_header, two_floats);
  odd[7] = 1;
  CHECK(says(complaint(odd), "format 1.1"));
  CHECK(says(complaint(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{", 13)),
             "header of 4294967295 bytes"));
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_npy(folder / "absent.npy"), kvevict_score::FileError);
  CHECK_THROWS_AS(read_npy(folder / "."), kvevict_score::FileError);
  CHECK_THROWS_AS(
      kvevict_score::write_npy(folder / "absent/a.npy", std::vector<float>{}, std::vector{0L}),
      kvevict_score::FileError);
}

TEST_CASE("npy: every field of the header is checked") {
  const auto header_complaint = [](const std::string& header) {
    return complaint(npy_bytes(1, header, two_floats));
  };
  const auto with_type = [&](const std::string& descr) {
    return header_complaint("{'descr': " + descr + ", 'fortran_order': False, 'shape': (2,)}");
  };
  CHECK(says(with_type("'>f4'"), "big-endian"));
  CHECK(says(with_type("'<f8'"), "must be float16"));
  CHECK(says(with_type("'<V2'"), "bfloat16"));
  CHECK(says(with_type("'<i4'"), "holds '<i4'"));
  CHECK(says(with_type("[('a', '<f4')]"), "structured"));
  CHECK(says(with_type("f4"), "no quoted text"));

  const auto with_shape = [&](const std::string& shape) {
    return header_complaint("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}");
  };
  CHECK(with_shape("(2,)").empty());
  CHECK(with_shape("(2)").empty());
  CHECK(says(with_shape("2"), "'('"));
  CHECK(says(with_shape("(2"), "')'"));
  CHECK(says(with_shape("(2 2)"), "')'"));
  CHECK(says(with_shape("(-2, -1)"), "negative dimension -2"));
  CHECK(says(with_shape("(two,)"), "no number"));
  CHECK(says(with_shape("(99999999999999999999,)"), "beyond 64 bits"));
  CHECK(says(with_shape("(4611686018427387904, 4611686018427387904)"), "beyond 64 bits"));
  // 2^62 + 2 elements of 4 bytes are 8 bytes modulo 2^64.
  CHECK(says(with_shape("(4611686018427387906,)"), "beyond 64 bits"));

  CHECK(says(header_complaint("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1)}"),
             "Fortran order"));
  CHECK(says(header_complaint("{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 1)}"),
             "neither True nor False"));
  CHECK(says(header_complaint("{'descr': '<f4', 'shape': (2,)}"), "no field 'fortran_order'"));
  CHECK(says(header_complaint("{'fortran_order': False, 'shape': (2,)}"), "no field 'descr'"));
  CHECK(says(header_complaint("{'descr': '<f4', 'fortran_order': False}"), "no field 'shape'"));
  CHECK(says(header_complaint("{'descr': '<f4', 'descr': '<f4'}"), "'descr' twice"));
  CHECK(says(header_complaint("{'order': 'C'}"), "unknown field 'order'"));
  CHECK(says(header_complaint("{'descr': '<f4"), "without end"));
  CHECK(says(header_complaint("{'descr' '<f4'}"), "':'"));
  CHECK(says(header_complaint(""), "'{'"));
  CHECK(says(header_complaint(plain_header + "{}"), "behind its dictionary"));
}

}  // namespace npy_test
