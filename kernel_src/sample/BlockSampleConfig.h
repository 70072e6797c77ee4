//===- sample/BlockSampleConfig.h - knobs of a row in one block -----------===//
#pragma once

#include "sample/SampleLayout.h"

namespace kiln {

/// A block for each row, which it reads as often as it needs it.
struct BlockSampleConfig {
  int blockThreads = 1024;
  int items = 2; ///< vectors that a thread has in flight at once

  static constexpr const char *kName = "block";

  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &BlockSampleConfig::blockThreads, 1024);
    f("i", "items", &BlockSampleConfig::items, 2);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks(const SampleSignature &signature) const {
    return sampleMinBlocks(signature, blockThreads);
  }
  constexpr int rowBlocks() const { return 1; }
  constexpr int keptTokens() const { return 0; }
  constexpr bool isSpread() const { return false; }
  constexpr int sharedBytes(const SampleSignature &signature) const {
    return sampleLayout(signature, 0, 1).bytes;
  }
  constexpr int registers(const SampleSignature &signature) const {
    return sampleRegisters(signature, blockThreads, items);
  }
  constexpr bool isValid(const SampleSignature &signature) const {
    return signature.isWellFormed() &&
           (blockThreads == 256 || blockThreads == 512 ||
            blockThreads == 1024) &&
           items >= 1 && items <= mostSampleItems(signature);
  }

  friend constexpr bool operator==(const BlockSampleConfig &,
                                   const BlockSampleConfig &) = default;
};

} // namespace kiln
