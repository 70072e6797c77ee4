//===- LaunchLimits.h - the limits of every launch ------------------------===//
#pragma once

#include "Kernel/Template.h"

#include <optional>

namespace kiln {

/// The rejection of blocks of more threads than \p device takes.
inline std::optional<Rejection> checkThreads(int64_t threads,
                                             const DeviceModel &device) {
  if (threads <= device.maxThreadsPerBlock)
    return std::nullopt;
  return Rejection{PruneReason::Threads, double(threads),
                   double(device.maxThreadsPerBlock)};
}

/// The rejection of blocks of more shared memory than \p device gives one.
inline std::optional<Rejection> checkSharedBytes(int64_t bytes,
                                                 const DeviceModel &device) {
  if (bytes <= device.sharedBytesPerBlock)
    return std::nullopt;
  return Rejection{PruneReason::SharedMemory, double(bytes),
                   double(device.sharedBytesPerBlock), "B"};
}

/// The rejection of grids of more \p blocks than gridDim.x counts.
inline std::optional<Rejection> checkGrid(double blocks) {
  constexpr double kMaxGrid = 2147483647; // all architectures
  if (blocks <= kMaxGrid)
    return std::nullopt;
  return Rejection{PruneReason::Grid, blocks, kMaxGrid, "blocks"};
}

} // namespace kiln
