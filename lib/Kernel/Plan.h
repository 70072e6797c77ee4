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

/// The data of a launch besides its arguments.
struct LaunchContext {
  int32_t smCount = 0;       ///< SMs that a persistent grid may use
  DeviceAddress zeroed = 0;  ///< the zeroed region
  DeviceAddress scratch = 0; ///< the scratch behind it
  bool isZeroed = false;     ///< the zeroed region is zero
  int64_t round = 0;         ///< the round to bind, see Binder::rounds()
  /// Encoded prototypes of the plan's tensor maps, in its order.
  const EncodedTensorMap *tensorMaps = nullptr;

  /// Adds a step that zeroes \p bytes of the zeroed region, if one is needed.
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

  /// Whether a launch of these arguments uses the plan's workspace, if the plan
  /// has one. If not, bind() needs none. As fast as bind().
  virtual bool usesWorkspace(const Arguments & /*arguments*/,
                             int32_t /*smCount*/) const noexcept {
    return true;
  }

  /// The number of rounds of a launch of these arguments. A round is a part of
  /// the problem; the steps of all rounds follow each other on the stream in
  /// one workspace, which has no room for the whole problem. bind() is called
  /// for each round. Used if Plan::hasRounds. As fast as bind().
  virtual int64_t rounds(const Arguments & /*arguments*/,
                         int32_t /*smCount*/) const noexcept {
    return 1;
  }
};

/// Everything needed to run one config on one problem. The problem's dynamic
/// extents may differ at launch, but may not be larger if the config needs a
/// workspace, which is sized for those of `problem`.
struct Plan {
  Values problem;
  Values config;
  /// Kernels in the order of KernelStep::function.
  llvm::SmallVector<TranslationUnit, 2> kernels;
  /// The dynamic shared memory of each kernel, which its function must allow.
  llvm::SmallVector<uint32_t, 2> sharedBytes;
  llvm::SmallVector<TensorMapSpec, 4> tensorMaps;
  WorkspaceLayout workspace;
  std::shared_ptr<const Binder> binder;
  /// The first step may begin before the kernel ahead of the launch has ended,
  /// if the call allows it: all kernels keep the rule of common/Dependent.cuh,
  /// on a device that supports it. Also false if bind() decides for each
  /// launch.
  bool takesDependentLaunch = false;
  /// A launch may have several rounds.
  bool hasRounds = false;

  /// "mma.bm128.bn256.bk32.st3": the name of this choice in logs and records.
  std::string configText() const { return config.text(); }
};

} // namespace kiln
