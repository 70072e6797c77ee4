//===- Plan.h - one to four steps, ready to compile, load and launch ------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Driver/LaunchSpec.h"
#include "Kernel/Operand.h"
#include "Kernel/Record.h"

#include <llvm/ADT/SmallVector.h>

#include <memory>
#include <string>

namespace kiln {

/// Scratch memory of a launch. The first `zeroedBytes` bytes are zero when a
/// launch begins and are left zero by it: counters live there, and sums that
/// are there once they are not zero. All else begins at kZeroedRegionBytes, so
/// that plans which share one workspace never write where another expects
/// zeros.
struct WorkspaceLayout {
  static constexpr uint64_t kZeroedRegionBytes = 16 << 20;
  uint64_t bytes = 0, alignment = 256, zeroedBytes = 0;

  /// What splits share: what is zero between launches, and what need not be.
  static WorkspaceLayout ofSplit(int64_t zeroedBytes, int64_t otherBytes) {
    WorkspaceLayout layout;
    layout.bytes = layout.zeroedBytes = static_cast<uint64_t>(zeroedBytes);
    if (otherBytes)
      layout.bytes = kZeroedRegionBytes + static_cast<uint64_t>(otherBytes);
    return layout;
  }
};

/// What a launch knows besides its arguments.
struct LaunchContext {
  int32_t smCount = 0; ///< SMs that a persistent grid may use
  DeviceAddress workspace = 0;
  /// The workspace's first zeroedBytes are zero; otherwise bind() adds a
  /// memset.
  bool workspaceZeroed = false;
  /// Encoded prototypes of the plan's tensor maps, in its order.
  const EncodedTensorMap *tensorMaps = nullptr;
};

/// Turns the arguments of a call into a launch. Immutable and thread-safe;
/// bind() allocates nothing, locks nothing and takes well under a microsecond.
class Binder {
public:
  virtual ~Binder() = default;
  virtual void bind(const Arguments &arguments, const LaunchContext &context,
                    LaunchSpec &spec) const noexcept = 0;
};

/// Everything needed to run one config on one problem. The problem's dynamic
/// extents may be other ones at launch, but no larger where the config needs a
/// workspace: it is sized for those of `problem`.
struct Plan {
  Record problem;
  std::string templateName;
  Record config;
  /// Kernels in the order of KernelStep::function.
  llvm::SmallVector<TranslationUnit, 2> kernels;
  /// Dynamic shared memory of each kernel, what its function must allow.
  llvm::SmallVector<uint32_t, 2> sharedBytes;
  llvm::SmallVector<TensorMapSpec, 4> tensorMaps;
  WorkspaceLayout workspace;
  std::shared_ptr<const Binder> binder;

  /// "mma.bm128.bn256.bk32.st3": what a log or a record calls this choice.
  std::string configText() const { return config.text(); }
};

} // namespace kiln
