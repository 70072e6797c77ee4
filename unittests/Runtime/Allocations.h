//===- Allocations.h - what a test allocates, and what fails to -----------===//
//
// operator new is replaced for the whole test binary, and malloc counted.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace kiln::testing {

/// This thread's calls of operator new, malloc, calloc and realloc so far; not
/// those that other shared libraries make.
uint64_t allocationCount();

/// While it lives, operator new fails in this thread after \p count calls.
class AllocationsFail {
public:
  explicit AllocationsFail(int64_t count);
  ~AllocationsFail();
  AllocationsFail(const AllocationsFail &) = delete;
  AllocationsFail &operator=(const AllocationsFail &) = delete;
};

} // namespace kiln::testing
