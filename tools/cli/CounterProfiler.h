//===- CounterProfiler.h - NVIDIA's ncu over launches of a command --------===//
//
// ncu repeats each launch until it has counted all that was asked for, so it
// takes minutes for what runs in milliseconds.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Environment.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <map>
#include <string>
#include <vector>

namespace kiln::cli {

/// The launches to count, and what.
struct CounterRequest {
  std::string ncu; ///< its path
  /// A program and its words. Its output is dropped.
  std::vector<std::string> command;
  std::vector<std::string> metrics; ///< ncu's names
  std::string kernels;              ///< regular expression; empty: all
  unsigned skip = 0, count = 0;     ///< launches of these kernels; 0: no limit
  /// Whether launches count before the program calls cuProfilerStart.
  bool fromStart = true;
};

/// The counters of one launch.
struct CountedLaunch {
  std::string kernel;
  std::map<std::string, double> values; ///< by metric, without missing ones
};

struct CountedLaunches {
  std::vector<CountedLaunch> launches; ///< in their order
  std::vector<std::string> missing;    ///< metrics that this GPU lacks
};

/// The counters that `kiln-bench study` reports for one launch.
struct ProfiledLaunch {
  std::string kernel;
  double durationNs = 0, cycles = 0, registers = 0, l2HitRate = 0;
};

/// Path of ncu: \p given, or else from PATH and the toolkit's folder. Errors:
/// Unsupported with the places that were searched and how to get it; \p option
/// is the one that needs it.
llvm::Expected<std::string>
findProfiler(const std::optional<std::string> &given,
             const Environment &environment,
             llvm::StringRef option = "--profile");

/// Counts. Takes minutes. Errors: Io; Unsupported with the output of ncu where
/// it may not count, and with the remedy where that is a matter of rights.
llvm::Expected<CountedLaunches> countLaunches(const CounterRequest &request);

/// Reads what `ncu --csv --page raw --print-units base` writes: lines of the
/// profiled program, a header, units, and a line for each launch. A metric that
/// no launch has is missing. Errors: Unsupported where there is no table.
llvm::Expected<CountedLaunches>
parseCounters(llvm::StringRef csv, llvm::ArrayRef<std::string> metrics);

/// Runs \p command (a program and its words) under the profiler at \p ncu and
/// returns its launches of kernels with names that begin with \p prefix
/// (letters, digits and '_'), in their order. Errors: as of countLaunches();
/// Unsupported where a counter is missing.
llvm::Expected<std::vector<ProfiledLaunch>>
profile(const std::string &ncu, llvm::ArrayRef<std::string> command,
        llvm::StringRef prefix);

/// The launches of profile() in ncu's output. Lines of other kernels are passed
/// over. Errors: Unsupported where a column is missing.
llvm::Expected<std::vector<ProfiledLaunch>>
parseProfile(llvm::StringRef csv, llvm::StringRef prefix);

} // namespace kiln::cli
