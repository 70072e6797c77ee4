//===- TraceStacks.h - the time of a trace, summed up by stacks -----------===//
#pragma once

#include "trace/TraceTree.h"

#include <llvm/Support/raw_ostream.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// A frame below its callers, with the time of all intervals that are there.
struct StackFrame {
  std::string text, phase; ///< the phase is empty for a thread
  size_t parent = 0;       ///< before it; the root is its own
  size_t depth = 0;
  uint64_t count = 0;
  int64_t totalNs = 0, selfNs = 0;
  std::vector<size_t> inside = {}; ///< sorted by text and phase
};

/// Sums up stacks. The first frame is the root, the frames inside of it are
/// threads by their names. Frames beyond a depth of 256 count for that one.
class TraceStacks {
public:
  /// The stacks of the nodes \p subtrees, which do not enclose each other, and
  /// of all inside of them. \p tellsWhat: problems, kernels and configs are in
  /// the frames.
  TraceStacks(const TraceTree &tree, llvm::ArrayRef<size_t> subtrees,
              bool tellsWhat);

  llvm::ArrayRef<StackFrame> frames() const { return all; }
  size_t deepest() const { return mostDepth; }

  /// One line a stack, "thread;kiln_gemm;compile 12345", with the time in us
  /// that was spent there itself; the form that flame graph tools read. Stacks
  /// below 0.5 us are left out.
  void printFolded(llvm::raw_ostream &os) const;

private:
  void sortInside();

  std::vector<StackFrame> all;
  size_t mostDepth = 0;
};

} // namespace kiln::cli
