//===- KernelRoom.cpp - device memory of kernels that are loaded ahead ----===//
#include "Runtime/KernelRoom.h"

namespace kiln {

bool KernelRoom::take(llvm::ArrayRef<std::string> kernels, uint64_t limit) {
  std::lock_guard<std::mutex> lock(mutex);
  std::set<std::string> added;
  for (const std::string &kernel : kernels)
    if (!counted.count(kernel))
      added.insert(kernel);
  if (!added.empty() && counted.size() + added.size() > limit / kKernelBytes)
    return false;
  counted.merge(added);
  return true;
}

} // namespace kiln
