//===- StatisticsFile.h - the counts that an engine writes ----------------===//
//
// An engine keeps its statistics, and the calls that waited, in the file that
// KILN_STATISTICS names. The file is read by name, or through a running process
// that has this variable.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// A call that waited.
struct WaitedCall {
  std::string call, problem;
  std::string phase, reason; ///< where it spent most of the time, and why
  uint64_t startUnixNs = 0;
  double elapsedMs = 0, phaseMs = 0;
  std::string thread;
};

/// Plain data.
struct StatisticsFile {
  std::string path;
  std::string version, pid, engine; ///< empty: not told
  uint64_t unixNs = 0;              ///< when it was written
  /// Fields of kiln_statistics, also later ones.
  std::map<std::string, double> counts;
  std::vector<WaitedCall> waits; ///< the longest first
  uint64_t odd = 0;              ///< counts and waits that cannot be read
  llvm::json::Object document;   ///< the file as it is

  /// Reads the file \p path. Errors (InvalidArgument): it cannot be read, is
  /// not JSON, or is another document.
  static llvm::Expected<StatisticsFile> read(const std::string &path);
};

/// The file to read for \p text: a path or, where no such file exists, the
/// number of a process. Errors (InvalidArgument): there is no such process, its
/// environment is not ours to read or has no KILN_STATISTICS.
/// \p proc is the folder of processes.
llvm::Expected<std::string> findStatistics(const std::string &text,
                                           const std::string &proc = "/proc");

} // namespace kiln::cli
