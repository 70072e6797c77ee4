//===- sample/ClusterSampleConfig.h - knobs of a row in a cluster ---------===//
#pragma once

#include "sample/SampleLayout.h"

namespace kiln {

/// A cluster for each row (sm_90), whose blocks share its tokens.
struct ClusterSampleConfig {
  int blockThreads = 1024;
  int items = 2;   ///< vectors that a thread has in flight at once
  int cluster = 8; ///< blocks of a row
  /// Thousands (1024) of tokens that a block keeps in shared memory; 0: it
  /// reads them again.
  int slice = 0;

  static constexpr const char *kName = "cluster";
  static constexpr int kSliceTokens = 1024;
  static constexpr int kMostSlice = 56; ///< 224 KiB

  template <class F> static constexpr void forEachField(F &&f) {
    using C = ClusterSampleConfig;
    f("t", "blockThreads", &C::blockThreads, 1024);
    f("i", "items", &C::items, 2);
    f("c", "cluster", &C::cluster, 8);
    f("s", "slice", &C::slice, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks(const SampleSignature &signature) const {
    return sampleMinBlocks(signature, blockThreads);
  }
  constexpr int rowBlocks() const { return cluster; }
  constexpr int keptTokens() const { return slice * kSliceTokens; }
  constexpr bool isSpread() const { return false; }
  constexpr int sharedBytes(const SampleSignature &signature) const {
    return sampleLayout(signature, keptTokens(), cluster).bytes;
  }
  constexpr int registers(const SampleSignature &signature) const {
    return sampleRegisters(signature, blockThreads, items);
  }
  constexpr bool isValid(const SampleSignature &signature) const {
    return signature.isWellFormed() &&
           (blockThreads == 256 || blockThreads == 512 ||
            blockThreads == 1024) &&
           items >= 1 && items <= mostSampleItems(signature) &&
           (cluster == 2 || cluster == 4 || cluster == 8) && slice >= 0 &&
           slice <= kMostSlice;
  }

  friend constexpr bool operator==(const ClusterSampleConfig &,
                                   const ClusterSampleConfig &) = default;
};

} // namespace kiln
