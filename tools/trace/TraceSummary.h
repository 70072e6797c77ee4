//===- TraceSummary.h - a trace in a few tables ---------------------------===//
#pragma once

#include "trace/TraceSelection.h"

#include <map>
#include <vector>

namespace kiln::cli {

/// The calls of one function.
struct CallSummary {
  TraceText name = 0;
  uint64_t count = 0;
  int64_t totalNs = 0; ///< without calls inside of one of the same function
  int64_t longestNs = 0;
  /// Time of each phase on the calling thread, without other phases and calls
  /// inside. The phase "call" is the rest, the function's own.
  std::map<TraceText, int64_t> phaseNs;
};

/// The intervals of one phase.
struct PhaseSummary {
  TraceText phase = 0;
  uint64_t count = 0;
  int64_t totalNs = 0; ///< without intervals inside of one of the same phase
  /// Time without intervals inside, in calls and elsewhere: on threads that
  /// work for calls.
  int64_t inCallsNs = 0, elsewhereNs = 0;

  int64_t selfNs() const { return inCallsNs + elsewhereNs; }
};

struct ThreadSummary {
  uint32_t thread = 0;
  uint64_t intervals = 0, calls = 0;
  int64_t busyNs = 0; ///< in any interval
};

/// The waits of work between two threads.
struct FlowSummary {
  TraceText name = 0;
  uint64_t count = 0;
  int64_t totalNs = 0, longestNs = 0;
  TraceFlow longest;
};

/// Sums up one selection. Each list begins with the most time.
struct TraceSummary {
  TraceSummary(const TraceTree &tree, const TraceSelection &selection);

  std::vector<CallSummary> calls;
  std::vector<PhaseSummary> phases;
  std::vector<ThreadSummary> threads;
  std::vector<FlowSummary> flows;
  std::vector<size_t> longestCalls; ///< all of them

private:
  void addSubtree(const TraceTree &tree, size_t root);
  void addFlows(const TraceTree &tree, const TraceSelection &selection);
};

} // namespace kiln::cli
