// SPDX-License-Identifier: Apache-2.0
#include "context.hpp"

#if defined(KVEVICT_EMULATION_UCONTEXT)

namespace kvevict_emulation {

void Context::prepare(char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&state_);
  state_.uc_stack.ss_sp = stack;
  state_.uc_stack.ss_size = bytes;
  state_.uc_link = nullptr;
  makecontext(&state_, entry, 0);
}

void Context::switch_to(Context& next) { swapcontext(&state_, &next.state_); }

}  // namespace kvevict_emulation

#else

// Saves the registers that a called function must preserve, exchanges the stacks and returns there.
extern "C" void kvevict_emulation_switch(void** save, void* load);
asm(R"(
.text
.globl kvevict_emulation_switch
.type kvevict_emulation_switch,@function
kvevict_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kvevict_emulation_switch,.-kvevict_emulation_switch
)");

namespace kvevict_emulation {

void Context::prepare(char* stack, std::size_t bytes, void (*entry)()) {
  // The frame that the switch pops: six registers and the entry. Above it a null return address,
  // 8 bytes off a multiple of 16 as after a call, ends the walk of an unwinder.
  constexpr int saved_registers = 6;
  void** top = reinterpret_cast<void**>(stack + bytes) - 1;
  *top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < saved_registers; ++i) {
    *--top = nullptr;
  }
  stack_pointer_ = top;
}

void Context::switch_to(Context& next) {
  kvevict_emulation_switch(&stack_pointer_, next.stack_pointer_);
}

}  // namespace kvevict_emulation

#endif
