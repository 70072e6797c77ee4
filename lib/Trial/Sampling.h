//===- Sampling.h - times of launches, measured side by side --------------===//
//
// Times launches of any kind: candidates of a trial, or a kernel beside another
// library's. Samples of all launchers are interleaved round by round, so that a
// drift of the clock affects all of them alike. Short launches are put into a
// CUDA graph of many, each over another copy of the buffers: one pair of events
// then spans work long enough to be resolved, and operands come from DRAM as
// they do in a model. Graphs of launches with an `addTo` are built node by
// node, which disturbs no other thread of the process. Launches of another
// library can only be captured, in programs that own their process.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Driver/Handles.h"
#include "Support/Error.h"
#include "Trial/Statistics.h"
#include "Trial/TrialPace.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <concepts>
#include <functional>
#include <utility>
#include <vector>

namespace kiln {

/// A launch to time.
struct TimedLaunch {
  /// Enqueues one run over copy \p copy of the buffers on \p stream.
  using Run = std::function<llvm::Error(unsigned copy, CudaStream stream)>;
  /// Appends such a run to \p graph.
  using AddTo = std::function<llvm::Error(unsigned copy, GraphBuilder &graph)>;

  TimedLaunch() = default;
  /// A launch whose \p run is also called while the stream is being captured:
  /// only for programs that own their process.
  template <class Callable>
  requires std::constructible_from<Run, Callable> &&
      (!std::same_as<std::remove_cvref_t<Callable>, TimedLaunch>)
          TimedLaunch(Callable &&run)
      : run(std::forward<Callable>(run)) {}
  TimedLaunch(Run run, AddTo addTo)
      : run(std::move(run)), addTo(std::move(addTo)) {}

  llvm::Error operator()(unsigned copy, CudaStream stream) const {
    return run(copy, stream);
  }

  Run run;
  AddTo addTo; ///< null: its graphs are captured
};

struct SamplingOptions {
  unsigned minSamples = 5, maxSamples = 15;
  /// Sampling of a launcher may end once its interval is this narrow.
  double relativePrecision = 0.01;
  /// Drop a launcher whose interval lies above another's.
  bool dropSlower = true;
  /// For each launcher, whether it is never dropped; empty: any may be dropped.
  std::vector<bool> keep;
  /// Copies of the buffers to rotate over; 1 measures with a hot cache.
  unsigned copies = 1;
  /// Empties the caches before each sample, which then has no more launches
  /// than there are copies: for buffers whose copies do not exceed the cache.
  /// With one copy it runs before every launch. May be null.
  std::function<llvm::Error(CudaStream)> flush;
  /// Enqueues some 10 us of other work, run before each round so that the
  /// first sample of a round does not begin on an idle device. May be null.
  std::function<llvm::Error(CudaStream)> warm;
  /// Leaves the device idle after each round for as long as the round took, at
  /// most 10 ms, so that a power limit does not lower its clock: times under
  /// the limit tell little about the order without it.
  bool rests = false;
  /// No new round begins after it; a running one is waited for.
  std::chrono::steady_clock::time_point deadline =
      std::chrono::steady_clock::time_point::max();
  /// The time that a round may take before it is given up.
  std::chrono::milliseconds hangLimit{20000};
  /// Decides when each piece of a round may begin; its waits do not count for
  /// the deadline. Null: a round is one piece, and begins at once.
  TrialPace *pace = nullptr;
};

/// The result of one launcher.
struct SampledTime {
  SampleSummary ns;      ///< of one launch; count 0 if it never ran
  unsigned launches = 0; ///< in each sample
  bool dropped = false;  ///< slower than another; stopped early
  ErrorSummary error;    ///< why it did not run; Success if it did
  /// The error comes from its own run, addTo or graph; otherwise any launcher
  /// might have met it.
  bool isOfLaunch = false;
};

/// Times \p launchers on \p stream, a stream of the current context that is
/// idle. Each runs once alone before anything is sampled. A launcher that fails
/// is reported and the others go on, unless the context died. Errors:
/// ContextDead; InProgress when the device takes too long: the launches still
/// run, so none of their memory may be freed. If the pace ends trials, the
/// samples so far are reported.
llvm::Expected<std::vector<SampledTime>>
measureInterleaved(const Driver &driver, CudaStream stream,
                   llvm::ArrayRef<TimedLaunch> launchers,
                   const SamplingOptions &options);

/// Waits for all work of \p stream, but no longer than \p limit. Errors:
/// InProgress past the limit; those of the work.
llvm::Error waitWithLimit(const Driver &driver, CudaStream stream,
                          std::chrono::milliseconds limit);

/// Waits like that for the point that \p end recorded.
llvm::Error waitWithLimit(const Event &end, std::chrono::milliseconds limit);

/// Copies \p bytes bytes to the host in the order of \p stream, after waiting
/// for its work like waitWithLimit(). Unlike a synchronous copy this is not
/// work of the default stream, which would end captures of other threads.
/// Errors: those of waitWithLimit().
llvm::Error readWithLimit(const Driver &driver, void *to, DeviceAddress from,
                          uint64_t bytes, CudaStream stream,
                          std::chrono::milliseconds limit);

} // namespace kiln
