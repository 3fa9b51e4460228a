// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvevict/core/config.hpp"
#include "kvevict/core/error.hpp"

namespace kvevict {

/// Where a workspace gets its blocks from. Blocks are aligned to `workspace_alignment`; `allocate`
/// returns null when there is no memory.
struct MemorySource {
  void* (*allocate)(void* context, std::size_t bytes) noexcept = nullptr;
  void (*release)(void* context, void* block) noexcept = nullptr;
  void* context = nullptr;

  /// The heap.
  static MemorySource heap() { return {allocate_heap, release_heap, nullptr}; }

 private:
  static constexpr auto alignment = std::align_val_t{static_cast<std::size_t>(workspace_alignment)};

  static void* allocate_heap(void*, std::size_t bytes) noexcept {
    return ::operator new(bytes, alignment, std::nothrow);
  }
  static void release_heap(void*, void* block) noexcept { ::operator delete(block, alignment); }
};

/// Scratch memory of a resources object: a bump arena of named, 256-byte-aligned carves that a
/// `WorkspaceScope` gives back. Three modes:
/// * owning (default): grows on demand from its source; when the outermost scope ends it holds one
///   block of the peak size, so that the same call a second time allocates nothing,
/// * the caller's buffer: never allocates; a carve that does not fit throws, naming itself and the
///   bytes needed so far,
/// * counting: hands out an address that nobody may touch and records the peak. An op in this mode
///   returns after its carves, so that the size query runs the same code as the computation.
class Workspace {
 public:
  explicit Workspace(const MemorySource& source = MemorySource::heap()) : source_(source) {}
  Workspace(void* buffer, std::size_t bytes)
      : mode_(Mode::borrowed), base_(static_cast<std::byte*>(buffer)), capacity_(bytes) {}
  static Workspace counter() {
    Workspace workspace;
    workspace.mode_ = Mode::counting;
    return workspace;
  }

  bool counting() const { return mode_ == Mode::counting; }
  /// Largest number of bytes in use at once so far.
  std::int64_t peak_bytes() const { return peak_; }

 private:
  friend class WorkspaceScope;
  enum class Mode { owning, borrowed, counting };

  struct Release {
    MemorySource source;
    void operator()(std::byte* p) const { source.release(source.context, p); }
  };
  using Block = std::unique_ptr<std::byte[], Release>;

  /// Null when there is no memory.
  Block make_block(std::size_t bytes) const {
    return Block(static_cast<std::byte*>(source_.allocate(source_.context, bytes)),
                 Release{source_});
  }

  static Error failure(std::string_view name, const std::string& value, const std::string& bound) {
    return Error(ErrorKind::backend, detail::joined("workspace.", name), value, bound);
  }

  std::byte* carve(std::string_view name, std::int64_t count, std::size_t element_size) {
    const auto alignment = static_cast<std::size_t>(workspace_alignment);
    const std::size_t limit = (SIZE_MAX / 4 - used_) / element_size;
    // Messages are built on failure only: a carve allocates nothing.
    if (count < 0 || static_cast<std::size_t>(count) > limit) {
      throw failure(name, detail::text_of(count) + " elements", "an addressable number of them");
    }
    const std::size_t bytes =
        (static_cast<std::size_t>(count) * element_size + alignment - 1) / alignment * alignment;
    const std::size_t begin = used_;
    std::byte* memory = nullptr;
    if (mode_ == Mode::counting) {
      memory = reinterpret_cast<std::byte*>(workspace_alignment);
    } else if (mode_ == Mode::borrowed) {
      memory = borrow(name, begin, bytes);
    } else if (base_ != nullptr && begin + bytes <= capacity_ && overflow_.empty()) {
      memory = base_ + begin;
    } else if (bytes > 0) {  // no memory is needed for nothing, and some sources have none
      memory = grow(name, bytes);
    }
    used_ += bytes;
    peak_ = std::max(peak_, static_cast<std::int64_t>(used_));
    return memory;
  }

  /// The caller's buffer need not be aligned: the first carve skips to the first aligned byte.
  std::byte* borrow(std::string_view name, std::size_t begin, std::size_t bytes) const {
    const auto alignment = static_cast<std::size_t>(workspace_alignment);
    const std::size_t skip =
        (alignment - reinterpret_cast<std::uintptr_t>(base_) % alignment) % alignment;
    const std::size_t needed = skip + begin + bytes;
    if (needed > capacity_) {
      throw failure(name, detail::text_of(capacity_) + " bytes",
                    detail::joined("at least ", detail::text_of(needed)));
    }
    return base_ + skip + begin;
  }

  std::byte* grow(std::string_view name, std::size_t bytes) {
    Block block = make_block(bytes);
    if (block == nullptr) {
      throw failure(name, detail::text_of(bytes) + " bytes", "available memory");
    }
    overflow_.push_back(std::move(block));
    return overflow_.back().get();
  }

  void release(std::size_t mark, std::size_t overflow_mark, bool outermost) noexcept {
    used_ = mark;
    overflow_.erase(overflow_.begin() + static_cast<std::ptrdiff_t>(overflow_mark),
                    overflow_.end());
    if (!outermost || mode_ != Mode::owning) return;
    if (static_cast<std::size_t>(peak_) <= capacity_) return;
    block_.reset();
    base_ = nullptr;
    capacity_ = 0;
    block_ = make_block(static_cast<std::size_t>(peak_));
    if (block_ == nullptr) return;  // the next call grows piece by piece again
    base_ = block_.get();
    capacity_ = static_cast<std::size_t>(peak_);
  }

  Mode mode_ = Mode::owning;
  MemorySource source_ = MemorySource::heap();
  Block block_ = Block(nullptr, Release{source_});
  std::vector<Block> overflow_;  // carves of the first, warming-up pass that did not fit
  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::int64_t peak_ = 0;
  int depth_ = 0;
};

/// A stretch of carves that ends together.
class WorkspaceScope {
 public:
  explicit WorkspaceScope(Workspace& workspace)
      : workspace_(workspace), mark_(workspace.used_), overflow_mark_(workspace.overflow_.size()) {
    ++workspace_.depth_;
  }
  WorkspaceScope(const WorkspaceScope&) = delete;
  WorkspaceScope& operator=(const WorkspaceScope&) = delete;
  ~WorkspaceScope() { workspace_.release(mark_, overflow_mark_, --workspace_.depth_ == 0); }

  /// `count` elements of T, uninitialised, null or not for none; not to be touched in counting
  /// mode. Throws a backend error when a borrowed buffer is too small.
  template <class T>
  T* carve(std::string_view name, std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return reinterpret_cast<T*>(workspace_.carve(name, count, sizeof(T)));
  }

 private:
  Workspace& workspace_;
  std::size_t mark_;
  std::size_t overflow_mark_;
};

}  // namespace kvevict
