//===- Injection.h - the helper inside a profiled process -----------------===//
#pragma once

namespace kiln::profiler {

/// Has launches and nodes of graphs noted with their ranges, from the first
/// range of the process on: programs without ranges do not pay for it.
void watchRanges();

} // namespace kiln::profiler
