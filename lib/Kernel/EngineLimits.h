//===- EngineLimits.h - the default limits of an engine -------------------===//
//
// The constant is here because the tool plans for engines: it makes their
// choices only if both allow the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace kiln {

/// The limit of a plan's workspace, in bytes, if workspace_limit_bytes of
/// kiln_engine_options is 0.
inline constexpr uint64_t kEngineWorkspaceBytes = uint64_t(256) << 20;

} // namespace kiln
