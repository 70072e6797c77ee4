//===- TraceSelection.h - parts of a trace --------------------------------===//
#pragma once

#include "trace/TraceTree.h"

#include <llvm/Support/Error.h>

#include <vector>

namespace kiln::cli {

/// Subtrees of a trace that do not enclose each other, sorted. A plain value.
class TraceSelection {
public:
  /// The whole trace.
  static TraceSelection all(const TraceTree &tree);

  /// The calls \p calls with all inside of them, and the work that they handed
  /// over to other threads.
  static TraceSelection ofCalls(const TraceTree &tree,
                                std::vector<size_t> calls);

  /// The part on threads that are called \p name or have this number. Error
  /// (InvalidArgument): the trace has no such thread.
  llvm::Expected<TraceSelection> onThread(const TraceTree &tree,
                                          llvm::StringRef name) const;

  llvm::ArrayRef<size_t> subtrees() const { return roots; }
  bool contains(const TraceTree &tree, size_t node) const;

private:
  std::vector<size_t> roots;
};

/// The calls that \p text names: a function, or the number of a call, counted
/// from 1 in the order of their starts. Error (InvalidArgument): there is none.
llvm::Expected<std::vector<size_t>> callsOf(const TraceTree &tree,
                                            llvm::StringRef text);

} // namespace kiln::cli
