//===- KernelRoom.h - device memory of kernels that are loaded ahead ------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace kiln {

/// The kernels of one context that no launch asked for yet: of prepared ranges
/// and of pools. What is loaded stays, so what does not fit is not loaded.
/// Thread-safe.
class KernelRoom {
public:
  /// What a kernel takes: docs/measured.md, "Kernels on the device".
  static constexpr uint64_t kKernelBytes = uint64_t(43) << 10;

  /// Counts those of \p kernels that are not counted yet if all of them fit
  /// into \p limit bytes then; else counts none and is false.
  bool take(llvm::ArrayRef<std::string> kernels, uint64_t limit);

private:
  std::mutex mutex;
  std::set<std::string> counted; ///< digests
};

} // namespace kiln
