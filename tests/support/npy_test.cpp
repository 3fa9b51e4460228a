// SPDX-License-Identifier: Apache-2.0
#include "support/npy.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace kvevict_test;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

// A file of format 1.0 around a header text and data bytes.
std::string file_of(const std::string& header, const std::string& data) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string header_of(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }   \n";
}

NpyArray parse(const std::string& file) { return parse_npy(bytes_of(file), "memory"); }

std::string error_of(const std::string& file) {
  try {
    parse(file);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("arrays of every stored type are read") {
  const NpyArray f4 = parse(file_of(header_of("<f4", "(2, 1, 2)"), raw<float>({1, -2, 3.5F, 0})));
  CHECK(f4.shape() == std::vector<std::int64_t>{2, 1, 2});
  CHECK(f4.values_float() == std::vector<float>{1, -2, 3.5F, 0});
  CHECK(f4.values_double() == std::vector<double>{1, -2, 3.5, 0});

  const NpyArray f8 = parse(file_of(header_of("<f8", "(1,)"), raw<double>({0.1})));
  CHECK(f8.values_double() == std::vector<double>{0.1});

  const NpyArray i4 = parse(file_of(header_of("<i4", "(3,)"), raw<std::int32_t>({-1, 0, 7})));
  CHECK(i4.values_int32() == std::vector<std::int32_t>{-1, 0, 7});
  CHECK(i4.values_int64() == std::vector<std::int64_t>{-1, 0, 7});

  const std::int64_t big = std::int64_t{1} << 40;
  const NpyArray i8 = parse(file_of(header_of("<i8", "()"), raw<std::int64_t>({big})));
  CHECK(i8.shape().empty());
  CHECK(i8.values_int64() == std::vector<std::int64_t>{big});

  const NpyArray f2 =
      parse(file_of(header_of("<f2", "(2,)"), raw<std::uint16_t>({0x3c00, 0xc000})));
  CHECK(f2.values_float() == std::vector<float>{1, -2});
  CHECK(f2.bits_float16() == std::vector<std::uint16_t>{0x3c00, 0xc000});
}

TEST_CASE("binary16 values are exact at every kind of number") {
  CHECK(float16_value(0x0000) == 0.0F);
  CHECK(std::signbit(float16_value(0x8000)));
  CHECK(float16_value(0x0001) == std::ldexp(1.0F, -24));
  CHECK(float16_value(0x03ff) == std::ldexp(1023.0F, -24));
  CHECK(float16_value(0x0400) == std::ldexp(1.0F, -14));
  CHECK(float16_value(0x7bff) == 65504.0F);
  CHECK(float16_value(0xfbff) == -65504.0F);
  CHECK(std::isinf(float16_value(0x7c00)));
  CHECK(float16_value(0xfc00) < 0);
  CHECK(std::isnan(float16_value(0x7e01)));
}

TEST_CASE("an array refuses conversions that lose information") {
  const NpyArray f8 = parse(file_of(header_of("<f8", "(1,)"), raw<double>({0.1})));
  CHECK_THROWS_AS(f8.values_float(), std::runtime_error);
  CHECK_THROWS_AS(f8.values_int64(), std::runtime_error);
  CHECK_THROWS_AS(f8.bits_float16(), std::runtime_error);
  const NpyArray i8 = parse(file_of(header_of("<i8", "(1,)"), raw<std::int64_t>({5})));
  CHECK_THROWS_AS(i8.values_int32(), std::runtime_error);
  CHECK_THROWS_AS(i8.values_float(), std::runtime_error);
}

TEST_CASE("a damaged file is refused with its name and the reason") {
  const std::string good = file_of(header_of("<f4", "(2,)"), raw<float>({1, 2}));
  CHECK(error_of(good).empty());
  CHECK(error_of("") == "memory: not a NumPy file");
  CHECK(error_of("PK" + good.substr(2)) == "memory: not a NumPy file");
  CHECK(error_of(good.substr(0, 40)) == "memory: the header is cut off");
  CHECK(error_of(good.substr(0, good.size() - 1)) == "memory: 7 bytes of data, the shape needs 8");
  CHECK(error_of(good + "x") == "memory: 9 bytes of data, the shape needs 8");

  std::string version2 = good;
  version2[6] = 2;
  CHECK(error_of(version2) == "memory: not format version 1.0");

  const std::string data = raw<float>({1, 2});
  CHECK(error_of(file_of(header_of(">f4", "(2,)"), data)).find("'>f4'") != std::string::npos);
  CHECK(error_of(file_of(header_of("<f4", "2"), data)) == "memory: the shape is not a tuple");
  CHECK(error_of(file_of(header_of("<f4", "(-2,)"), data)) ==
        "memory: a dimension is not a number");
  CHECK(error_of(file_of(header_of("<f4", "(99999999999999999999,)"), data)) ==
        "memory: a dimension overflows");
  CHECK(error_of(file_of(header_of("<f4", "(4611686018427387904, 4)"), data)) ==
        "memory: the shape overflows");
  CHECK(error_of(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", data)) ==
        "memory: not in C order");
  CHECK(error_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2", data)) ==
        "memory: the shape does not end");
  CHECK_THROWS_WITH(read_npy("no_such_file.npy"), "no_such_file.npy: cannot be opened");
}
