//===- Allocations.h - counts allocations, and lets them fail -------------===//
//
// operator new is replaced for the whole test binary, and malloc counted.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace kiln::testing {

/// This thread's calls of operator new, malloc, calloc and realloc so far;
/// calls from other shared libraries are not counted.
uint64_t allocationCount();

/// Lets operator new fail in this thread after \p count calls, while it lives.
class AllocationsFail {
public:
  explicit AllocationsFail(int64_t count);
  ~AllocationsFail();
  AllocationsFail(const AllocationsFail &) = delete;
  AllocationsFail &operator=(const AllocationsFail &) = delete;
};

} // namespace kiln::testing
