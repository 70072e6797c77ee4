//===- LaunchLimits.h - the limits of every launch ------------------------===//
#pragma once

#include "Kernel/Template.h"

#include <initializer_list>
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

/// The most that gridDim.y and gridDim.z count, on all architectures.
inline constexpr int64_t kMaxGridYZ = 65535;

/// The rejection of grids of more blocks than these count.
inline std::optional<Rejection>
checkGridYZ(std::initializer_list<double> blocks) {
  for (double each : blocks)
    if (each > double(kMaxGridYZ))
      return Rejection{PruneReason::Grid, each, double(kMaxGridYZ), "blocks"};
  return std::nullopt;
}

/// The rejection of devices before sm_80: cp.async, cache policies, mma.sync of
/// bf16.
inline std::optional<Rejection> checkAmpere(const DeviceModel &device) {
  constexpr int kFirstCapability = 80;
  if (device.computeCapability() >= kFirstCapability)
    return std::nullopt;
  return Rejection{PruneReason::Architecture,
                   double(device.computeCapability()), kFirstCapability};
}

/// Whether a kernel may begin before the one ahead of it has ended.
inline bool hasDependentLaunch(const DeviceModel &device) {
  return device.ccMajor >= 9;
}

/// wgmma is of this architecture alone.
inline constexpr int kWgmmaCapability = 90;
inline bool hasWgmma(const DeviceModel &device) {
  return device.computeCapability() == kWgmmaCapability;
}
/// The rejection of all others.
inline std::optional<Rejection> checkWgmma(const DeviceModel &device) {
  if (hasWgmma(device))
    return std::nullopt;
  return Rejection{PruneReason::Architecture,
                   double(device.computeCapability()), kWgmmaCapability};
}

/// The rejection of devices without the unit of \p rate, by which estimates of
/// the kernel divide.
inline std::optional<Rejection> checkRate(const DeviceModel &device,
                                          double DeviceModel::*rate) {
  if (hasRate(device, rate))
    return std::nullopt;
  return Rejection{PruneReason::Type};
}

/// The rejection of an alignment of \p align bytes where \p least are needed.
inline std::optional<Rejection> checkAlign(int64_t align, int64_t least) {
  if (align >= least)
    return std::nullopt;
  return Rejection{PruneReason::Alignment, double(align), double(least), "B"};
}
inline constexpr int kTmaAlign = 16; ///< bytes of a tensor map's addresses

/// The rejection of extents of more \p unit than TMA's coordinates, which are
/// ints, count where a box reaches \p box beyond the last.
inline std::optional<Rejection>
checkTmaExtent(double extent, llvm::StringRef unit, double box = 0) {
  const double most = 2147483647 - box;
  if (extent <= most)
    return std::nullopt;
  return Rejection{PruneReason::Grid, extent, most, unit};
}

/// The rejection of strides of 2^40 bytes and more: TMA takes none.
inline std::optional<Rejection>
checkTmaStrides(std::initializer_list<double> strides) {
  constexpr double kMaxStride = double(int64_t(1) << 40);
  for (double stride : strides)
    if (stride >= kMaxStride)
      return Rejection{PruneReason::Alignment, stride, kMaxStride, "B"};
  return std::nullopt;
}

} // namespace kiln
