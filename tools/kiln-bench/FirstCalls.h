//===- FirstCalls.h - times of first calls of problems --------------------===//
#pragma once

#include "cli/LiveSession.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// First calls of one problem, through the public interface: each from the call
/// to the return of its launch, with a live context, a loaded compiler and
/// another problem served before.
struct NewProblem {
  std::string name;
  double predictMs = 0; ///< mode predict, empty cache
  double compileMs = 0; ///< of it, the compiler
  double tuneMs = 0;    ///< mode tune, empty cache
  double cachedMs = 0;  ///< mode predict of a new engine, warm cache: prepare
                        ///< and launch
  std::string error;    ///< why a time is missing

  double ownMs() const { return predictMs - compileMs; }
};

/// Times \p count of \p cases, evenly chosen, except for cases that launch
/// nothing. Works on folders of its own, so the cache of \p session plays no
/// part. Seconds a case: mode tune spends its budget. Errors: those that leave
/// nothing to measure with; a case's own are kept in its row.
llvm::Expected<std::vector<NewProblem>>
timeNewProblems(llvm::ArrayRef<Case> cases, unsigned count,
                const ParsedOptions &options, const Environment &environment,
                const Registry &registry, LiveSession &session);

} // namespace kiln::cli
