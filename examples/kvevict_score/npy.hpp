// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvevict/core/element.hpp"

namespace kvevict_score {

/// A file that cannot be read, written or used. The message names the file, what was found in it
/// and what it should be.
class FileError : public std::runtime_error {
 public:
  FileError(const std::filesystem::path& file, std::string_view what)
      : std::runtime_error(file.string() + ": " + std::string(what)) {}
};

/// An array of floats as it was stored, in C order; float16 stays float16.
struct FloatArray {
  std::string file;  ///< for messages
  std::vector<std::int64_t> shape;
  std::variant<std::vector<float>, std::vector<kvevict::half>> values;

  bool is_half() const { return values.index() == 1; }
};

/// "[3, 256, 64]"
std::string shape_text(std::span<const std::int64_t> shape);

/// Reads a NumPy file of format 1.0, 2.0 or 3.0 that holds float16 or float32, little endian, in C
/// order. Every field of the header is checked, and that the file holds exactly the bytes that the
/// shape needs, before memory is allocated. Throws FileError.
FloatArray read_npy(const std::filesystem::path& file);

/// Write a NumPy file of format 1.0: little endian, C order. Throw FileError.
void write_npy(const std::filesystem::path& file, std::span<const float> values,
               std::span<const std::int64_t> shape);
void write_npy(const std::filesystem::path& file, std::span<const std::int32_t> values,
               std::span<const std::int64_t> shape);

}  // namespace kvevict_score
