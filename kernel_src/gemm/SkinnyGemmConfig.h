//===- gemm/SkinnyGemmConfig.h - knobs of the skinny GEMM -----------------===//
#pragma once

#include "gemm/ByteProducts.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Reads the rows of one operand once for up to 64 vectors, the rows of the
/// other one, on mma.sync: types of two bytes and of one, stored NT with rows
/// of 16-byte vectors, sm_80 and up. A block computes `rows` by `vectors`; its
/// warps split k, each with a ring of `stages` slices of warpK of its own.
struct SkinnyGemmConfig {
  int rows = 16, vectors = 16;
  int warpK = 64;
  int stages = 6;
  int warps = 4;
  int minBlocksPerSm = 2;
  int streamsA = 0; ///< 1: A is streamed past the rows of B; 0: B past A's
  int splits = 0;   ///< 1: any splitK; 0: only 1, for less code
  int splitK = 1;   ///< run-time value: blocks that share a tile

  static constexpr const char *kName = "skinny";

  template <class F> static constexpr void forEachField(F &&f) {
    f("r", "rows", &SkinnyGemmConfig::rows, 16);
    f("v", "vectors", &SkinnyGemmConfig::vectors, 16);
    f("k", "warpK", &SkinnyGemmConfig::warpK, 64);
    f("st", "stages", &SkinnyGemmConfig::stages, 6);
    f("w", "warps", &SkinnyGemmConfig::warps, 4);
    f("mb", "minBlocksPerSm", &SkinnyGemmConfig::minBlocksPerSm, 2);
    f("sa", "streamsA", &SkinnyGemmConfig::streamsA, 0);
    f("sp", "splits", &SkinnyGemmConfig::splits, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("sk", "splitK", &SkinnyGemmConfig::splitK, 1);
  }

  constexpr int threads() const { return 32 * warps; }
  constexpr int minBlocks() const { return minBlocksPerSm; }
  constexpr int rowsPerBlock() const { return rows; }
  /// Elements of k in a stage of all warps.
  constexpr int blockK() const { return warpK * warps; }
  constexpr int accumulators() const { return rows * vectors / 32; }

  /// Row pitch, in floats, of a warp's staged sums, in the layout of D: four
  /// more than a row keep the accumulators' stores free of bank conflicts.
  constexpr int stagingPitch() const { return (streamsA ? vectors : rows) + 4; }
  constexpr int stagingFloats() const {
    return stagingPitch() * (streamsA ? rows : vectors);
  }
  /// One warp's ring.
  constexpr int ringBytes(const GemmSignature &signature) const {
    return stages * (rows + vectors) * warpK * bytesOf(signature.in);
  }
  /// The rings of the warps, which the sums reuse.
  constexpr int sharedBytes(const GemmSignature &signature) const {
    int staging = stagingFloats() * 4, ring = ringBytes(signature);
    return warps * (ring > staging ? ring : staging);
  }

  constexpr bool isValid(const GemmSignature &signature) const {
    if (!signature.isWellFormed() || signature.in == DType::FP32 ||
        signature.layout != Layout::NT || signature.alignA != 16 ||
        signature.alignB != 16)
      return false;
    // Instructions are 16 rows by 8 vectors by 32 bytes of k.
    if (rows < 16 || rows % 16 != 0 || rows > 128 || vectors < 8 ||
        vectors % 8 != 0 || vectors > 64 || accumulators() > 128)
      return false;
    // A block's rows of B have one scale, and partial sums need registers
    // beside the sums.
    if (signature.hasBlockScales() &&
        ((!streamsA && kPromotedDepth % rows != 0) || accumulators() > 64 ||
         warpK > 2 * kPromotedDepth))
      return false;
    // The swizzle needs a power of two. A warp's copies cover whole rows, at
    // most 8 at a time.
    int kBytes = warpK * bytesOf(signature.in);
    if (kBytes != 64 && kBytes != 128 && kBytes != 256 && kBytes != 512)
      return false;
    if (warps < 1 || warps > 32 || minBlocksPerSm < 1 || stages < 2 ||
        stages > 16 || streamsA < 0 || streamsA > 1)
      return false;
    return splitK >= 1 && (splits == 1 || (splits == 0 && splitK == 1));
  }

  constexpr SplitTiles grid() const {
    return {streamsA ? rowsPerBlock() : vectors,
            streamsA ? vectors : rowsPerBlock(), splitK};
  }

  friend constexpr bool operator==(const SkinnyGemmConfig &,
                                   const SkinnyGemmConfig &) = default;
};

} // namespace kiln
