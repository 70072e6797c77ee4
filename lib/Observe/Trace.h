//===- Trace.h - a file with what each thread did when --------------------===//
//
// One trace of the process, in the form of Chrome's trace events, which
// Perfetto (ui.perfetto.dev) and chrome://tracing show:
//
//   {"displayTimeUnit":"ns","otherData":{...},"traceEvents":[
//   {first event}
//   ,{further event}
//   ]}
//
// The file is complete JSON whenever Kiln is not writing: new lines overwrite
// the last one, in one system call. A copy that was cut anywhere is closed so:
// its whole lines of events, followed by "]}".
//
// Intervals are complete events (ph X) with microseconds of CLOCK_MONOTONIC,
// written when they end. The intervals of one thread nest.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Observe/Phase.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

namespace kiln::observe {

/// Nanoseconds of CLOCK_MONOTONIC.
uint64_t monotonicNs() noexcept;
/// The number by which the system calls the calling thread.
int64_t threadId() noexcept;

/// Starts the trace of the process in the file \p path, in which "%p" stands
/// for the number of the process; from now on kTrace is watching. If another
/// process writes a trace there, the number is added to the name, so that
/// processes that share an environment have a file each. An earlier trace is
/// replaced. A child that the process forks writes nothing. Returns the file's
/// name. Errors: Io; InProgress while another trace is being written.
llvm::Expected<std::string> startTrace(llvm::StringRef path);

/// Writes what is buffered and ends the trace. The number of events that the
/// file lacks, because it was full (1 GiB) or could not be written, is in its
/// last event. Does nothing without a trace.
void stopTrace() noexcept;

/// In a child: leaves the trace to the parent, and forgets the number of the
/// calling thread. Takes no lock.
void forgetTrace() noexcept;

/// An interval that ended.
struct TracedInterval {
  Phase phase = Phase::Call;
  llvm::StringRef name; ///< empty: the phase's
  llvm::StringRef what; ///< it was about; may be empty
  llvm::StringRef reason;
  uint64_t startNs = 0, endNs = 0;
};

// Without a trace the following do nothing. They take a lock of the trace, and
// write the file. Launches and waits, which may hold a stream's lock, wait in a
// buffer for the next other interval.

void traceInterval(const TracedInterval &interval) noexcept;

/// The place and time at which work was handed to another thread.
class Flow {
public:
  /// Here and now, if there is a trace; costs a relaxed load if not.
  static Flow here() noexcept;
  Flow() = default;

  /// Draws an arrow, called \p name, from there to the interval in which the
  /// calling thread is. No more than once.
  void arrive(const char *name) noexcept;

private:
  uint64_t ns = 0; ///< 0: none
  int64_t thread = 0;
};

} // namespace kiln::observe
