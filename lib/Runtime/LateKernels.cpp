//===- LateKernels.cpp ----------------------------------------------------===//
#include "Runtime/LateKernels.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

static constexpr size_t kMostLate = 256;

bool LateKernels::Entry::isThere() const {
  return llvm::all_of(
      kernels, [](const PendingArtifact &kernel) { return kernel.isReady(); });
}

void LateKernels::add(Entry entry) {
  if (entry.kernels.empty())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (entries.size() == kMostLate)
    entries.pop_front();
  entries.push_back(std::move(entry));
  hasAny = true;
}

void LateKernels::add(std::vector<PendingArtifact> kernels, LateValue value) {
  add(Entry{std::move(kernels), std::move(value), {}});
}

void LateKernels::add(std::vector<PendingArtifact> kernels, std::string layer) {
  add(Entry{std::move(kernels), std::nullopt, std::move(layer)});
}

bool LateKernels::isAwaited(llvm::StringRef layer) {
  if (!hasAny.load(std::memory_order_relaxed))
    return false;
  std::lock_guard<std::mutex> lock(mutex);
  return llvm::any_of(entries, [&](const Entry &entry) {
    return entry.layer == layer && !entry.isThere();
  });
}

std::vector<LateValue> LateKernels::takeArrived() {
  std::vector<LateValue> arrived;
  if (!hasAny.load(std::memory_order_relaxed))
    return arrived;
  std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(entries, [&](Entry &entry) {
    if (!entry.isThere())
      return false;
    if (entry.value)
      arrived.push_back(std::move(*entry.value));
    return true;
  });
  hasAny = !entries.empty();
  return arrived;
}

} // namespace kiln
