//===- allreduce/PushRowsConfig.h - knobs of the push kernel --------------===//
//
// Included by the host and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "allreduce/AllReduceParams.h"
#include "allreduce/ExchangeLayout.h"

namespace kiln {

/// A block has a row at a time, a thread some vectors of 16 bytes of it. Longer
/// rows take several passes. Any architecture, size and alignment.
struct PushRowsConfig {
  int blockThreads = 512;
  int vectors = 1; ///< of a row that a thread has at once, a block apart

  static constexpr const char *kName = "push";

  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &PushRowsConfig::blockThreads, 512);
    f("v", "vectors", &PushRowsConfig::vectors, 1);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  static constexpr int kMostVectors = 2;

  constexpr int threads() const { return blockThreads; }

  constexpr bool isValid(const AllReduceSignature &signature) const {
    return signature.isWellFormed() && isPower(blockThreads, 32, 1024) &&
           isPower(vectors, 1, kMostVectors);
  }

  static constexpr int elements(const AllReduceSignature &signature) {
    return ExchangeLayout::kVectorBytes / bytesOf(signature.type);
  }
  /// Vectors of a row that are received together: bounded by the registers of
  /// what all ranks sent.
  constexpr int together(const AllReduceSignature &signature) const {
    constexpr int kMost = 8;
    const int most = kMost / signature.ranks > 1 ? kMost / signature.ranks : 1;
    return vectors < most ? vectors : most >= 2 ? 2 : 1;
  }

  /// Registers that a thread needs for the vectors of all ranks, then for those
  /// of the input, the sum and the weights. The constant is about the least
  /// with which ptxas 13.0 does not spill, sm_75 to sm_120.
  constexpr int registers(const AllReduceSignature &signature) const {
    constexpr int kWords = ExchangeLayout::kVectorBytes / 4;
    const int held =
        (together(signature) * (signature.ranks + 1) + 3 * vectors) * kWords;
    return (held + 40 + 7) / 8 * 8;
  }
  /// Blocks that an SM has at once, which bounds the registers that the
  /// compiler may use.
  constexpr int minBlocks(const AllReduceSignature &signature) const {
    constexpr int kRegistersPerSm = 65536;
    const int blocks = kRegistersPerSm / (blockThreads * registers(signature));
    return blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks;
  }

  friend constexpr bool operator==(const PushRowsConfig &,
                                   const PushRowsConfig &) = default;

private:
  static constexpr int kMostBlocks = 4; ///< of an SM

  static constexpr bool isPower(int value, int least, int most) {
    return value >= least && value <= most && (value & (value - 1)) == 0;
  }
};

} // namespace kiln
