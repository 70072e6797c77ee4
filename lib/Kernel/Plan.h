//===- Plan.h - one to five steps, ready to compile, load and launch ------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Driver/LaunchSpec.h"
#include "Kernel/Operand.h"
#include "Kernel/Values.h"
#include "Kernel/Workspace.h"

#include <llvm/ADT/SmallVector.h>

#include <memory>
#include <string>

namespace kiln {

/// What a launch knows besides its arguments.
struct LaunchContext {
  int32_t smCount = 0;       ///< SMs that a persistent grid may use
  DeviceAddress zeroed = 0;  ///< the zeroed region, and
  DeviceAddress scratch = 0; ///< what comes behind it
  bool isZeroed = false;     ///< the zeroed region is zero
  int64_t round = 0;         ///< of Binder::rounds(), the one to bind
  /// Encoded prototypes of the plan's tensor maps, in its order.
  const EncodedTensorMap *tensorMaps = nullptr;

  /// Adds what makes \p bytes of the zeroed region zero, if anything.
  void zero(uint64_t bytes, LaunchSpec &spec) const {
    if (bytes && !isZeroed)
      spec.addMemset(zeroed, bytes, 0);
  }
};

/// Turns the arguments of a call into a launch. Immutable and thread-safe;
/// bind() allocates nothing, locks nothing and takes well under a microsecond.
class Binder {
public:
  virtual ~Binder() = default;
  virtual void bind(const Arguments &arguments, const LaunchContext &context,
                    LaunchSpec &spec) const noexcept = 0;

  /// Whether a launch of these arguments uses the plan's workspace, where it
  /// has one: bind() may be given none where it does not. As fast as bind().
  virtual bool usesWorkspace(const Arguments & /*arguments*/,
                             int32_t /*smCount*/) const noexcept {
    return true;
  }

  /// Rounds of a launch of these arguments: parts of the problem whose steps
  /// follow each other on the stream, each in the same workspace, for which all
  /// of the problem at once has no room. bind() is called for each in turn.
  /// Asked where Plan::hasRounds says so. As fast as bind().
  virtual int64_t rounds(const Arguments & /*arguments*/,
                         int32_t /*smCount*/) const noexcept {
    return 1;
  }
};

/// Everything needed to run one config on one problem. The problem's dynamic
/// extents may be other ones at launch, but no larger where the config needs a
/// workspace: it is sized for those of `problem`.
struct Plan {
  Values problem;
  Values config;
  /// Kernels in the order of KernelStep::function.
  llvm::SmallVector<TranslationUnit, 2> kernels;
  /// Dynamic shared memory of each kernel, what its function must allow.
  llvm::SmallVector<uint32_t, 2> sharedBytes;
  llvm::SmallVector<TensorMapSpec, 4> tensorMaps;
  WorkspaceLayout workspace;
  std::shared_ptr<const Binder> binder;
  /// The first step may begin before the kernel ahead of the launch has ended,
  /// where the call allows it: all kernels keep the rule of
  /// common/Dependent.cuh, on a device that can. False as well where bind()
  /// decides for each launch.
  bool takesDependentLaunch = false;
  /// A launch may have several rounds.
  bool hasRounds = false;

  /// "mma.bm128.bn256.bk32.st3": what a log or a record calls this choice.
  std::string configText() const { return config.text(); }
};

} // namespace kiln
