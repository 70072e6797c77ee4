//===- TraceTree.h - the intervals of a trace, nested ---------------------===//
#pragma once

#include "trace/TraceFile.h"

#include <cstddef>
#include <limits>
#include <vector>

namespace kiln::cli {

/// An interval among those that enclose it.
struct TraceNode {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  TraceInterval interval; ///< its end is at most its parent's
  size_t parent = kNone;
  size_t next = 0;     ///< the first node behind those inside of it
  size_t call = kNone; ///< the innermost call that it belongs to, or is
  int64_t selfNs = 0;  ///< without the intervals inside of it

  int64_t ns() const { return interval.endNs - interval.startNs; }
};

/// The intervals of each thread as a tree. A node stands in front of the nodes
/// inside of it; threads follow each other. Refers to the trace.
class TraceTree {
public:
  /// Sorts: n log n. An interval that begins inside of another one and ends
  /// behind it is cut to fit, and counted.
  explicit TraceTree(const TraceFile &trace);

  const TraceFile &trace() const { return file; }
  llvm::ArrayRef<TraceNode> nodes() const { return all; }
  llvm::ArrayRef<TraceNode> inside(size_t node) const {
    return nodes().slice(node + 1, all[node].next - node - 1);
  }
  /// Nodes without a parent.
  llvm::ArrayRef<size_t> roots() const { return outermost; }
  /// Nodes of the phase "call", by their start.
  llvm::ArrayRef<size_t> calls() const { return allCalls; }
  /// Intervals that had to be cut.
  uint64_t crossing() const { return cut; }

  /// The innermost node at \p moment, or kNone.
  size_t at(TraceMoment moment) const;
  bool isCall(size_t node) const;
  /// The time of each phase in \p node and inside of it, the longest first.
  std::vector<std::pair<TraceText, int64_t>> phasesOf(size_t node) const;

private:
  const TraceFile &file;
  std::vector<TraceNode> all;
  std::vector<size_t> outermost, allCalls;
  std::vector<size_t> firstOf; ///< node of each thread, and the end
  uint64_t cut = 0;
};

} // namespace kiln::cli
