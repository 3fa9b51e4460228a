// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace mini_llama {

// A whole file mapped read-only into memory for the life of the object. Movable, not copyable; the
// bytes stay at the same address when the object moves. Another process that truncates the file
// while it is mapped makes later reads fault: that cannot be checked here.
class MappedFile {
 public:
  MappedFile() = default;

  // Throws FileError if the file cannot be opened or mapped, is empty, or is not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace mini_llama
