//===- Sampling.h - times of launches, measured side by side --------------===//
//
// How things are timed, whatever they are: candidates of a trial, or a kernel
// beside another library's. Samples of all launchers are interleaved round by
// round, so that a clock that drifts meets all of them alike. Short launches
// are recorded into a CUDA graph of many, each over another copy of the
// buffers: one pair of events then spans work long enough to be resolved, and
// operands come from DRAM as they do in a model.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Support/Error.h"
#include "Tune/Statistics.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <functional>
#include <vector>

namespace kiln {

/// Enqueues one run over copy \p copy of the buffers on \p stream. It is called
/// while the stream is being captured too.
using TimedLaunch =
    std::function<llvm::Error(unsigned copy, CudaStream stream)>;

struct SamplingOptions {
  unsigned minSamples = 5, maxSamples = 15;
  /// Sampling of a launcher may end once its interval is this narrow.
  double relativePrecision = 0.01;
  /// Drop a launcher whose interval lies above another's.
  bool dropSlower = true;
  /// Of each launcher, whether it is not dropped; empty: of none.
  std::vector<bool> keep;
  /// Copies of the buffers to rotate over; 1 measures with a hot cache.
  unsigned copies = 1;
  /// Empties the caches, run before each sample, which then has no more
  /// launches than there are copies: for buffers whose copies do not exceed the
  /// cache. With one copy it costs as much time as it takes a launch. May be
  /// null.
  std::function<llvm::Error(CudaStream)> flush;
  /// Enqueues some 10 us of other work, run before each round so that the
  /// first sample of a round does not begin on an idle device. May be null.
  std::function<llvm::Error(CudaStream)> warm;
  /// Leaves the device idle after each round for as long as the round took, at
  /// most 10 ms, so that a power limit does not lower its clock: what all
  /// kernels reach under the limit tells little of which is better without.
  bool rests = false;
  /// No new round begins after it; one that runs is waited for.
  std::chrono::steady_clock::time_point deadline =
      std::chrono::steady_clock::time_point::max();
  /// How long a round may take before the device counts as hung.
  std::chrono::milliseconds hangLimit{20000};
};

/// What became of one launcher.
struct SampledTime {
  SampleSummary ns;      ///< of one launch; count 0 if it never ran
  unsigned launches = 0; ///< in each sample
  bool dropped = false;  ///< slower than another; stopped early
  ErrorSummary error;    ///< of its launch; Success if it ran
};

/// Times \p launchers on \p stream, a stream of the current context that is
/// idle. Each runs once alone before anything is sampled. A launcher that fails
/// is reported and the others go on, unless the context died. Errors:
/// ContextDead; InProgress when the device hangs, after which nothing more may
/// be enqueued and no memory freed.
llvm::Expected<std::vector<SampledTime>>
measureInterleaved(const Driver &driver, CudaStream stream,
                   llvm::ArrayRef<TimedLaunch> launchers,
                   const SamplingOptions &options);

/// Waits for all work of \p stream, but no longer than \p limit. Errors:
/// InProgress past the limit; whatever the work did wrong.
llvm::Error waitWithLimit(const Driver &driver, CudaStream stream,
                          std::chrono::milliseconds limit);

} // namespace kiln
