//===- MemoryBound.cpp ----------------------------------------------------===//
#include "Kernel/MemoryBound.h"

namespace kiln {

bool isMemoryBound(const KernelFamily &family, const Problem &problem) {
  // Since Volta, plain fp32 arithmetic alone does 10 and more operations in the
  // time of a byte of DRAM.
  constexpr double kFewOpsPerByte = 8;
  return family.flops(problem) <
         kFewOpsPerByte * family.compulsoryBytes(problem);
}

} // namespace kiln
