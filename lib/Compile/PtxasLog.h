//===- PtxasLog.h - resources and times in NVRTC's log --------------------===//
#pragma once

#include "Compile/Artifact.h"

#include <llvm/ADT/StringRef.h>

#include <vector>

namespace kiln {

/// Resources of \p entry in the text that --ptxas-options=-v produces; lines
/// about other kernels and about functions that were not inlined are passed
/// over.
ResourceUsage parseResourceUsage(llvm::StringRef log, llvm::StringRef entry);

/// Every numbered remark C75xx of the log, in order, without repetitions.
std::vector<Advisory> parseAdvisories(llvm::StringRef log);

/// Front-end, NVVM and ptxas times from the table that --time=- appends.
PhaseTimes parsePhaseTimes(llvm::StringRef log);

} // namespace kiln
