//===- gemm/FfmaGemmConfig.h - knobs of the multistage FFMA GEMM ----------===//
#pragma once

#include "gemm/GemmSignature.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Multistage FFMA kernel for fp32 data, sm_80 and up: exact products of any
/// layout and alignment. A block computes blockM x blockN, with `stages` tiles
/// of blockK in shared memory. A thread has microM x microN sums, and the lanes
/// of a warp are lanesM high. Each of warpsK groups of warps takes every
/// warpsK-th step of four along k of a tile.
struct FfmaGemmConfig {
  int blockM = 128, blockN = 128, blockK = 32;
  int stages = 3;
  int microM = 16, microN = 8;
  int lanesM = 4;
  int warpsK = 1;
  int transposes = 0; ///< 1: K-major operands are transposed while they are
                      ///< loaded
  int minBlocksPerSm = 2;
  int splits = 0;      ///< 1: any splitK; 0: only 1, for less code
  int splitK = 1;      ///< run-time value
  int waveBlocks = 0;  ///< run-time value: SplitTiles::waveBlocks
  int rasterGroup = 8; ///< run-time value

  static constexpr const char *kName = "ffma";
  static constexpr bool kTakesGroups = true; ///< for GemmTemplate.h

  template <class F> static constexpr void forEachField(F &&f) {
    f("bm", "blockM", &FfmaGemmConfig::blockM, 128);
    f("bn", "blockN", &FfmaGemmConfig::blockN, 128);
    f("bk", "blockK", &FfmaGemmConfig::blockK, 32);
    f("st", "stages", &FfmaGemmConfig::stages, 3);
    f("tm", "microM", &FfmaGemmConfig::microM, 16);
    f("tn", "microN", &FfmaGemmConfig::microN, 8);
    f("lm", "lanesM", &FfmaGemmConfig::lanesM, 4);
    f("wk", "warpsK", &FfmaGemmConfig::warpsK, 1);
    f("tr", "transposes", &FfmaGemmConfig::transposes, 0);
    f("mb", "minBlocksPerSm", &FfmaGemmConfig::minBlocksPerSm, 2);
    f("sp", "splits", &FfmaGemmConfig::splits, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("sk", "splitK", &FfmaGemmConfig::splitK, 1);
    f("wb", "waveBlocks", &FfmaGemmConfig::waveBlocks, 0);
    f("rg", "rasterGroup", &FfmaGemmConfig::rasterGroup, 8);
  }

  constexpr int lanesN() const { return 32 / lanesM; }
  constexpr int warpTileM() const { return lanesM * microM; }
  constexpr int warpTileN() const { return lanesN() * microN; }
  constexpr int warpsM() const { return blockM / warpTileM(); }
  constexpr int warpsN() const { return blockN / warpTileN(); }
  /// Threads of a group, which share a step of k; there are warpsK groups.
  constexpr int groupThreads() const {
    return (blockM / microM) * (blockN / microN);
  }
  constexpr int threads() const { return groupThreads() * warpsK; }
  constexpr int minBlocks() const { return minBlocksPerSm; }
  /// Vectors of A that a thread has in flight, including the one in use: as
  /// many as registers allow where three blocks of 128 threads share an SM.
  constexpr int ahead() const { return microM * microN == 64 ? 2 : 4; }
  /// Steps of four along k of each tile that a warp multiplies.
  constexpr int steps() const { return blockK / 4 / warpsK; }

  /// Floats of padding behind the rows of a tile, for each order of the tile.
  constexpr int padding(bool isTransposed) const {
    return isTransposed ? 4 : 0;
  }
  constexpr int stageBytes(const GemmSignature &signature) const {
    int padded = padding(transposes != 0 && signature.isKMajorA()) +
                 padding(transposes != 0 && signature.isKMajorB());
    return (blockM + blockN + padded) * blockK * 4;
  }
  /// The ring of stages, which the sums of the groups of warps reuse, and the
  /// table of groups of rows.
  constexpr int sharedBytes(const GemmSignature &signature) const {
    return tileBytes(signature) + signature.groupTableBytes();
  }
  constexpr int tileBytes(const GemmSignature &signature) const {
    int ring = stages * stageBytes(signature);
    int sums = (warpsK - 1) * blockM * blockN * 4;
    return ring > sums ? ring : sums;
  }

  /// Limits of the template itself. The pruner knows the limits of an
  /// architecture (shared memory, registers).
  constexpr bool isValid(const GemmSignature &signature) const {
    bool positive = blockM > 0 && blockN > 0 && microM > 0 && microN > 0 &&
                    warpsK > 0 && minBlocksPerSm > 0 && splitK > 0 &&
                    rasterGroup > 0;
    if (!positive || !signature.isWellFormed() || bytesOf(signature.in) < 2 ||
        signature.in != DType::FP32 || signature.compute != ComputeMode::Native)
      return false;
    if (stages < 2 || stages > 16 || warpsK > 8)
      return false;
    if (splits != 1 && (splits != 0 || splitK != 1))
      return false;
    if (signature.hasGroups() && splits != 0)
      return false;
    if (waveBlocks < 0 || (waveBlocks > 0 && splitK == 1))
      return false;
    // A thread's sums are in groups of four rows and four columns; fragments of
    // the rows pass through four vectors of registers.
    if ((microM != 4 && microM != 8 && microM != 12 && microM != 16) ||
        (microN != 4 && microN != 8 && microN != 12))
      return false;
    if (lanesM != 1 && lanesM != 2 && lanesM != 4 && lanesM != 8 &&
        lanesM != 16 && lanesM != 32)
      return false;
    if (blockM > 1024 || blockN > 1024 || blockM % warpTileM() != 0 ||
        blockN % warpTileN() != 0 || threads() > 1024)
      return false;
    // Rows along k are up to 128 bytes, and warps alternate between two sets
    // of fragments.
    if ((blockK != 16 && blockK != 32) || blockK / 4 % warpsK != 0 ||
        steps() % 2 != 0)
      return false;
    bool hasKMajor = signature.isKMajorA() || signature.isKMajorB();
    if (transposes != 0 && (transposes != 1 || !hasKMajor))
      return false;
    return isLoadable(signature.isKMajorA(), blockM, signature.alignA) &&
           isLoadable(signature.isKMajorB(), blockN, signature.alignB);
  }

  constexpr SplitTiles grid() const {
    return {blockM, blockN, splitK, waveBlocks};
  }

  friend constexpr bool operator==(const FfmaGemmConfig &,
                                   const FfmaGemmConfig &) = default;

private:
  static constexpr bool isPowerOfTwo(int value) {
    return (value & (value - 1)) == 0;
  }

  /// True when one pass of the threads' copies covers whole rows and passes
  /// cover the tile. Rows of shared memory are powers of two, because offsets
  /// are joined by exclusive or. Exception: where eight threads transpose a
  /// row, they need not be.
  constexpr bool isLoadable(bool kMajor, int extent, int align) const {
    if (!isPowerOfTwo(threads()))
      return false;
    if (kMajor && transposes != 0)
      return isPowerOfTwo(extent) || extent % (threads() / 8) == 0;
    if (!isPowerOfTwo(extent))
      return false;
    int rowBytes = (kMajor ? blockK : extent) * 4;
    return rowBytes >= align && rowBytes / align <= threads();
  }
};

} // namespace kiln
