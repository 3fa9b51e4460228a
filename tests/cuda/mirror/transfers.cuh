// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvevict_test {

/// The host memory that a call refers to, in device memory for the time of the call. Used in two
/// passes over the call's arguments: the first notes which memory they refer to, `upload` copies
/// it, the second translates addresses. Memory that several arguments refer to is one allocation
/// on the device as well, so that arguments overlap there as they do here; all other memory has
/// allocations of its own, of exactly its size, so that an emulator finds what reaches beyond.
/// Addresses are congruent modulo 16: what is misaligned here is so there.
class Transfers {
 public:
  explicit Transfers(cudaStream_t stream) : stream_(stream) {}
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers();

  /// `count` elements in host memory. Those that are not const are copied back. In the first pass
  /// the result is an address that nobody may use.
  template <class T>
  T* array(T* host, std::int64_t count) {
    return static_cast<T*>(const_cast<void*>(
        place(host, static_cast<std::size_t>(count) * sizeof(T), !std::is_const_v<T>)));
  }

  /// A copy of host values, which need not live on.
  template <class T>
  const T* stored(const std::vector<T>& values) {
    return static_cast<const T*>(store(values.data(), values.size() * sizeof(T)));
  }

  /// Host memory that lives as long as this object.
  const std::int64_t* kept(std::vector<std::int64_t> values) {
    return kept_.emplace_back(std::move(values)).data();
  }

  /// Page-locked memory that holds nothing of use, for results that the call itself brings to host
  /// memory. `deliver`, directly behind the call, hands out what is there by then: a copy that the
  /// call did not wait for comes too late.
  template <class T>
  T* result(T* host, std::int64_t count) {
    return static_cast<T*>(place_result(host, static_cast<std::size_t>(count) * sizeof(T)));
  }
  void deliver() const;

  /// Ends the first pass.
  void upload();
  bool translating() const { return translating_; }

  /// Waits for the stream, and copies everything back that may have been written. Throws
  /// std::logic_error when memory has changed that was to be read only.
  void download();

 private:
  struct Span {
    std::uintptr_t begin;
    std::uintptr_t end;
    bool written;
    std::byte* device = nullptr;

    std::size_t bytes() const { return end - begin; }
  };

  struct Result {
    void* host;
    void* locked;
    std::size_t bytes;
  };

  const void* place(const void* host, std::size_t bytes, bool written);
  const void* store(const void* values, std::size_t bytes);
  void* place_result(void* host, std::size_t bytes);
  std::byte* allocate(std::size_t bytes);

  cudaStream_t stream_;
  bool translating_ = false;
  std::vector<Span> spans_;
  std::vector<std::byte*> allocations_;
  std::vector<Result> results_;
  std::deque<std::vector<std::int64_t>> kept_;
};

}  // namespace kvevict_test
