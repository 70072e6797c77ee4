//===- Observe.h - what the environment asks to be watched ----------------===//
#pragma once

#include "Support/Environment.h"
#include "Support/Log.h"

#include <llvm/Support/Error.h>

namespace kiln::observe {

/// Attaches the NVTX tool and starts the trace that \p environment names, if
/// that was not done before in this process. Failures are told to \p log.
/// Thread-safe.
void watchAsAsked(const Environment &environment, const Log &log);

/// Names the calling thread, which is Kiln's own, for debuggers, profilers and
/// the trace: at most 15 characters.
void nameThread(const char *name) noexcept;

} // namespace kiln::observe
