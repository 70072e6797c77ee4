//===- FlameGraph.h - stacks as a picture ---------------------------------===//
#pragma once

#include "trace/TraceStacks.h"

#include <llvm/Support/raw_ostream.h>

#include <string>

namespace kiln::cli {

/// Prints the stacks as one SVG of its own: callers above, widths by time, a
/// colour a phase, the exact numbers in titles. It runs no scripts and loads
/// nothing. Equal stacks give equal bytes. Frames below a tenth of a pixel are
/// left out.
void printFlameGraph(const TraceStacks &stacks, llvm::StringRef title,
                     llvm::raw_ostream &os);

} // namespace kiln::cli
