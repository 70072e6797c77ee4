//===- Sampling.h - times of launches, measured side by side --------------===//
//
// How things are timed, whatever they are: candidates of a trial, or a kernel
// beside another library's. Samples of all launchers are interleaved round by
// round, so that a clock that drifts meets all of them alike. Short launches
// are put into a CUDA graph of many, each over another copy of the buffers: one
// pair of events then spans work long enough to be resolved, and operands come
// from DRAM as they do in a model. Graphs of launches that say what they launch
// are built by hand, which no other thread of the process notices; what another
// library launches can only be captured, for programs that own their process.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Graph.h"
#include "Driver/Handles.h"
#include "Support/Error.h"
#include "Trial/Statistics.h"
#include "Trial/TrialPace.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <chrono>
#include <concepts>
#include <functional>
#include <utility>
#include <vector>

namespace kiln {

/// Something to be timed.
struct TimedLaunch {
  /// Enqueues one run over copy \p copy of the buffers on \p stream.
  using Run = std::function<llvm::Error(unsigned copy, CudaStream stream)>;
  /// Appends the same to \p graph.
  using AddTo = std::function<llvm::Error(unsigned copy, GraphBuilder &graph)>;

  TimedLaunch() = default;
  /// One whose \p run is called while the stream is being captured, too: never
  /// in a process of others.
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
  /// Of each launcher, whether it is not dropped; empty: of none.
  std::vector<bool> keep;
  /// Copies of the buffers to rotate over; 1 measures with a hot cache.
  unsigned copies = 1;
  /// Empties the caches, run before each sample, which then has no more
  /// launches than there are copies: for buffers whose copies do not exceed the
  /// cache. With one copy every launch is flushed for. May be null.
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
  /// How long a round may take before it is given up.
  std::chrono::milliseconds hangLimit{20000};
  /// Says when each piece of a round may begin; the deadline does not count
  /// what it lets wait. Null: a round is one piece, and begins at once.
  TrialPace *pace = nullptr;
};

/// What became of one launcher.
struct SampledTime {
  SampleSummary ns;      ///< of one launch; count 0 if it never ran
  unsigned launches = 0; ///< in each sample
  bool dropped = false;  ///< slower than another; stopped early
  ErrorSummary error;    ///< why it did not run; Success if it did
  /// The error is of its own run, addTo or graph: else any launcher might have
  /// met it.
  bool isOfLaunch = false;
};

/// Times \p launchers on \p stream, a stream of the current context that is
/// idle. Each runs once alone before anything is sampled. A launcher that fails
/// is reported and the others go on, unless the context died. Errors:
/// ContextDead; InProgress when the device takes too long: what was launched
/// still runs, so none of its memory may be freed. Where the pace ends trials,
/// what was sampled by then is reported.
llvm::Expected<std::vector<SampledTime>>
measureInterleaved(const Driver &driver, CudaStream stream,
                   llvm::ArrayRef<TimedLaunch> launchers,
                   const SamplingOptions &options);

/// Waits for all work of \p stream, but no longer than \p limit. Errors:
/// InProgress past the limit; whatever the work did wrong.
llvm::Error waitWithLimit(const Driver &driver, CudaStream stream,
                          std::chrono::milliseconds limit);

/// Copies \p bytes bytes to the host in the order of \p stream, after waiting
/// for its work as above; unlike a synchronous copy this is not work of the
/// default stream, which would ruin captures of others. Errors: as above.
llvm::Error readWithLimit(const Driver &driver, void *to, DeviceAddress from,
                          uint64_t bytes, CudaStream stream,
                          std::chrono::milliseconds limit);

} // namespace kiln
