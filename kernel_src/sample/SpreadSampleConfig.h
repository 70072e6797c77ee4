//===- sample/SpreadSampleConfig.h - knobs of a row in many blocks --------===//
#pragma once

#include "sample/SampleLayout.h"

namespace kiln {

/// Any number of blocks for each row, of which the last to arrive writes the
/// token. For choices that one pass over the logits decides.
struct SpreadSampleConfig {
  int blockThreads = 512;
  int items = 2;  ///< vectors that a thread has in flight at once
  int ranges = 1; ///< blocks of a row

  static constexpr const char *kName = "spread";

  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &SpreadSampleConfig::blockThreads, 512);
    f("i", "items", &SpreadSampleConfig::items, 2);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("k", "ranges", &SpreadSampleConfig::ranges, 1);
  }

  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks(const SampleSignature &signature) const {
    return sampleMinBlocks(signature, blockThreads);
  }
  constexpr int rowBlocks() const { return 1; }
  constexpr int keptTokens() const { return 0; }
  constexpr bool isSpread() const { return true; }
  constexpr int sharedBytes(const SampleSignature &signature) const {
    return sampleLayout(signature, 0, 1).bytes;
  }
  constexpr int registers(const SampleSignature &signature) const {
    return sampleRegisters(signature, blockThreads, items);
  }
  constexpr bool isValid(const SampleSignature &signature) const {
    return signature.isWellFormed() && !signature.lists() &&
           (blockThreads == 256 || blockThreads == 512 ||
            blockThreads == 1024) &&
           items >= 1 && items <= mostSampleItems(signature);
  }

  friend constexpr bool operator==(const SpreadSampleConfig &,
                                   const SpreadSampleConfig &) = default;
};

} // namespace kiln
