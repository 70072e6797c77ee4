//===- TrialStatus.h - what became of a trial -----------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <cstdint>

namespace kiln {

/// What became of one candidate.
enum class TrialStatus {
  Ok,
  Wrong,        ///< some element is outside of the tolerance, or differs from
                ///< run to run
  OutOfBounds,  ///< wrote outside of its operands
  NotWritten,   ///< left an element of an output as it was
  LaunchFailed, ///< the device cannot load or launch it
  NotTried,     ///< something failed that says nothing about the config
  OutOfMemory,  ///< no room on the device: says nothing about the config
  Timeout,      ///< not done within the time limit
  Late,         ///< ran, perhaps beside others, and did not end in time
  ContextDead,  ///< the context died; it or somebody before it is to blame
};
llvm::StringRef nameOf(TrialStatus status);

/// The CUresults that say of a config, in any process, that this device cannot
/// take it, and their names. All others may be the doing of somebody else.
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

/// What is said of a kernel whose results are wrong, at whatever extent.
inline constexpr TrialStatus kWrongResults[] = {
    TrialStatus::Wrong, TrialStatus::OutOfBounds, TrialStatus::NotWritten};
bool isWrongResult(TrialStatus status);
/// The same of a stored reason: a status, then details.
bool isWrongResult(llvm::StringRef reason);

/// True for what the config itself is to blame for, here and in any process:
/// only that may be stored.
bool isConfigFault(TrialStatus status);

} // namespace kiln
