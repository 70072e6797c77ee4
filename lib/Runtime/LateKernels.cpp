//===- LateKernels.cpp ----------------------------------------------------===//
#include "Runtime/LateKernels.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

static constexpr size_t kMostLate = 256;

void LateKernels::add(std::vector<PendingArtifact> kernels,
                      std::optional<LateValue> value) {
  if (kernels.empty())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (entries.size() == kMostLate)
    entries.pop_front();
  entries.push_back({std::move(kernels), std::move(value)});
  hasAny = true;
}

std::vector<LateValue> LateKernels::takeArrived() {
  std::vector<LateValue> arrived;
  if (!hasAny.load(std::memory_order_relaxed))
    return arrived;
  std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(entries, [&](Entry &entry) {
    if (!llvm::all_of(entry.kernels, [](const PendingArtifact &kernel) {
          return kernel.isReady();
        }))
      return false;
    if (entry.value)
      arrived.push_back(std::move(*entry.value));
    return true;
  });
  hasAny = !entries.empty();
  return arrived;
}

} // namespace kiln
