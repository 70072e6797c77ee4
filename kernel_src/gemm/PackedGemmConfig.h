//===- gemm/PackedGemmConfig.h - knobs of the GEMM on packed weights ------===//
#pragma once

#include "common/PackedWeights.h"
#include "gemm/GemmSignature.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Reads packed weights (common/PackedWeights.h) once for up to 64 rows of A,
/// the vectors, on mma.sync, sm_80 and up (W4A16, W8A16). A block computes
/// `rows` rows of the weight by `vectors`; its warps split k, in steps of warpK
/// each.
struct PackedGemmConfig {
  int rows = 16, vectors = 8;
  int warpK = 64;
  int stages = 8;     ///< steps of a warp whose weights are in registers
  int ringStages = 4; ///< steps whose vectors are in shared memory
  int warps = 4;
  int minBlocksPerSm = 2;
  int splits = 0; ///< 1: any splitK; 0: only 1, for less code
  int splitK = 1; ///< run-time value: blocks that share a tile

  static constexpr const char *kName = "packed";
  static constexpr int streamsA = 0;         ///< for StreamedRows.cuh
  static constexpr bool kTakesPacked = true; ///< for GemmTemplate.h
  static constexpr bool kTakesGroups = true;
  static constexpr bool kAlignsRowsOfA = true;

  template <class F> static constexpr void forEachField(F &&f) {
    f("r", "rows", &PackedGemmConfig::rows, 16);
    f("v", "vectors", &PackedGemmConfig::vectors, 8);
    f("k", "warpK", &PackedGemmConfig::warpK, 64);
    f("st", "stages", &PackedGemmConfig::stages, 8);
    f("rs", "ringStages", &PackedGemmConfig::ringStages, 4);
    f("w", "warps", &PackedGemmConfig::warps, 4);
    f("mb", "minBlocksPerSm", &PackedGemmConfig::minBlocksPerSm, 2);
    f("sp", "splits", &PackedGemmConfig::splits, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("sk", "splitK", &PackedGemmConfig::splitK, 1);
  }

  constexpr int threads() const { return 32 * warps; }
  constexpr int minBlocks() const { return minBlocksPerSm; }
  constexpr int rowsPerBlock() const { return rows; }
  /// Elements of k in a step of all warps.
  constexpr int blockK() const { return warpK * warps; }
  constexpr int accumulators() const { return rows * vectors / 32; }
  /// Elements of k between two applications of a scale.
  constexpr int partK(const GemmSignature &signature) const {
    int group = signature.groupB;
    return group == 0 || group > warpK ? warpK : group;
  }
  /// Registers that hold a step: weights, scales and zero points.
  constexpr int stepRegisters(const GemmSignature &signature) const {
    int units = rows / 16, parts = warpK / partK(signature);
    int words = signature.scaleTypeB == DType::FP32 ? 2 : 1;
    int perPart = signature.groupB ? words + signature.zeroB : 0;
    return units * (warpK / 64 * bitsOf(signature.typeB()) + parts * perPart);
  }

  /// Row pitch, in floats, of a warp's staged sums, in the layout of D.
  constexpr int stagingPitch() const { return rows + 4; }
  constexpr int stagingFloats() const { return stagingPitch() * vectors; }
  /// One warp's ring of vectors.
  constexpr int ringBytes() const { return ringStages * vectors * warpK * 2; }
  /// The rings of the warps, which the sums reuse, and the table of groups.
  constexpr int sharedBytes(const GemmSignature &signature) const {
    return tileBytes() + signature.groupTableBytes();
  }
  constexpr int tileBytes() const {
    int staging = stagingFloats() * 4;
    return warps * (ringBytes() > staging ? ringBytes() : staging);
  }

  constexpr bool isValid(const GemmSignature &signature) const {
    if (!signature.isWellFormed() || !signature.isPacked() ||
        signature.alignA != 16)
      return false;
    // Units are 16 rows, of which a block of weights has four.
    if ((rows != 16 && rows != 32 && rows != 64) || vectors < 8 ||
        vectors % 8 != 0 || vectors > 64 || accumulators() > 64)
      return false;
    if (warpK != 64 && warpK != 128)
      return false;
    if (warps < 1 || warps > 32 || minBlocksPerSm < 1 || stages < 2 ||
        stages > 12 || ringStages < 2 || ringStages > stages)
      return false;
    if (signature.hasGroups() && splits != 0)
      return false;
    return splitK >= 1 && (splits == 1 || (splits == 0 && splitK == 1));
  }

  constexpr SplitTiles grid() const { return {vectors, rows, splitK}; }

  friend constexpr bool operator==(const PackedGemmConfig &,
                                   const PackedGemmConfig &) = default;
};

} // namespace kiln
