//===- Comparer.h - the operands of a case, and its peer ------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/Sampling.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "compare/BenchChoice.h"
#include "compare/BenchJudge.h"
#include "compare/BenchOutput.h"
#include "compare/BenchPeer.h"
#include "compare/CopyBaseline.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// A stream of a session's device with the kernels of trials.
struct TrialStream {
  Stream stream;
  TrialTools tools;

  static llvm::Expected<TrialStream> open(LiveSession &session);
};

/// One case on the device. Launches refer to it: it does not move.
struct ComparedCase {
  std::optional<TrialBuffers> buffers;
  std::vector<Arguments> arguments;     ///< of each copy
  std::optional<MatrixProduct> product; ///< computed by a library's peer
  std::unique_ptr<BenchPeer> peer;
  std::unique_ptr<CopyBaseline> baseline; ///< in place of a peer
  /// Why it has neither though one was asked for.
  std::string noPeer;
};

/// A plan on the device with a workspace of its own. Launches refer to it: it
/// does not move.
struct LoadedChoice {
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory workspace;

  /// Runs on the operands of \p compared; both must outlive it.
  TimedLaunch launchOn(const ComparedCase &compared) const;
};

/// How a bench takes samples over \p buffers, which must outlive it.
SamplingOptions samplingOf(const TrialBuffers &buffers);

/// Has cases and their peers on the device, one after another, and samples them
/// alternately. The session must outlive it. Errors of preparing a peer are the
/// case's `noPeer`, unless they end all: see endsAll().
class Comparer {
public:
  /// \p library may be null, then there are no peers of it; nor are there
  /// copy baselines without \p wantsBaseline.
  static llvm::Expected<std::unique_ptr<Comparer>>
  create(LiveSession &session, std::shared_ptr<const CublasLt> library,
         bool wantsBaseline);

  /// Operands in at most \p tenths of the free memory; \p hot: one copy.
  llvm::Error prepareOperands(const Case &which, unsigned tenths, bool hot,
                              ComparedCase &compared);
  /// The peer or copy baseline of operands that are there.
  llvm::Error preparePeer(const Case &which, bool allAlgorithms,
                          ComparedCase &compared);
  /// Kiln's side.
  llvm::Error load(const BenchChoice &choice, LoadedChoice &loaded);

  /// Times of \p launches, then of the peer's first choice and its best, if
  /// any, or of the baseline's finalists.
  llvm::Expected<std::vector<SampledTime>>
  sample(std::vector<TimedLaunch> launches, const ComparedCase &compared);

  /// A sample of each output after one run of \p launch on poisoned buffers.
  llvm::Expected<std::vector<OutputRows>>
  outputsOf(const ComparedCase &compared, const TimedLaunch &launch);

  /// Judges where results of \p kiln and of the peer's first choice differ,
  /// see judgeSides().
  llvm::Expected<BenchVerdict> judge(const Case &which, ComparedCase &compared,
                                     const TimedLaunch &kiln);

  /// The stream on which all of this runs.
  const Stream &stream() const { return trial.stream; }

private:
  Comparer(LiveSession &session, std::shared_ptr<const CublasLt> library,
           bool wantsBaseline, TrialStream trial);
  llvm::Error prepareLibrary(bool allAlgorithms, ComparedCase &compared);
  llvm::Error prepareBaseline(const Case &which, ComparedCase &compared);

  LiveSession &session;
  const std::shared_ptr<const CublasLt> library;
  const bool wantsBaseline;
  TrialStream trial;
  KernelLoader loader;
  DeviceMemory libraryWorkspace;
  CopyBaselines baselines;
};

} // namespace kiln::cli
