//===- Workspace.h - memory that launches work in -------------------------===//
#pragma once

#include "Driver/LaunchSpec.h"

#include <algorithm>
#include <cstdint>

namespace kiln {

/// Memory that a launch works in: first the zeroed region, which is zero when a
/// launch begins and left zero by it (counters live there, and partial sums
/// whose non-zero value is the ready flag), then scratch of any content. Plans
/// that share a workspace share its regions, each as large as their largest, so
/// that no plan writes where another expects zeros.
struct WorkspaceLayout {
  static constexpr uint64_t kAlignment = 256; ///< of both regions
  uint64_t zeroedBytes = 0, scratchBytes = 0;

  /// The bytes of a workspace with a zeroed region of \p zeroed bytes.
  uint64_t bytesBehind(uint64_t zeroed) const {
    return scratchBytes ? scratchBegin(zeroed) + scratchBytes : zeroedBytes;
  }
  uint64_t bytes() const { return bytesBehind(zeroedBytes); }

  /// The offset of scratch behind a zeroed region of \p zeroed bytes.
  static uint64_t scratchBegin(uint64_t zeroed) {
    return (zeroed + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Makes it the layout for plans of either layout.
  void merge(const WorkspaceLayout &other) {
    zeroedBytes = std::max(zeroedBytes, other.zeroedBytes);
    scratchBytes = std::max(scratchBytes, other.scratchBytes);
  }
};

/// Scratch memory for one launch.
struct Workspace {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
  /// The zeroed region is zero, as after a launch.
  bool isZeroed = false;
  /// The bytes of that region; 0: as in the plan's layout.
  uint64_t zeroedBytes = 0;
  /// The launch uses no workspace (Binder::usesWorkspace), and this has no
  /// memory.
  bool isUnused = false;
};

} // namespace kiln
