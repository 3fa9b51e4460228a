// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvevict/core/config.hpp"
#include "kvevict/core/error.hpp"

namespace kvevict {

/// Version of the blobs that this library writes and the only one that it reads.
inline constexpr std::uint32_t state_blob_version = 1;

namespace detail {

inline constexpr char state_blob_magic[8] = {'k', 'v', 'e', 'v', 'i', 'c', 't', '\0'};
inline constexpr std::size_t state_blob_header = sizeof state_blob_magic + 4 + 8;

inline constexpr auto crc32_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1u) != 0 ? 0xedb88320u : 0u);
    }
    table[i] = value;
  }
  return table;
}();

/// CRC-32 of IEEE 802.3, the one of zip and PNG.
inline std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ crc32_table[(crc ^ static_cast<std::uint32_t>(byte)) & 0xffu];
  }
  return ~crc;
}

template <std::size_t Size>
using UnsignedOf = std::conditional_t<Size == 4, std::uint32_t, std::uint64_t>;

}  // namespace detail

/// Writes what a state holds to bytes that any machine of any byte order reads back:
///
///   magic "kvevict\0" | version, 4 bytes | length of the payload, 8 bytes | payload | CRC-32 of
///   all before it, 4 bytes
///
/// Everything is little-endian; integers take 8 bytes, a text its length and its bytes, an array
/// its length and its elements. The payload begins with the kind of state.
class StateWriter {
 public:
  explicit StateWriter(std::string_view kind) {
    bytes_.resize(detail::state_blob_header);
    text(kind);
  }

  void integer(std::int64_t value) { put(value); }
  void number(double value) { put(value); }
  void text(std::string_view value) {
    integer(static_cast<std::int64_t>(value.size()));
    for (const char c : value) bytes_.push_back(static_cast<std::byte>(c));
  }
  /// Elements of 4 or 8 bytes.
  template <class T>
  void array(const T* values, std::int64_t count) {
    integer(count);
    bytes_.reserve(bytes_.size() + static_cast<std::size_t>(count) * sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) put(values[i]);
  }

  /// The blob; the writer is spent.
  std::vector<std::byte> finish() {
    std::vector<std::byte> blob = std::move(bytes_);
    const std::uint64_t payload = blob.size() - detail::state_blob_header;
    std::memcpy(blob.data(), detail::state_blob_magic, sizeof detail::state_blob_magic);
    store(state_blob_version, blob.data() + sizeof detail::state_blob_magic);
    store(payload, blob.data() + sizeof detail::state_blob_magic + 4);
    const std::uint32_t crc = detail::crc32(blob);
    blob.resize(blob.size() + 4);
    store(crc, blob.data() + blob.size() - 4);
    return blob;
  }

 private:
  template <class T>
  void put(T value) {
    using Bits = detail::UnsignedOf<sizeof(T)>;
    static_assert(sizeof(T) == sizeof(Bits));
    bytes_.resize(bytes_.size() + sizeof(T));
    store(detail::bit_cast<Bits>(value), bytes_.data() + bytes_.size() - sizeof(T));
  }

  template <class Bits>
  static void store(Bits bits, std::byte* to) {
    for (std::size_t i = 0; i < sizeof(Bits); ++i) to[i] = static_cast<std::byte>(bits >> (8 * i));
  }

  std::vector<std::byte> bytes_;
};

/// Reads what a StateWriter wrote. The constructor checks magic, version, length, checksum and
/// kind; every read checks that there is so much. Throws invalid_argument, or unsupported for
/// another version; a blob that is damaged anywhere is refused before any of it is used.
class StateReader {
 public:
  StateReader(std::span<const std::byte> blob, std::string_view kind) {
    const auto size = static_cast<std::int64_t>(blob.size());
    constexpr auto least = static_cast<std::int64_t>(detail::state_blob_header + 4);
    require(size >= least, "blob.size", size, ">=", least);
    require(
        std::memcmp(blob.data(), detail::state_blob_magic, sizeof detail::state_blob_magic) == 0,
        "blob.magic", "another one", "that of a kvevict state");
    left_ = blob.subspan(sizeof detail::state_blob_magic);
    const auto version = get<std::uint32_t>();
    const auto payload = get<std::uint64_t>();
    require(version == state_blob_version, "blob.version", version, "equal to", state_blob_version,
            ErrorKind::unsupported);
    require(payload == static_cast<std::uint64_t>(size - least), "blob.payload", payload,
            "the bytes between header and checksum,", size - least);
    left_ = blob.last(4);
    const auto crc = get<std::uint32_t>();
    require(crc == detail::crc32(blob.first(blob.size() - 4)), "blob.checksum", crc,
            "that of the blob: it is damaged");
    left_ = blob.subspan(detail::state_blob_header, static_cast<std::size_t>(payload));
    expect("blob.kind", kind);
  }

