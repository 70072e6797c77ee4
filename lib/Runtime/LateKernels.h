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

/// A value of a layer, for which something better is compiled.
struct LateValue {
  const KernelFamily *family = nullptr;
  Problem problem;
};

/// Kernels that calls requested and that serve later ones. Thread-safe.
class LateKernels {
public:
  /// Keeps \p kernels until they are there; then \p value is to be chosen
  /// again. Beyond some hundred the oldest are forgotten, which takes back
  /// compilations that have not begun.
  void add(std::vector<PendingArtifact> kernels, LateValue value);
  /// Keeps the kernels of a layer, named by ProblemRange::fixedText().
  void add(std::vector<PendingArtifact> kernels, std::string layer);
  /// Whether kernels of \p layer are yet to come.
  bool isAwaited(llvm::StringRef layer);
  /// The values whose kernels are there now, each once. Cost: a read where
  /// nothing is kept.
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
