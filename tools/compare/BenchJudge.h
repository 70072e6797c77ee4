//===- BenchJudge.h - the right side where results differ -----------------===//
#pragma once

#include "Kernel/Registry.h"
#include "Store/LoadedPlan.h"
#include "Trial/Sampling.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "Trial/TrialValidator.h"

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <string>

namespace kiln::cli {

/// The verdict of the family's reference on both sides. Errors of results are
/// in units of the tolerance: at most 1 where a result is right.
struct BenchVerdict {
  TrialVerdict kiln, peer;
  std::string unknown; ///< why it says nothing; empty: it has judged both

  bool isKilnWrong() const;
  bool isPeerWrong() const;
  /// "peer is wrong: 13 beside Kiln's 0.24".
  std::string text() const;
  /// The wrong part and its place, which text() leaves out; empty if none is.
  std::string details() const;
  /// Adds the keys verdict, kiln_error and peer_error, and the wrong parts.
  void addTo(llvm::json::Object &object) const;
};

/// Tools that compute and compare the reference. All must outlive a call.
struct JudgeTools {
  const Driver &driver;
  const TrialTools &tools;
  const DeviceModel &device;
  ArtifactStore &artifacts;
  KernelLoader &loader;
};

/// Compares the results that \p kiln and \p peer write to copy 0 of \p buffers,
/// the operands of \p named, with those of the family's reference. Fills copy 0
/// again. Compiles the reference and waits for it: up to a minute. Errors:
/// ContextDead and InProgress, after which nothing runs any more; any other
/// error makes the verdict unknown.
llvm::Expected<BenchVerdict>
judgeSides(const JudgeTools &tools, const Registry::NamedProblem &named,
           TrialBuffers &buffers, const TimedLaunch &kiln,
           const TimedLaunch &peer, CudaStream stream);

} // namespace kiln::cli
