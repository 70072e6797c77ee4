//===- gemm/SimtGemmConfig.h - knobs of the SIMT GEMM ---------------------===//
#pragma once

#include "gemm/GemmSignature.h"
#include "gemm/SplitTiles.h"

namespace kiln {

/// Register-blocked FFMA kernel: exact fp32 products, any architecture,
/// layout and alignment. A block computes blockM x blockN, a thread
/// microM x microN of it.
struct SimtGemmConfig {
  int blockM = 128, blockN = 128, blockK = 8;
  int microM = 8, microN = 8;
  int minBlocksPerSm = 2;
  int rasterGroup = 8; ///< run-time value

  static constexpr const char *kName = "simt";

  template <class F> static constexpr void forEachField(F &&f) {
    f("bm", "blockM", &SimtGemmConfig::blockM, 128);
    f("bn", "blockN", &SimtGemmConfig::blockN, 128);
    f("bk", "blockK", &SimtGemmConfig::blockK, 8);
    f("tm", "microM", &SimtGemmConfig::microM, 8);
    f("tn", "microN", &SimtGemmConfig::microN, 8);
    f("mb", "minBlocksPerSm", &SimtGemmConfig::minBlocksPerSm, 2);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("rg", "rasterGroup", &SimtGemmConfig::rasterGroup, 8);
  }

  constexpr int threads() const {
    return (blockM / microM) * (blockN / microN);
  }
  constexpr int minBlocks() const { return minBlocksPerSm; }

  /// Row pitch of the k-by-extent tiles, in floats: the pad spreads transposed
  /// stores over the banks and keeps rows aligned to 16 bytes.
  constexpr int pitchM() const { return blockM + 4; }
  constexpr int pitchN() const { return blockN + 4; }

  /// Two buffers of both tiles, as fp32.
  constexpr int sharedBytes(const GemmSignature &) const {
    return 2 * blockK * (pitchM() + pitchN()) * 4;
  }

  constexpr bool isValid(const GemmSignature &signature) const {
    bool positive = blockM > 0 && blockN > 0 && blockK > 0 && microM > 0 &&
                    microN > 0 && minBlocksPerSm > 0 && rasterGroup > 0;
    if (!positive || !signature.isWellFormed() || bytesOf(signature.in) < 2 ||
        signature.compute != ComputeMode::Native)
      return false;
    bool micro = microM % 4 == 0 && microN % 4 == 0 && microM * microN <= 128;
    if (!micro || blockK % 4 != 0)
      return false;
    // A warp's lanes are four micro-tiles high and eight wide.
    if (blockM % (4 * microM) != 0 || blockN % (8 * microN) != 0)
      return false;
    return threads() <= 1024 && isLoadable(signature.isKMajorA(), blockM) &&
           isLoadable(signature.isKMajorB(), blockN);
  }

  constexpr SplitTiles grid() const { return {blockM, blockN}; }

  friend constexpr bool operator==(const SimtGemmConfig &,
                                   const SimtGemmConfig &) = default;

private:
  /// True when every thread loads equally many groups of four elements, and
  /// one pass of the threads covers whole rows.
  constexpr bool isLoadable(bool kMajor, int extent) const {
    int groupsPerRow = (kMajor ? blockK : extent) / 4;
    return (extent * blockK) % (4 * threads()) == 0 &&
           threads() % groupsPerRow == 0;
  }
};

} // namespace kiln
