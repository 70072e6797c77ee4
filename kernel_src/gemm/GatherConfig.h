//===- gemm/GatherConfig.h - geometry and parameters of gatherRows --------===//
#pragma once

#include "gemm/GemmParams.h"

namespace kiln {

/// Gathers rows of elements of `elementBytes` bytes.
struct GatherSignature {
  int elementBytes = 2; ///< 1, 2 or 4
  bool hasScales = false;

  friend constexpr bool operator==(const GatherSignature &,
                                   const GatherSignature &) = default;
};

/// The tuner does not choose gatherRows, so it has no fields.
struct GatherConfig {
  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const GatherSignature &) const { return 0; }
  constexpr bool isValid(const GatherSignature &signature) const {
    int bytes = signature.elementBytes;
    return bytes == 1 || bytes == 2 || bytes == 4;
  }

  /// Blocks of the one-dimensional grid for \p rows of \p pitch bytes; the
  /// kernel strides by its grid, so any number works.
  constexpr long long blocks(long long rows, long long pitch) const {
    long long warps = threads() / 32;
    long long wanted = (rows * chunksOf(pitch) + warps - 1) / warps;
    return wanted < kMaxBlocks ? wanted : kMaxBlocks;
  }

  /// Bytes of a row of \p pitch bytes that a warp copies at a time: four
  /// vectors of 16 bytes a lane, whose loads are in flight together.
  static constexpr int kChunkBytes = 4 * 32 * 16;
  static constexpr long long chunksOf(long long pitch) {
    return (pitch + kChunkBytes - 1) / kChunkBytes;
  }

  friend constexpr bool operator==(const GatherConfig &,
                                   const GatherConfig &) = default;

  static constexpr long long kMaxBlocks = 1 << 16;
};

/// Row r of the target is the row of the source that `groups` says, and zeros
/// where its index is invalid; a row of no group is not written. Scales are
/// gathered alike; the target's are packed, `depths` for each row. Pitches are
/// in bytes; the target's rows begin at multiples of 16 and end in zeros.
struct GatherParams {
  const void *source = nullptr;
  void *target = nullptr;
  GroupParams groups{}; ///< with ends
  int groupCount = 0;
  long long rows = 0;
  long long rowBytes = 0, sourcePitch = 0, targetPitch = 0;
  ScaleParams scales{};
  float *targetScales = nullptr;
  long long depths = 0;
  /// Whether the product may begin before the copy ends.
  int letsNextBegin = 0;
};

} // namespace kiln
