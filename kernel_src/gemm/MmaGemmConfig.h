//===- gemm/MmaGemmConfig.h - knobs of the mma.sync GEMM ------------------===//
#pragma once

#include "gemm/ByteProducts.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Multistage mma.sync kernel, sm_80 and up: types of two bytes and of one, and
/// fp32 data in tf32 mode. A block computes blockM x blockN by warpsM x warpsN
/// warps, with `stages` tiles of blockK in shared memory.
struct MmaGemmConfig {
  int blockM = 128, blockN = 128, blockK = 32;
  int stages = 4;
  int warpsM = 2, warpsN = 2;
  int minBlocksPerSm = 1;
  int splits = 0;      ///< 1: any splitK; 0: only 1, for a fifth less code
  int splitK = 1;      ///< run-time value
  int rasterGroup = 8; ///< run-time value

  static constexpr const char *kName = "mma";
  static constexpr bool kTakesGroups = true; ///< for GemmTemplate.h

  /// Visits the knobs of the translation unit: key, member name, member,
  /// default.
  template <class F> static constexpr void forEachField(F &&f) {
    f("bm", "blockM", &MmaGemmConfig::blockM, 128);
    f("bn", "blockN", &MmaGemmConfig::blockN, 128);
    f("bk", "blockK", &MmaGemmConfig::blockK, 32);
    f("st", "stages", &MmaGemmConfig::stages, 4);
    f("wm", "warpsM", &MmaGemmConfig::warpsM, 2);
    f("wn", "warpsN", &MmaGemmConfig::warpsN, 2);
    f("mb", "minBlocksPerSm", &MmaGemmConfig::minBlocksPerSm, 1);
    f("sp", "splits", &MmaGemmConfig::splits, 0);
  }
  /// Visits the knobs that are passed in GemmParams: configs that differ only
  /// here share an artifact.
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("sk", "splitK", &MmaGemmConfig::splitK, 1);
    f("rg", "rasterGroup", &MmaGemmConfig::rasterGroup, 8);
  }

  constexpr int threads() const { return 32 * warpsM * warpsN; }
  constexpr int minBlocks() const { return minBlocksPerSm; }
  constexpr int warpTileM() const { return blockM / warpsM; }
  constexpr int warpTileN() const { return blockN / warpsN; }

  /// Row pitch, in floats, of the epilogue's staging: 8 modulo 32 keeps the
  /// stores of accumulator pairs free of bank conflicts.
  constexpr int epiloguePitch() const {
    return warpTileN() + (40 - warpTileN() % 32) % 32;
  }
  constexpr int stageBytes(const GemmSignature &signature) const {
    return (blockM + blockN) * blockK * bytesOf(signature.in);
  }
  constexpr int ringBytes(const GemmSignature &signature) const {
    return stages * stageBytes(signature);
  }
  /// Rows of each warp's tile that the epilogue stages at once: as many as the
  /// ring has room for (fewer passes are less code), at least 16.
  constexpr int epilogueRows(const GemmSignature &signature) const {
    int rows = warpTileM();
    while (rows % 32 == 0 && epilogueBytes(rows) > ringBytes(signature))
      rows /= 2;
    return epilogueBytes(rows) > ringBytes(signature) ? 16 : rows;
  }
  /// Dynamic shared memory of a block: the ring of stages, which the epilogue
  /// reuses, and the table of groups.
  constexpr int sharedBytes(const GemmSignature &signature) const {
    return tileBytes(signature) + signature.groupTableBytes();
  }
  constexpr int tileBytes(const GemmSignature &signature) const {
    int ring = ringBytes(signature);
    int epilogue = epilogueBytes(epilogueRows(signature));
    return ring > epilogue ? ring : epilogue;
  }

  /// Limits of the template itself. The pruner knows the limits of an
  /// architecture (shared memory, registers).
  constexpr bool isValid(const GemmSignature &signature) const {
    bool positive = blockM > 0 && blockN > 0 && blockK > 0 && warpsM > 0 &&
                    warpsN > 0 && minBlocksPerSm > 0 && splitK > 0 &&
                    rasterGroup > 0;
    if (!positive || !signature.isWellFormed())
      return false;
    // fp32 data needs tf32 mode here; SIMT computes its exact products.
    if (signature.in == DType::FP32 && signature.compute != ComputeMode::TF32)
      return false;
    if (stages < 2 || stages > 16 || threads() > 1024)
      return false;
    if (splits != 1 && (splits != 0 || splitK != 1))
      return false;
    if (signature.hasGroups() && splits != 0)
      return false;
    // Instructions are 16 x 8; B's fragments are loaded 16 columns at a time.
    if (blockM % (16 * warpsM) != 0 || blockN % (16 * warpsN) != 0)
      return false;
    // A warp's columns have one scale of B, and partial sums need registers
    // beside the sums.
    if (signature.hasBlockScales() &&
        (kPromotedDepth % warpTileN() != 0 || blockM * blockN / threads() > 64))
      return false;
    // Fragments alternate between two register sets: an even number of steps
    // of 32 bytes along k, and a power of two for the swizzle.
    int kBytes = blockK * bytesOf(signature.in);
    if (kBytes < 64 || kBytes > 256 || (kBytes & (kBytes - 1)) != 0)
      return false;
    // 255 registers hold 128 accumulators beside the fragments.
    if (blockM * blockN / threads() > 128)
      return false;
    return isLoadable(signature.isKMajorA(), blockM, signature.alignA,
                      signature) &&
           isLoadable(signature.isKMajorB(), blockN, signature.alignB,
                      signature);
  }

  constexpr SplitTiles grid() const { return {blockM, blockN, splitK}; }

  friend constexpr bool operator==(const MmaGemmConfig &,
                                   const MmaGemmConfig &) = default;

private:
  constexpr int epilogueBytes(int rows) const {
    return warpsM * warpsN * rows * epiloguePitch() * 4;
  }

  /// True when the swizzle fits the tile's rows, one pass of the threads covers
  /// whole rows, and a load through registers does not need too many.
  constexpr bool isLoadable(bool kMajor, int extent, int align,
                            const GemmSignature &signature) const {
    int bytes = bytesOf(signature.in);
    int rowBytes = (kMajor ? blockK : extent) * bytes;
    if (rowBytes % 128 != 0 && rowBytes != 64 &&
        !(rowBytes == 32 && bytes <= 2))
      return false;
    // Below 4 bytes of alignment, vectors of 16 pass through registers.
    int unitBytes = align < 4 ? 16 : align;
    if (threads() % (rowBytes / unitBytes) != 0)
      return false;
    return align >= 4 || extent * blockK * bytes / 16 / threads() <= 4;
  }
};

} // namespace kiln
