//===- RequestList.h - the requests that a warm-up is for -----------------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Kernel/Registry.h"
#include "cli/Options.h"

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// One problem or part of a range that is warmed up.
struct WarmupRequest {
  std::string name, problem, range; ///< range empty: a problem
  std::optional<ProblemRange> part;
  Registry::NamedProblem value;
};

/// The requests of --model and --history, each once.
struct RequestList {
  std::vector<WarmupRequest> requests;
  std::vector<std::string> skipped; ///< lines of a history, with reasons

  /// Errors (InvalidArgument, Unsupported) name the file.
  static llvm::Expected<RequestList> read(const ParsedOptions &options,
                                          const Registry &registry);
};

} // namespace kiln::cli
