//===- LateKernels.h - kernels that no call waited for --------------------===//
#pragma once

#include "Kernel/Family.h"
#include "Store/ArtifactStore.h"

#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A value of a layer for which a better kernel is being compiled.
struct LateValue {
  const KernelFamily *family = nullptr;
  Problem problem;
};

/// Kernels that calls requested and that serve later ones. Thread-safe.
class LateKernels {
public:
  /// Keeps \p kernels until they are compiled; then \p value is chosen again.
  /// Beyond some hundred entries the oldest are forgotten, which cancels
  /// compilations that have not begun.
  void add(std::vector<PendingArtifact> kernels, LateValue value);
  /// Keeps the kernels of a layer, named by ProblemRange::fixedText().
  void add(std::vector<PendingArtifact> kernels, std::string layer);
  /// Whether kernels of \p layer are yet to come.
  bool isAwaited(llvm::StringRef layer);
  /// Returns the values whose kernels are compiled now, each once. Costs one
  /// read if nothing is kept.
  std::vector<LateValue> takeArrived();

private:
  struct Entry {
    std::vector<PendingArtifact> kernels;
    std::optional<LateValue> value;
    std::string layer;

    bool isThere() const;
  };
  void add(Entry entry);
  std::atomic<bool> hasAny{false};
  std::mutex mutex; ///< guards what follows
  std::list<Entry> entries;
};

} // namespace kiln
