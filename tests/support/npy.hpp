// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvevict_test {

enum class NpyType { float16, float32, float64, int32, int64 };

// One array of a NumPy file of format 1.0, little endian, C order.
// The values_* functions convert; they throw std::runtime_error when the stored type does not fit
// losslessly (a float64 array as float, a float array as integers).
class NpyArray {
 public:
  NpyArray(NpyType type, std::vector<std::int64_t> shape, std::vector<std::byte> bytes);

  NpyType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t dim(std::size_t axis) const { return shape_.at(axis); }
  std::int64_t size() const;

  std::vector<float> values_float() const;          // float16, float32
  std::vector<double> values_double() const;        // any stored type
  std::vector<std::int32_t> values_int32() const;   // int32
  std::vector<std::int64_t> values_int64() const;   // int32, int64
  std::vector<std::uint16_t> bits_float16() const;  // float16, as stored

 private:
  NpyType type_;
  std::vector<std::int64_t> shape_;
  std::vector<std::byte> bytes_;
};

// Reads a whole file. Throws std::runtime_error naming the file and what is wrong with it: not a
// NumPy file, another version, Fortran order, an unknown or big-endian type, a damaged header, or
// a number of bytes that does not match the shape.
NpyArray read_npy(const std::string& path);

// The same from bytes in memory; `name` stands for the file in messages.
NpyArray parse_npy(const std::vector<std::byte>& file, const std::string& name);

// The value of an IEEE binary16 bit pattern, exact.
float float16_value(std::uint16_t bits);

}  // namespace kvevict_test
