//===- EngineLimits.h - what an engine allows unless its options say so ---===//
//
// Here because the tool plans for engines: its choices are theirs only where
// both allow the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace kiln {

/// Of the workspace of a plan, in bytes: kiln_engine_options names no other
/// number where its workspace_limit_bytes is 0.
inline constexpr uint64_t kEngineWorkspaceBytes = uint64_t(256) << 20;

} // namespace kiln
