//===- TrialStatus.h - the outcome of a trial -----------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <cstdint>

namespace kiln {

/// The outcome of the trial of one candidate.
enum class TrialStatus {
  Ok,
  Wrong,        ///< some element is outside of the tolerance, or differs from
                ///< run to run
  OutOfBounds,  ///< wrote outside of its operands
  NotWritten,   ///< left an element of an output unchanged
  LaunchFailed, ///< the device cannot load or launch it
  NotTried,     ///< a failure that says nothing about the config
  OutOfMemory,  ///< no room on the device: says nothing about the config
  Timeout,      ///< not done within the time limit
  Late,         ///< it ran, perhaps beside others, and did not end in time
  ContextDead,  ///< the context died because of this or an earlier launch
};
llvm::StringRef nameOf(TrialStatus status);

/// The CUresults, and their names, which mean in any process that this device
/// cannot run a config. Other work of the process may have caused any other.
struct ConfigRefusal {
  int64_t driverCode;
  llvm::StringLiteral name;
};
inline constexpr ConfigRefusal kConfigRefusals[] = {
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
    {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE"},
};

/// The statuses of a kernel whose results are wrong, at any extent.
inline constexpr TrialStatus kWrongResults[] = {
    TrialStatus::Wrong, TrialStatus::OutOfBounds, TrialStatus::NotWritten};
bool isWrongResult(TrialStatus status);
/// Whether a stored reason, a status and details, is one of these.
bool isWrongResult(llvm::StringRef reason);

/// Whether the config itself is at fault, here and in any process. Only such a
/// status may be stored.
bool isConfigFault(TrialStatus status);

} // namespace kiln
