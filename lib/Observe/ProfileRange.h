//===- ProfileRange.h - ranges of the engine that embeds Kiln -------------===//
//
// An engine encloses its steps and layers in ranges, with which profiles tell
// them apart. (Replays of a graph make no calls of Kiln, so only the engine can
// enclose them.) The ranges of a thread nest.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Observe/Phase.h"

#include <optional>

namespace kiln::observe {

/// Opens a range of this thread: a Step, Layer or Range called \p name. Without
/// a tool or a trace it costs some nanoseconds.
void beginRange(Phase phase, const char *name) noexcept;
/// Closes the range that this thread opened last, and returns its phase; none
/// if there is no such range.
std::optional<Phase> endRange() noexcept;

} // namespace kiln::observe
