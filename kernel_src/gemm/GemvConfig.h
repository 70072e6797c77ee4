//===- gemm/GemvConfig.h - knobs of the matrix-vector kernel --------------===//
#pragma once

#include "gemm/GemmSignature.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Reads the rows of one operand once for a few vectors, the rows of the other
/// one, on plain FMA or, for int8, sums of four products. All types, stored NT
/// with rows of 16-byte vectors, sm_80 and up. Products of fp32 are exact, in
/// tf32 mode as well. A warp computes rowsPerWarp rows by `vectors`; warpsK of
/// the block's warps share the same rows and split k.
struct GemvConfig {
  int rowsPerWarp = 4;
  int unroll = 4; ///< vectors of each row that a lane has in flight at once
  int warps = 4, warpsK = 4;
  int vectors = 1;
  int minBlocksPerSm = 4;
  int streamsA = 0;   ///< 1: A is streamed past the rows of B; 0: B past A's
  int evictFirst = 0; ///< 1: lines of the large operand leave L2 first

  static constexpr const char *kName = "gemv";

  template <class F> static constexpr void forEachField(F &&f) {
    f("r", "rowsPerWarp", &GemvConfig::rowsPerWarp, 4);
    f("u", "unroll", &GemvConfig::unroll, 4);
    f("w", "warps", &GemvConfig::warps, 4);
    f("wk", "warpsK", &GemvConfig::warpsK, 4);
    f("v", "vectors", &GemvConfig::vectors, 1);
    f("mb", "minBlocksPerSm", &GemvConfig::minBlocksPerSm, 4);
    f("sa", "streamsA", &GemvConfig::streamsA, 0);
    f("ef", "evictFirst", &GemvConfig::evictFirst, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return 32 * warps; }
  constexpr int minBlocks() const { return minBlocksPerSm; }
  constexpr int rowsPerBlock() const { return rowsPerWarp * (warps / warpsK); }
  /// Elements of k that the block's loads of one round cover.
  constexpr int roundK(DType type) const {
    return 32 * (16 / bytesOf(type)) * unroll * warpsK;
  }

  /// The sums of every part of k, where warps split it.
  constexpr int sharedBytes(const GemmSignature &) const {
    return warpsK * rowsPerBlock() * vectors * 4;
  }

  constexpr bool isValid(const GemmSignature &signature) const {
    bool positive = rowsPerWarp > 0 && unroll > 0 && warps > 0 && warpsK > 0 &&
                    vectors > 0 && minBlocksPerSm > 0;
    if (!positive || !signature.isWellFormed() || signature.hasBlockScales() ||
        streamsA < 0 || streamsA > 1 || evictFirst < 0 || evictFirst > 1)
      return false;
    if (signature.layout != Layout::NT || signature.alignA != 16 ||
        signature.alignB != 16)
      return false;
    if (warps % warpsK != 0 || threads() > 1024)
      return false;
    // The lanes of a warp end with one sum each; each step halves the count.
    int sums = rowsPerWarp * vectors;
    if (sums > 32 || (sums & (sums - 1)) != 0)
      return false;
    // Columns that the chain joins are finished in one run.
    if ((streamsA ? vectors : rowsPerBlock()) % signature.columnsPerOutput())
      return false;
    // Four registers hold a vector; 24 of them leave room for the sums.
    return rowsPerWarp * unroll <= 24;
  }

  constexpr SplitTiles grid() const {
    return {streamsA ? rowsPerBlock() : vectors,
            streamsA ? vectors : rowsPerBlock()};
  }

  friend constexpr bool operator==(const GemvConfig &,
                                   const GemvConfig &) = default;
};

} // namespace kiln
