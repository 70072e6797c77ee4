//===- combine/RowCombineConfig.h - knobs of the combine kernel -----------===//
#pragma once

#include "combine/CombineParams.h"
#include "combine/CombineSignature.h"

namespace kiln {

/// A row of threads for each token, which is a warp or a whole block. Any
/// architecture, size and alignment.
struct RowCombineConfig {
  int lanes = 256; ///< threads of a token
  int rows = 1;    ///< tokens of a block; more than 1 with 32 lanes
  int items = 1;   ///< vectors of a row that a thread has at once
  int ahead = 4;   ///< choices whose loads it has in flight

  static constexpr const char *kName = "rows";
  static constexpr int kMostVectors = 16; ///< in flight

  template <class F> static constexpr void forEachField(F &&f) {
    f("l", "lanes", &RowCombineConfig::lanes, 256);
    f("r", "rows", &RowCombineConfig::rows, 1);
    f("i", "items", &RowCombineConfig::items, 1);
    f("a", "ahead", &RowCombineConfig::ahead, 4);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return lanes * rows; }
  constexpr bool isValid(const CombineSignature &signature) const {
    return signature.isWellFormed() && isPower(lanes, 32, 1024) &&
           isPower(rows, 1, 8) && (rows == 1 || lanes == 32) &&
           isPower(items, 1, 4) && isPower(ahead, 1, 8) &&
           items * ahead <= kMostVectors && blocksByRegisters(signature) > 0;
  }

  constexpr int elements(const CombineSignature &signature) const {
    return signature.align / bytesOf(signature.in);
  }
  /// Vectors of a row that its threads have at once.
  constexpr int turnVectors() const { return lanes * items; }
  /// Turns of a thread through a row of \p vectors vectors.
  constexpr long long turns(long long vectors) const {
    return (vectors + turnVectors() - 1) / turnVectors();
  }
  /// Blocks that share a token: a norm needs the row in one.
  constexpr long long pieces(const CombineSignature &signature,
                             long long vectors) const {
    return signature.norm || vectors == 0 ? 1 : turns(vectors);
  }

  /// Registers that a thread needs: vectors in flight, sums, the other
  /// operands, addresses, of which vectors of less than a word have one each.
  /// About the least with which ptxas 13.0 does not spill.
  constexpr int registers(const CombineSignature &signature) const {
    const int words = (signature.align + 3) / 4;
    const int others = signature.shared + signature.residual + signature.norm;
    const int addresses = signature.align < 4 ? items * ahead : 0;
    const int wanted = 60 + addresses + (signature.weighted ? 2 * ahead : 0) +
                       items * (words * (ahead + others) + elements(signature));
    return wanted < 32 ? 32 : (wanted + 7) / 8 * 8;
  }

  /// Blocks that have to fit an SM, which bounds the registers that the
  /// compiler may use.
  constexpr int minBlocks(const CombineSignature &signature) const {
    constexpr int kThreadsPerSm = 1024;
    const int byRegisters = blocksByRegisters(signature);
    const int byThreads = kThreadsPerSm / threads();
    const int blocks = byRegisters < byThreads ? byRegisters : byThreads;
    return blocks > 1 ? blocks : 1;
  }

  friend constexpr bool operator==(const RowCombineConfig &,
                                   const RowCombineConfig &) = default;

private:
  /// Each quarter of an SM has its own registers, for whole warps.
  constexpr int blocksByRegisters(const CombineSignature &signature) const {
    constexpr int kQuarters = 4, kRegisters = 65536 / kQuarters, kLanes = 32;
    const int warps =
        kQuarters * (kRegisters / (kLanes * registers(signature)));
    return warps * kLanes / threads();
  }

  static constexpr bool isPower(int value, int least, int most) {
    return value >= least && value <= most && (value & (value - 1)) == 0;
  }
};

} // namespace kiln