  std::int64_t integer() { return get<std::int64_t>(); }
  double number() { return get<double>(); }
  std::string text() {
    const auto count = static_cast<std::size_t>(length(1));
    std::string value(count, '\0');
    if (count > 0) std::memcpy(value.data(), left_.data(), count);
    left_ = left_.subspan(count);
    return value;
  }
  /// The elements of an array.
  template <class T>
  std::vector<T> array() {
    std::vector<T> values(static_cast<std::size_t>(length(sizeof(T))));
    for (T& value : values) value = get<T>();
    return values;
  }
  /// The same, of which there must be `count`; `name` is that of their number.
  template <class T>
  std::vector<T> array(std::string_view name, std::int64_t count) {
    std::vector<T> values = array<T>();
    const auto held = static_cast<std::int64_t>(values.size());
    require(held == count, name, held, "equal to", count);
    return values;
  }

  /// An integer in [low, high].
  std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high) {
    const std::int64_t value = integer();
    require(value >= low, name, value, ">=", low);
    require(value <= high, name, value, "<=", high);
    return value;
  }

  /// Throws unless what comes next is this: what the blob was made for, against what reads it.
  void expect(std::string_view name, std::string_view value) {
    const std::string held = text();
    require(held == value, name, detail::quoted(held), detail::quoted(value));
  }
  void expect(std::string_view name, std::int64_t value) {
    const std::int64_t held = integer();
    require(held == value, name, held, "equal to", value);
  }
  void expect(std::string_view name, double value) {
    const double held = number();
    require(detail::bit_cast<std::uint64_t>(held) == detail::bit_cast<std::uint64_t>(value), name,
            held, "equal to", value);
  }

  /// Throws unless everything was read.
  void finish() const { require(left_.empty(), "blob.unread", left_.size(), "0"); }

 private:
  template <class T>
  T get() {
    using Bits = detail::UnsignedOf<sizeof(T)>;
    static_assert(sizeof(T) == sizeof(Bits));
    require(left_.size() >= sizeof(T), "blob.unread", left_.size(), ">=", sizeof(T));
    Bits bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) bits |= static_cast<Bits>(left_[i]) << (8 * i);
    left_ = left_.subspan(sizeof(T));
    return detail::bit_cast<T>(bits);
  }

  /// The length of what follows, of elements of that size.
  std::int64_t length(std::size_t element) {
    const std::int64_t count = integer();
    const auto most = static_cast<std::int64_t>(left_.size() / element);
    require(count >= 0 && count <= most, "blob.array", count,
            "in [0, elements left], left =", most);
    return count;
  }

  std::span<const std::byte> left_;
};

namespace detail {

/// A blob of one state alone: what its `write` puts.
template <class R, class State>
std::vector<std::byte> save_state(R& res, const State& state, std::string_view kind) {
  StateWriter writer(kind);
  state.write(res, writer);
  return writer.finish();
}

/// Replaces a state by the one in a blob of `save_state`, read by `fresh`, which has the same shape
/// and has observed nothing. What throws leaves the state as it was.
template <class R, class State>
void restore_state(R& res, std::span<const std::byte> blob, std::string_view kind, State fresh,
                   State& state) {
  StateReader reader(blob, kind);
  fresh.read(res, reader);
  reader.finish();
  state = std::move(fresh);
}

}  // namespace detail

}  // namespace kvevict
