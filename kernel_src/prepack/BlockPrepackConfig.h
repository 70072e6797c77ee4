//===- prepack/BlockPrepackConfig.h - knobs of the packing of weights -----===//
#pragma once

#include "common/PackedWeights.h"
#include "prepack/PrepackParams.h"
#include "prepack/PrepackSignature.h"

namespace kiln {

/// Tiles of 64 rows and a few blocks of 64 k, moved through shared memory. Any
/// architecture and size.
struct BlockPrepackConfig {
  int blockThreads = 128;
  int depthBlocks = 2; ///< blocks of 64 k in a tile

  static constexpr const char *kName = "blocks";

  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &BlockPrepackConfig::blockThreads, 128);
    f("kb", "depthBlocks", &BlockPrepackConfig::depthBlocks, 2);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return 1; }
  constexpr bool isValid(const PrepackSignature &signature) const {
    return signature.isWellFormed() && blockThreads >= 32 &&
           blockThreads <= 1024 && blockThreads % 32 == 0 && depthBlocks >= 1 &&
           depthBlocks <= kMaxDepthBlocks;
  }

  // Shared memory has the words of a tile in the source's order: a row for each
  // row of the weight or, where words lie along the rows, for each k. One word
  // of padding for each row spreads its column over the banks.
  constexpr int tileRows(const PrepackSignature &signature) const {
    return isAlongRows(signature) ? depthBlocks * 64 : 64;
  }
  constexpr int rowWords(const PrepackSignature &signature) const {
    return isAlongRows(signature) ? 8 : depthBlocks * 2 * signature.bits();
  }
  constexpr int pitchWords(const PrepackSignature &signature) const {
    return rowWords(signature) + 1;
  }
  constexpr int sharedBytes(const PrepackSignature &signature) const {
    return tileRows(signature) * pitchWords(signature) * 4;
  }

  /// About the registers that ptxas 13.0 gives a thread.
  constexpr int registers() const { return 48; }

  /// Tiles of a problem.
  constexpr long long tiles(long long n, long long k) const {
    return PackedWeights::blocksOf(n) * depthTiles(k);
  }
  constexpr long long depthTiles(long long k) const {
    return (PackedWeights::blocksOf(k) + depthBlocks - 1) / depthBlocks;
  }
  /// Blocks of the one-dimensional grid, which stride over the tiles.
  constexpr long long blocks(long long n, long long k) const {
    long long wanted = tiles(n, k);
    return wanted < kMaxBlocks ? wanted : kMaxBlocks;
  }

  friend constexpr bool operator==(const BlockPrepackConfig &,
                                   const BlockPrepackConfig &) = default;

  static constexpr int kMaxDepthBlocks = 8;
  static constexpr long long kMaxBlocks = 1ll << 30;

private:
  static constexpr bool isAlongRows(const PrepackSignature &signature) {
    return signature.source == WeightSource::Awq;
  }
};

/// A thread for each element of the result. The tuner does not choose it, so it
/// has no fields.
struct ReferencePrepackConfig {
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const PrepackSignature &) const { return 0; }
  constexpr bool isValid(const PrepackSignature &) const { return true; }
  constexpr long long blocks(long long rows, long long columns) const {
    const double wanted = double(rows) * double(columns) / threads() + 1;
    return wanted < double(kMaxBlocks) ? static_cast<long long>(wanted)
                                       : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferencePrepackConfig &,
                                   const ReferencePrepackConfig &) = default;
};

} // namespace kiln
