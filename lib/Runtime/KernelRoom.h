//===- KernelRoom.h - device memory of kernels that are loaded ahead ------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

namespace kiln {

/// The kernels of one context that no launch asked for yet, from prepared
/// ranges and pools. Loaded kernels stay, so a kernel that does not fit is not
/// loaded. Thread-safe.
class KernelRoom {
public:
  /// The memory of one kernel: docs/measured.md, "Kernels on the device".
  static constexpr uint64_t kKernelBytes = uint64_t(43) << 10;

  /// Counts the \p kernels that are not counted yet, if all counted ones then
  /// fit into \p limit bytes. Otherwise counts none and returns false.
  bool take(llvm::ArrayRef<std::string> kernels, uint64_t limit);

private:
  std::mutex mutex;
  std::set<std::string> counted; ///< digests
};

} // namespace kiln
