//===- Profiler.h - NVIDIA's profiler over launches of a command ----------===//
#pragma once

#include "Support/Environment.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// The counters that ncu reports for one launch.
struct ProfiledLaunch {
  std::string kernel;
  double durationNs = 0, cycles = 0, registers = 0, l2HitRate = 0;
};

/// Path of ncu: \p given, or else from PATH and the toolkit's folder. Errors:
/// Unsupported with the places that were searched and how to get it.
llvm::Expected<std::string>
findProfiler(const std::optional<std::string> &given,
             const Environment &environment);

/// Runs \p command (a program and its words) under the profiler at \p ncu and
/// returns its launches of kernels with names that begin with \p prefix
/// (letters, digits and '_'), in their order. It takes minutes, because every
/// launch is repeated for its counters. Errors: Io; Unsupported with the output
/// of ncu where it may not count.
llvm::Expected<std::vector<ProfiledLaunch>>
profile(const std::string &ncu, llvm::ArrayRef<std::string> command,
        llvm::StringRef prefix);

/// Reads what `ncu --csv --page raw --print-units base` writes: lines of the
/// profiled program, a header, units, and a line for each launch. Lines of
/// other kernels are passed over. Errors: Unsupported where a column is
/// missing.
llvm::Expected<std::vector<ProfiledLaunch>>
parseProfile(llvm::StringRef csv, llvm::StringRef prefix);

} // namespace kiln::cli
