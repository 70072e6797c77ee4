// operator new that counts, and fails when it is told to; malloc, which LLVM's
// vectors call, counts as well (the linker's --wrap).
#include "Runtime/Allocations.h"

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
// LLVM is built without exceptions: memory of its functions leaks when one
// passes through them.
static void ignoreLeaks(bool on) { on ? __lsan_disable() : __lsan_enable(); }
#else
static void ignoreLeaks(bool) {}
#endif

extern "C" {
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t number, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
// They are visible, since the linker gives them to shared libraries, too.
[[gnu::visibility("default")]] void *__wrap_malloc(size_t bytes);
[[gnu::visibility("default")]] void *__wrap_calloc(size_t number, size_t bytes);
[[gnu::visibility("default")]] void *__wrap_realloc(void *memory, size_t bytes);
} // extern "C"

/// Allocations that this thread has made.
static thread_local uint64_t count = 0;
/// The calls that still succeed; negative: any number.
static thread_local int64_t left = -1;

static void *allocate(size_t bytes) {
  ++count;
  if (left == 0)
    return nullptr;
  if (left > 0)
    --left;
  return __real_malloc(bytes ? bytes : 1);
}

extern "C" {
void *__wrap_malloc(size_t bytes) {
  ++count;
  return __real_malloc(bytes);
}
void *__wrap_calloc(size_t number, size_t bytes) {
  ++count;
  return __real_calloc(number, bytes);
}
void *__wrap_realloc(void *memory, size_t bytes) {
  ++count;
  return __real_realloc(memory, bytes);
}
} // extern "C"

// It is out of line, since GCC reports a mismatch if it inlines one half of a
// pair.
[[gnu::noinline]] void *operator new(size_t bytes) {
  if (void *memory = allocate(bytes))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void *operator new(size_t bytes,
                                     const std::nothrow_t &) noexcept {
  return allocate(bytes);
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}

namespace kiln::testing {

uint64_t allocationCount() { return count; }

AllocationsFail::AllocationsFail(int64_t allowed) {
  ignoreLeaks(true);
  left = allowed;
}
AllocationsFail::~AllocationsFail() {
  left = -1;
  ignoreLeaks(false);
}

} // namespace kiln::testing
