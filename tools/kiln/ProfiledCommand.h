//===- ProfiledCommand.h - a command with the helper inside ---------------===//
#pragma once

#include "Support/Environment.h"
#include "kiln/ProfileData.h"

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

struct ProfiledCommand {
  std::vector<std::string> words; ///< the program, searched in PATH, and more
  std::string helper;             ///< path of libkiln_profiler.so
  bool fromStart = true; ///< else from cuProfilerStart to cuProfilerStop
  /// Its stdout goes to stderr, because a document goes to stdout.
  bool hidesOutput = false;
};

/// How a profiled command ended.
struct ProfiledRun {
  ProfileData data;
  /// Its exit code; 128 and the signal that ended it, as shells have it.
  int exitCode = 0;
};

/// The helper's path: \p given, else where the build and the installation put
/// it, seen from this program. Errors (Unsupported): with the searched places.
llvm::Expected<std::string> findHelper(const std::optional<std::string> &given);

/// Runs \p command to its end and reads the sums of its processes. SIGINT and
/// SIGQUIT of a terminal end the command alone. Errors: InvalidArgument for a
/// program that cannot be started; Io; those of ProfileData::read.
llvm::Expected<ProfiledRun> runProfiled(const ProfiledCommand &command);

} // namespace kiln::cli
