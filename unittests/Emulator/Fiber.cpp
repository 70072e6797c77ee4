//===- Fiber.cpp - x86-64, System V calls ---------------------------------===//
#include "Emulator/Fiber.h"

#include <memory>
#include <vector>

/// Saves what a call has to preserve on this stack, of which \p from gets the
/// top, and goes on with the stack \p to.
extern "C" void kilnSwitchStack(void **from, void *to);
asm(R"(
.text
.globl kilnSwitchStack
.hidden kilnSwitchStack
.type kilnSwitchStack, @function
kilnSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kilnSwitchStack, .-kilnSwitchStack
)");

namespace kiln::emulated {

static constexpr size_t kStackBytes = 256 << 10;
static constexpr int kSavedRegisters = 6;

static std::vector<std::unique_ptr<std::byte[]>> &freeStacks() {
  static std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

Fiber::~Fiber() {
  if (stack)
    freeStacks().emplace_back(stack);
}

void Fiber::start(void (*function)()) {
  if (!stack) {
    if (freeStacks().empty())
      freeStacks().emplace_back(new std::byte[kStackBytes]);
    stack = freeStacks().back().release();
    freeStacks().pop_back();
  }
  // A return address for the function, which never returns, then what the
  // switch pops: the stack is aligned as behind a call.
  auto end = reinterpret_cast<uintptr_t>(stack + kStackBytes) & ~uintptr_t(15);
  void **words = reinterpret_cast<void **>(end) - 2;
  *--words = nullptr;
  *--words = reinterpret_cast<void *>(function);
  for (int i = 0; i < kSavedRegisters; ++i)
    *--words = nullptr;
  top = words;
}

void Fiber::resume() { kilnSwitchStack(&resumerTop, top); }
void Fiber::suspend() { kilnSwitchStack(&top, resumerTop); }

} // namespace kiln::emulated
