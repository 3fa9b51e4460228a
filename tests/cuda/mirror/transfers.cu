// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/transfers.cuh"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kvevict/cuda/status.cuh"

namespace kvevict_test {

using kvevict::cuda::require_success;

namespace {

constexpr std::size_t alignment = 16;

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

Transfers::~Transfers() {
  // Whatever was enqueued may still use the memory; errors have been reported where they arose.
  static_cast<void>(cudaStreamSynchronize(stream_));
  for (std::byte* const allocation : allocations_) static_cast<void>(cudaFree(allocation));
  for (const Result& result : results_) static_cast<void>(cudaFreeHost(result.locked));
}

std::byte* Transfers::allocate(std::size_t bytes) {
  void* memory = nullptr;
  require_success(cudaMalloc(&memory, bytes), "cudaMalloc");
  allocations_.push_back(static_cast<std::byte*>(memory));
  return allocations_.back();
}

const void* Transfers::place(const void* host, std::size_t bytes, bool written) {
  if (host == nullptr) return nullptr;
  const std::uintptr_t begin = address_of(host);
  if (!translating_) {
    if (bytes > 0) spans_.push_back({begin, begin + bytes, written});
    return host;
  }
  // An array of no elements is not null, but nobody may touch it.
  if (bytes == 0) return allocate(1) + 1;
  const auto after = std::upper_bound(
      spans_.begin(), spans_.end(), begin,
      [](std::uintptr_t address, const Span& span) { return address < span.begin; });
  const Span& span = *(after - 1);
  return span.device + (begin - span.begin);
}

const void* Transfers::store(const void* values, std::size_t bytes) {
  if (!translating_) return values;
  if (bytes == 0) return allocate(1) + 1;
  std::byte* device = allocate(bytes);
  require_success(cudaMemcpyAsync(device, values, bytes, cudaMemcpyHostToDevice, stream_),
                  "cudaMemcpyAsync");
  return device;
}

void* Transfers::place_result(void* host, std::size_t bytes) {
  if (!translating_ || bytes == 0) return host;
  void* locked = nullptr;
  require_success(cudaMallocHost(&locked, bytes), "cudaMallocHost");
  results_.push_back({host, locked, bytes});
  std::memset(locked, 0xff, bytes);
  return locked;
}

void Transfers::deliver() const {
  for (const Result& result : results_) std::memcpy(result.host, result.locked, result.bytes);
}

void Transfers::upload() {
  std::sort(spans_.begin(), spans_.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Span> merged;
  for (const Span& span : spans_) {
    if (merged.empty() || span.begin >= merged.back().end) {
      merged.push_back(span);
      continue;
    }
    merged.back().end = std::max(merged.back().end, span.end);
    merged.back().written = merged.back().written || span.written;
  }
  spans_ = std::move(merged);
  for (Span& span : spans_) {
    const std::size_t shift = span.begin % alignment;
    span.device = allocate(shift + span.bytes()) + shift;
    require_success(cudaMemcpyAsync(span.device, reinterpret_cast<const void*>(span.begin),
                                    span.bytes(), cudaMemcpyHostToDevice, stream_),
                    "cudaMemcpyAsync");
  }
  translating_ = true;
}

void Transfers::download() {
  std::vector<std::byte> memory;
  for (const Span& span : spans_) {
    memory.resize(span.bytes());
    require_success(
        cudaMemcpyAsync(memory.data(), span.device, span.bytes(), cudaMemcpyDeviceToHost, stream_),
        "cudaMemcpyAsync");
    require_success(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    void* host = reinterpret_cast<void*>(span.begin);
    if (span.written) {
      std::memcpy(host, memory.data(), span.bytes());
    } else if (std::memcmp(host, memory.data(), span.bytes()) != 0) {
      throw std::logic_error("a device op has written to memory that it was to read only");
    }
  }
}

}  // namespace kvevict_test
