// SPDX-License-Identifier: Apache-2.0
#include "fiber.hpp"

#include <sys/mman.h>

#include <new>

namespace kvevict_emulation {
namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;
constexpr std::size_t guard_bytes = std::size_t{64} << 10;  // a multiple of every page size

}  // namespace

Fiber::Fiber(void (*entry)()) : entry_(entry) {
  void* memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  mprotect(memory, guard_bytes, PROT_NONE);
  stack_ = static_cast<char*>(memory) + guard_bytes;
  bytes_ = stack_bytes;
  identity = sanitizer::create_identity();
  context_.prepare(stack_, bytes_, entry_);
}

Fiber::~Fiber() {
  if (entry_ != nullptr) {
    sanitizer::unpoison(stack_, bytes_);
    sanitizer::destroy_identity(identity);
    munmap(stack_ - guard_bytes, guard_bytes + bytes_);
  }
}

void Fiber::restart() {
  // Frames that were never left have left their redzones and their places in the call stack behind.
  sanitizer::unpoison(stack_, bytes_);
  fake_stack_ = nullptr;
  sanitizer::destroy_identity(identity);
  identity = sanitizer::create_identity();
  context_.prepare(stack_, bytes_, entry_);
}

void Fiber::switch_to(Fiber& next) {
  sanitizer::leave_stack(&fake_stack_, next.stack_, next.bytes_);
  context_.switch_to(next.context_);
  const void* left = nullptr;
  std::size_t bytes = 0;
  sanitizer::enter_stack(fake_stack_, &left, &bytes);
}

void Fiber::entered(Fiber& host) {
  const void* left = nullptr;
  std::size_t bytes = 0;
  sanitizer::enter_stack(nullptr, &left, &bytes);
  // The very first switch comes from the host's stack and tells where that is.
  if (host.stack_ == nullptr) {
    host.stack_ = static_cast<char*>(const_cast<void*>(left));
    host.bytes_ = bytes;
  }
}

}  // namespace kvevict_emulation
