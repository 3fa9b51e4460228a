// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>

#include "npy_header.hpp"

namespace kvevict_score {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read as they are stored");

namespace fs = std::filesystem;

constexpr std::string_view magic = "\x93NUMPY";

/// Longest header that is believed: NumPy itself refuses to evaluate more than 10,000 characters.
constexpr std::int64_t longest_header = 1 << 16;

/// Reads a file front to back and never beyond its end.
class Reader {
 public:
  explicit Reader(const fs::path& file) : file_(file) {
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    if (!fs::exists(status)) throw FileError(file, "does not exist or cannot be reached");
    if (!fs::is_regular_file(status)) throw FileError(file, "is not a regular file");
    left_ = static_cast<std::int64_t>(fs::file_size(file, error));
    if (!error) in_.open(file, std::ios::binary);
    if (error || !in_) throw FileError(file, "cannot be opened");
  }

  std::int64_t left() const { return left_; }

  /// Throws when the file is shorter; `part` names what was to be read.
  void read(void* to, std::int64_t bytes, std::string_view part) {
    if (bytes > left_) {
      throw FileError(file_, "ends within the " + std::string(part) + ": has " +
                                 std::to_string(left_) + " bytes of " + std::to_string(bytes));
    }
    in_.read(static_cast<char*>(to), bytes);
    if (!in_) throw FileError(file_, "cannot be read");
    left_ -= bytes;
  }

 private:
  fs::path file_;
  std::ifstream in_;
  std::int64_t left_ = 0;
};

std::string read_header_text(Reader& reader, const fs::path& file) {
  unsigned char start[8] = {};
  reader.read(start, std::min<std::int64_t>(reader.left(), sizeof start), "magic number");
  if (std::memcmp(start, magic.data(), magic.size()) != 0) {
    const bool archive = start[0] == 'P' && start[1] == 'K';
    throw FileError(file, archive ? "is an archive (.npz), must be one array (.npy)"
                                  : "is not a NumPy file (.npy)");
  }
  const int major = start[6];
  if (major < 1 || major > 3 || start[7] != 0) {
    throw FileError(file, "is of NumPy format " + std::to_string(major) + "." +
                              std::to_string(start[7]) + ", must be 1.0, 2.0 or 3.0");
  }
  unsigned char length_bytes[4] = {};
  reader.read(length_bytes, major == 1 ? 2 : 4, "length of the header");
  std::int64_t length = 0;
  for (int i = 3; i >= 0; --i) length = length * 256 + length_bytes[i];
  if (length > longest_header) {
    throw FileError(file, "has a header of " + std::to_string(length) + " bytes, must be at most " +
                              std::to_string(longest_header));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  reader.read(text.data(), length, "header");
  return text;
}

/// What to do about an element type that is not read.
std::string type_complaint(const std::string& descr) {
  const std::string found = "holds '" + descr + "'";
  if (descr.size() == 3 && descr[0] == '>') {
    return found + ", big-endian: must be little-endian, as by a.astype('<" + descr.substr(1) +
           "')";
  }
  if (descr == "<V2" || descr == "|V2" || descr == "bfloat16") {
    return found + " (bfloat16?): must be float16 or float32, as by a.astype('float32')";
  }
  return found + ": must be float16 ('<f2') or float32 ('<f4'), as by a.astype('float32')";
}

std::int64_t elements_of(const NpyHeader& header, std::int64_t element_size, const fs::path& file) {
  std::int64_t count = 1;
  for (std::int64_t dim : header.shape) {
    if (dim != 0 && count > std::numeric_limits<std::int64_t>::max() / element_size / dim) {
      throw FileError(file, "has the shape " + shape_text(header.shape) + ", beyond 64 bits");
    }
    count *= dim;
  }
  return count;
}

template <class T>
std::vector<T> read_values(Reader& reader, const NpyHeader& header, const fs::path& file) {
  const std::int64_t size = sizeof(T);
  const std::int64_t count = elements_of(header, size, file);
  if (reader.left() != count * size) {
    throw FileError(file, "holds " + std::to_string(reader.left()) + " bytes of data, its shape " +
                              shape_text(header.shape) + " needs " + std::to_string(count * size));
  }
  std::vector<T> values(static_cast<std::size_t>(count));
  reader.read(values.data(), count * size, "data");
  return values;
}

template <class T>
void write_values(const fs::path& file, std::string_view descr, std::span<const T> values,
                  std::span<const std::int64_t> shape) {
  std::string header = npy_header_text(descr, {shape.begin(), shape.end()});
  const std::size_t prefix = magic.size() + 4;
  // The format asks for data aligned to 64 bytes: spaces, then a line end.
  header.append(63 - (prefix + header.size()) % 64, ' ').push_back('\n');
  const auto length = static_cast<std::uint16_t>(header.size());
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) throw FileError(file, "cannot be opened for writing");
  out << magic << '\x01' << '\0' << static_cast<char>(length & 0xff)
      << static_cast<char>(length >> 8) << header;
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size_bytes()));
  if (!out.flush()) throw FileError(file, "cannot be written");
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::int64_t dim : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

FloatArray read_npy(const fs::path& file) {
  Reader reader(file);
  const std::string text = read_header_text(reader, file);
  NpyHeader header;
  try {
    header = parse_npy_header(text);
  } catch (const HeaderError& error) {
    throw FileError(file, error.what());
  }
  if (header.fortran_order) {
    throw FileError(file, "is in Fortran order, must be in C order, as by np.ascontiguousarray(a)");
  }
  FloatArray array{file.string(), header.shape, {}};
  if (header.descr == "<f4") {
    array.values = read_values<float>(reader, header, file);
  } else if (header.descr == "<f2") {
    array.values = read_values<kvevict::half>(reader, header, file);
  } else {
    throw FileError(file, type_complaint(header.descr));
  }
  return array;
}

void write_npy(const fs::path& file, std::span<const float> values,
               std::span<const std::int64_t> shape) {
  write_values(file, "<f4", values, shape);
}

void write_npy(const fs::path& file, std::span<const std::int32_t> values,
               std::span<const std::int64_t> shape) {
  write_values(file, "<i4", values, shape);
}

}  // namespace kvevict_score
