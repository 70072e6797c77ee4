//===- BenchRunner.h - one case, Kiln beside a peer -----------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/Sampling.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "kiln/LiveSession.h"
#include "kiln/bench/BenchOutput.h"
#include "kiln/bench/BenchPeer.h"
#include "kiln/bench/BenchReport.h"
#include "kiln/bench/BenchStream.h"

#include <memory>
#include <optional>

namespace kiln::cli {

/// What runs on Kiln's side.
struct BenchChoice {
  Plan plan;
  std::vector<ArtifactPtr> artifacts;
  std::string from;
  bool validated = false; ///< compared with the reference already
};

struct BenchOptions {
  /// Measure all algorithms that the peer's heuristic answers, too.
  bool allAlgorithms = false;
  bool hot = false; ///< operands stay in L2
  /// Measure a reference stream beside what no peer computes.
  bool wantsStream = true;
};

/// How a bench takes samples over \p buffers, which must outlive it.
SamplingOptions samplingOf(const TrialBuffers &buffers);

/// Measures cases one after another. The session must outlive it.
class BenchRunner {
public:
  /// \p peer may be null: then Kiln is measured alone.
  static llvm::Expected<std::unique_ptr<BenchRunner>>
  create(LiveSession &session, std::shared_ptr<const CublasLt> peer,
         BenchOptions options);

  /// Measures \p choice on \p row.which and fills \p row in. What went wrong
  /// with this case is in the row; an error ends it all: ContextDead, or
  /// InProgress when the device hangs, after which memory must not be freed.
  llvm::Error measure(const BenchChoice &choice, BenchRow &row);

private:
  struct Bench;
  BenchRunner(LiveSession &session, std::shared_ptr<const CublasLt> peer,
              BenchOptions options, Stream stream, TrialTools tools);

  llvm::Error validate(const BenchChoice &choice, BenchRow &row);
  llvm::Error prepare(const BenchChoice &choice, Bench &bench);
  llvm::Error prepareOperands(Bench &bench, BenchRow &row);
  llvm::Error preparePeer(Bench &bench, BenchRow &row);
  llvm::Error prepareStream(Bench &bench, BenchRow &row);
  llvm::Error sample(Bench &bench, BenchRow &row);
  llvm::Error compare(Bench &bench, BenchRow &row);
  llvm::Expected<std::vector<OutputRows>> outputsOf(const Bench &bench,
                                                    const TimedLaunch &launch);

  LiveSession &session;
  std::shared_ptr<const CublasLt> peer;
  BenchOptions options;
  Stream stream;
  TrialTools tools;
  KernelLoader loader;
  DeviceMemory peerWorkspace;
  BenchStreams streams;
};

} // namespace kiln::cli
