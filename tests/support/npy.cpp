// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

namespace kvevict_test {
namespace {

static_assert(std::endian::native == std::endian::little, "the data files are little endian");

std::int64_t item_size(NpyType type) {
  switch (type) {
    case NpyType::float16:
      return 2;
    case NpyType::float32:
    case NpyType::int32:
      return 4;
    case NpyType::float64:
    case NpyType::int64:
      return 8;
  }
  throw std::logic_error("unknown array type");
}

template <class Stored, class Out>
std::vector<Out> convert(const std::vector<std::byte>& bytes) {
  std::vector<Out> out(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Out>(value);
  }
  return out;
}

template <class Out>
std::vector<Out> convert_float16(const std::vector<std::byte>& bytes) {
  std::vector<Out> out;
  out.reserve(bytes.size() / 2);
  for (const std::uint16_t bits : convert<std::uint16_t, std::uint16_t>(bytes)) {
    out.push_back(static_cast<Out>(float16_value(bits)));
  }
  return out;
}

// The header is a Python dictionary literal in a fixed form; this reads the three known fields.
class Header {
 public:
  Header(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {}

  NpyType type() const {
    const std::string descr = quoted(after("'descr':"));
    if (descr == "<f2") return NpyType::float16;
    if (descr == "<f4") return NpyType::float32;
    if (descr == "<f8") return NpyType::float64;
    if (descr == "<i4") return NpyType::int32;
    if (descr == "<i8") return NpyType::int64;
    fail("type '" + descr + "' is none of <f2 <f4 <f8 <i4 <i8");
  }

  void require_c_order() const {
    if (text_.compare(after("'fortran_order':"), 5, "False") != 0) fail("not in C order");
  }

  std::vector<std::int64_t> shape() const {
    std::size_t at = after("'shape':");
    if (at >= text_.size() || text_[at] != '(') fail("the shape is not a tuple");
    ++at;
    std::vector<std::int64_t> dims;
    while (at < text_.size() && text_[at] != ')') {
      if (text_[at] == ',' || text_[at] == ' ') {
        ++at;
      } else {
        dims.push_back(number(at));
      }
    }
    if (at >= text_.size()) fail("the shape does not end");
    return dims;
  }

 private:
  std::size_t after(const std::string& key) const {
    std::size_t at = text_.find(key);
    if (at == std::string::npos) fail("no " + key + " in the header");
    at += key.size();
    while (at < text_.size() && text_[at] == ' ') ++at;
    return at;
  }

  std::string quoted(std::size_t at) const {
    const std::size_t end = text_.find('\'', at + 1);
    if (at >= text_.size() || text_[at] != '\'' || end == std::string::npos) {
      fail("the type is not a string");
    }
    return text_.substr(at + 1, end - at - 1);
  }

  std::int64_t number(std::size_t& at) const {
    std::int64_t value = 0;
    const std::size_t start = at;
    for (; at < text_.size() && text_[at] >= '0' && text_[at] <= '9'; ++at) {
      if (value > std::numeric_limits<std::int64_t>::max() / 10 - 1) fail("a dimension overflows");
      value = value * 10 + (text_[at] - '0');
    }
    if (at == start) fail("a dimension is not a number");
    return value;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(name_ + ": " + what);
  }

  std::string text_;
  std::string name_;
};

}  // namespace

float float16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1f) {
    return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
}

NpyArray::NpyArray(NpyType type, std::vector<std::int64_t> shape, std::vector<std::byte> bytes)
    : type_(type), shape_(std::move(shape)), bytes_(std::move(bytes)) {}

std::int64_t NpyArray::size() const {
  return static_cast<std::int64_t>(bytes_.size()) / item_size(type_);
}

std::vector<float> NpyArray::values_float() const {
  if (type_ == NpyType::float16) return convert_float16<float>(bytes_);
  if (type_ == NpyType::float32) return convert<float, float>(bytes_);
  throw std::runtime_error("the array does not hold float16 or float32");
}

std::vector<double> NpyArray::values_double() const {
  switch (type_) {
    case NpyType::float16:
      return convert_float16<double>(bytes_);
    case NpyType::float32:
      return convert<float, double>(bytes_);
    case NpyType::float64:
      return convert<double, double>(bytes_);
    case NpyType::int32:
      return convert<std::int32_t, double>(bytes_);
    case NpyType::int64:
      return convert<std::int64_t, double>(bytes_);
  }
  throw std::logic_error("unknown array type");
}

std::vector<std::int32_t> NpyArray::values_int32() const {
  if (type_ != NpyType::int32) throw std::runtime_error("the array does not hold int32");
  return convert<std::int32_t, std::int32_t>(bytes_);
}

std::vector<std::int64_t> NpyArray::values_int64() const {
  if (type_ == NpyType::int32) return convert<std::int32_t, std::int64_t>(bytes_);
  if (type_ == NpyType::int64) return convert<std::int64_t, std::int64_t>(bytes_);
  throw std::runtime_error("the array does not hold int32 or int64");
}

std::vector<std::uint16_t> NpyArray::bits_float16() const {
  if (type_ != NpyType::float16) throw std::runtime_error("the array does not hold float16");
  return convert<std::uint16_t, std::uint16_t>(bytes_);
}

NpyArray parse_npy(const std::vector<std::byte>& file, const std::string& name) {
  constexpr std::size_t prefix = 10;  // magic, version, header length
  const auto fail = [&name](const std::string& what) {
    throw std::runtime_error(name + ": " + what);
  };
  if (file.size() < prefix || std::memcmp(file.data(), "\x93NUMPY", 6) != 0) {
    fail("not a NumPy file");
  }
  if (file[6] != std::byte{1} || file[7] != std::byte{0}) fail("not format version 1.0");
  const std::size_t length =
      std::to_integer<std::size_t>(file[8]) | (std::to_integer<std::size_t>(file[9]) << 8);
  if (file.size() < prefix + length) fail("the header is cut off");

  const Header header(std::string(reinterpret_cast<const char*>(file.data()) + prefix, length),
                      name);
  header.require_c_order();
  const NpyType type = header.type();
  const std::vector<std::int64_t> shape = header.shape();

  const auto data_bytes = static_cast<std::int64_t>(file.size() - prefix - length);
  std::int64_t want = item_size(type);
  for (const std::int64_t dim : shape) {
    if (dim != 0 && want > std::numeric_limits<std::int64_t>::max() / dim) {
      fail("the shape overflows");
    }
    want *= dim;
  }
  if (data_bytes != want) {
    fail(std::to_string(data_bytes) + " bytes of data, the shape needs " + std::to_string(want));
  }
  const auto begin = file.begin() + static_cast<std::ptrdiff_t>(prefix + length);
  return {type, shape, std::vector<std::byte>(begin, file.end())};
}

NpyArray read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
  std::vector<std::byte> bytes(static_cast<std::size_t>(in.tellg()));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return parse_npy(bytes, path);
}

}  // namespace kvevict_test
