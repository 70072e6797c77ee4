//===- Profiler.h - NVIDIA's profiler over launches of a command ----------===//
#pragma once

#include "Support/Environment.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// What ncu says of one launch.
struct ProfiledLaunch {
  std::string kernel;
  double durationNs = 0, cycles = 0, registers = 0, l2HitRate = 0;
};

/// Path of ncu: \p given, or else of PATH and the toolkit's folder. Errors:
/// Unsupported with what was searched and how to come by one.
llvm::Expected<std::string>
findProfiler(const std::optional<std::string> &given,
             const Environment &environment);

/// Runs \p command (a program and its words) under the profiler at \p ncu and
/// answers its launches of kernels whose names begin with \p prefix, letters,
/// digits and '_', in their order. Minutes:
/// every launch is repeated for its counters. Errors: Io; Unsupported with what
/// ncu wrote where it may not count.
llvm::Expected<std::vector<ProfiledLaunch>>
profile(const std::string &ncu, llvm::ArrayRef<std::string> command,
        llvm::StringRef prefix);

/// Reads what `ncu --csv --page raw --print-units base` writes: lines of the
/// profiled program, a header, units, and a line for each launch, of which
/// those of other kernels are passed over. Errors: Unsupported for what lacks a
/// column.
llvm::Expected<std::vector<ProfiledLaunch>>
parseProfile(llvm::StringRef csv, llvm::StringRef prefix);

} // namespace kiln::cli
