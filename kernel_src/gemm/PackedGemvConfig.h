//===- gemm/PackedGemvConfig.h - knobs of packed weights past a vector ----===//
#pragma once

#include "common/PackedWeights.h"
#include "gemm/GemmSignature.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Reads packed weights (common/PackedWeights.h) past one row of A, the vector,
/// which its blocks keep in shared memory, on mma.sync, sm_80 and up. As many
/// blocks as run at once take the tiles in turn. A warp has 16 rows of the
/// weight; warpsK warps share them and split k.
struct PackedGemvConfig {
  int warps = 16, warpsK = 16;
  int stages = 6; ///< steps of a warp whose weights are in flight
  int depth = 32; ///< steps of the largest k
  int minBlocksPerSm = 1;

  static constexpr const char *kName = "packedgemv";
  static constexpr int streamsA = 0;         ///< for StreamedRows.cuh
  static constexpr int kUnitRows = 16;       ///< of a fragment
  static constexpr int kStepK = 128;         ///< of a warp
  static constexpr bool kTakesPacked = true; ///< for GemmTemplate.h
  static constexpr bool kAlignsRowsOfA = true;
  static constexpr bool kSharesTiles = true;

  template <class F> static constexpr void forEachField(F &&f) {
    f("w", "warps", &PackedGemvConfig::warps, 16);
    f("wk", "warpsK", &PackedGemvConfig::warpsK, 16);
    f("st", "stages", &PackedGemvConfig::stages, 6);
    f("d", "depth", &PackedGemvConfig::depth, 32);
    f("mb", "minBlocksPerSm", &PackedGemvConfig::minBlocksPerSm, 1);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  /// One warp more finishes tiles.
  constexpr int threads() const { return 32 * (warps + 1); }
  constexpr int minBlocks() const { return minBlocksPerSm; }
  constexpr int units() const { return warps / warpsK; }
  constexpr int rowsPerBlock() const { return kUnitRows * units(); }
  /// Elements of k between two applications of a scale.
  constexpr int partK(const GemmSignature &signature) const {
    int group = signature.groupB;
    return group == 0 || group > kStepK ? kStepK : group;
  }

  /// Bytes of a warp's step: weights, and of each group the scales and zero
  /// points of 16 rows.
  constexpr int stepBytes(const GemmSignature &signature) const {
    int weights = kUnitRows * kStepK * bitsOf(signature.typeB()) / 8;
    int pair = signature.groupB ? bytesOf(signature.scaleTypeB) : 0;
    pair += signature.groupB ? signature.zeroB : 0;
    return weights + kStepK / partK(signature) * kUnitRows * pair;
  }
  constexpr int ringBytes(const GemmSignature &signature) const {
    return warps * stages * stepBytes(signature);
  }
  constexpr int vectorBytes() const { return depth * kStepK * 2; }
  /// A sum and a factor for each part of the vector.
  constexpr int partBytes(const GemmSignature &signature) const {
    return signature.typeB() == DType::INT4
               ? depth * (kStepK / partK(signature)) * 8
               : 0;
  }
  /// Sums are staged in two places in turn.
  constexpr int sharedBytes(const GemmSignature &signature) const {
    return ringBytes(signature) + vectorBytes() + partBytes(signature) +
           2 * warpsK * rowsPerBlock() * 4;
  }

  constexpr bool isValid(const GemmSignature &signature) const {
    if (!signature.isWellFormed() || !signature.isPacked() ||
        signature.hasGroups() || signature.alignA != 16)
      return false;
    if (warps < 1 || warps > 31 || warpsK < 1 || warps % warpsK != 0)
      return false;
    // Units of a block belong to the same 64 rows.
    if (units() != 1 && units() != 2 && units() != 4)
      return false;
    return stages >= 2 && stages <= 16 && depth >= 1 && depth <= 512 &&
           minBlocksPerSm >= 1;
  }

  constexpr SplitTiles grid() const { return {1, rowsPerBlock()}; }

  friend constexpr bool operator==(const PackedGemvConfig &,
                                   const PackedGemvConfig &) = default;
};

} // namespace kiln
