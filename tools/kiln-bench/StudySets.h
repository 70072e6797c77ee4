//===- StudySets.h - configs that are measured beside each other ----------===//
//
// A study asks what each decision of a kernel is worth: it measures a named set
// of configs that differ in known ways, good ones and bad ones, beside each
// other. The sets of a family lie in the folder of its name.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// One member of a set.
struct StudyConfig {
  std::string name; ///< in reports
  /// The problem that was asked for, changed where this config asks for it: its
  /// element type, say.
  Problem problem;
  const Template *tmpl = nullptr;
  Values config;
  /// Operations that its tiles compute, cut tiles included; 0: not counted.
  double kernelFlops = 0;
  /// Operations of the problem with what KernelFamily::flops leaves out.
  double allFlops = 0;
  /// Blocks that should fit an SM.
  int blocksPerSm = 0;
  /// Why no space has it, though it runs: the wall that it breaks, or the rule
  /// that leaves it out. Empty: it is a candidate like others.
  std::string leftOut;
};

/// The named sets of configs of \p family's kernels, as help and messages list
/// them; empty: there are none.
llvm::StringRef studySetsOf(const KernelFamily &family);
/// The configs of the set called \p name for \p problem, in its order. One that
/// this device or problem cannot run has a rejection that prune() tells.
/// Errors: InvalidArgument, which lists the sets; Unsupported.
llvm::Expected<std::vector<StudyConfig>> studySet(const KernelFamily &family,
                                                  llvm::StringRef name,
                                                  const Problem &problem,
                                                  const DeviceModel &device);

} // namespace kiln::cli
