//===- CapturedCalls.h - graphs that another thread makes -----------------===//
#pragma once

#include "cli/LiveSession.h"
#include "kiln-bench/BackgroundCalls.h"
#include "kiln-bench/BackgroundReport.h"

#include <atomic>

namespace kiln::cli {

/// Captures calls of \p engine into graphs and runs these, on the calling
/// thread and a stream of its own, until \p ends: in bursts, as servers make
/// graphs for a few sizes at a time, and with pauses that are longer than an
/// engine of the mode background keeps trials away behind a capture. A call
/// that a capture found unprepared is made without one, as its message says.
/// Counts captures, failed captures and unprepared calls in \p found.
llvm::Error captureCalls(LiveSession &session, const LayerProducts &products,
                         kiln_engine *engine, const std::atomic<bool> &ends,
                         CheckedCalls &found);

} // namespace kiln::cli
