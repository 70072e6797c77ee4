//===- TuneAll.h - the tuning of many problems ----------------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "Tune/Tuner.h"
#include "Tune/TuningTask.h"

#include <llvm/ADT/ArrayRef.h>

#include <vector>

namespace kiln::cli {

/// Tunes all \p problems within options.budget together: the first choices of
/// all compile in parallel first, then the time that is left is shared out,
/// problems that are cheap to measure first; a problem waits for its first
/// batches up to half of its share. Returns one outcome a problem, in their
/// order; TuningChoice::loaded of each is null. Only a dead context stops the
/// other problems.
std::vector<TuningOutcome>
tuneAll(const TuningContext &context,
        llvm::ArrayRef<Registry::NamedProblem> problems,
        const TuningOptions &options);

} // namespace kiln::cli
