//===- rope/HeadRopeConfig.h - knobs of rotary embeddings -----------------===//
#pragma once

#include "rope/RopeParams.h"
#include "rope/RopeSignature.h"

namespace kiln {

/// Lanes of a warp share a head. A lane has one or more *units* of it, two
/// vectors each: either pairs that are rotated, or elements that are copied.
/// Loads that wait in shared memory take no registers: more are in flight.
struct HeadRopeConfig {
  int blockThreads = 128;
  int vector = 8; ///< elements of an access to Q, K and V
  int items = 1;  ///< heads of a token for each lane, all in flight together
  int staged = 0; ///< 1: loads go to shared memory (sm_80), not to registers

  static constexpr const char *kName = "heads";
  static constexpr int kMaxItems = 8;
  static constexpr long long kMaxBlocks = 1ll << 30;

  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &HeadRopeConfig::blockThreads, 128);
    f("v", "vector", &HeadRopeConfig::vector, 8);
    f("i", "items", &HeadRopeConfig::items, 1);
    f("sh", "staged", &HeadRopeConfig::staged, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  constexpr int threads() const { return blockThreads; }
  constexpr int minBlocks() const { return 1; }
  constexpr int sharedBytes(const RopeSignature &signature) const {
    return staged == 0
               ? 0
               : blockThreads * vectors(signature) * vectorBytes(signature);
  }
  /// Elements of the widest access.
  static constexpr int widestVector(const RopeSignature &signature) {
    const int elements = signature.align / bytesOf(signature.type);
    return elements > 1 ? elements : 1;
  }
  constexpr bool isValid(const RopeSignature &signature) const {
    return blockThreads >= 32 && blockThreads <= 1024 &&
           blockThreads % 32 == 0 && vector >= 1 &&
           (vector & (vector - 1)) == 0 && vector <= widestVector(signature) &&
           items >= 1 && items <= kMaxItems &&
           (staged == 0 || (staged == 1 && vectorBytes(signature) >= 4));
  }

  /// Units of the rotated part of a head of Q and K, of its other elements, and
  /// of a head of V.
  constexpr int rotatedUnits(const RopeSignature &signature) const {
    return signature.rotaryDim / 2 / vector;
  }
  constexpr int copiedUnits(const RopeSignature &signature) const {
    return unitsOf(signature.headDim - signature.rotaryDim);
  }
  constexpr int valueUnits(const RopeSignature &signature) const {
    return signature.hasVCache ? unitsOf(signature.valueDim) : 0;
  }
  constexpr int mostUnits(const RopeSignature &signature) const {
    const int keys = signature.hasQ || signature.hasK()
                         ? rotatedUnits(signature) + copiedUnits(signature)
                         : 0;
    const int values = valueUnits(signature);
    return keys > values ? keys : values;
  }
  /// Lanes of a head, a power of two, and units of a lane.
  constexpr int lanes(const RopeSignature &signature) const {
    int count = 1;
    while (count < 32 && count < mostUnits(signature))
      count *= 2;
    return count;
  }
  constexpr int units(const RopeSignature &signature) const {
    const int count = lanes(signature);
    return (mostUnits(signature) + count - 1) / count;
  }
  /// Units of a lane that may be rotated.
  constexpr int anglesOf(const RopeSignature &signature) const {
    const int count = lanes(signature);
    return (rotatedUnits(signature) + count - 1) / count;
  }

  constexpr int vectorBytes(const RopeSignature &signature) const {
    return vector * bytesOf(signature.type);
  }
  /// Vectors that a lane has in flight.
  constexpr int vectors(const RopeSignature &signature) const {
    return items * 2 * units(signature);
  }

  /// Heads of a token that move.
  static constexpr long long headsOf(const RopeSignature &signature,
                                     long long heads, long long kvHeads) {
    return (signature.hasQ ? heads : 0) + (signature.hasK() ? kvHeads : 0) +
           (signature.hasVCache ? kvHeads : 0);
  }
  /// Pieces of work: up to `items` heads of one token.
  constexpr double pieces(const RopeSignature &signature, double tokens,
                          long long heads, long long kvHeads) const {
    const long long all = headsOf(signature, heads, kvHeads);
    return tokens * double((all + items - 1) / items);
  }
  /// Blocks of the one-dimensional grid. Fewer work too: the kernel strides
  /// over the pieces by its grid.
  constexpr long long blocks(const RopeSignature &signature, double tokens,
                             long long heads, long long kvHeads) const {
    const double perBlock = blockThreads / lanes(signature);
    const double wanted = pieces(signature, tokens, heads, kvHeads) / perBlock;
    if (wanted >= kMaxBlocks)
      return kMaxBlocks;
    const auto whole = static_cast<long long>(wanted);
    return whole < wanted || whole == 0 ? whole + 1 : whole;
  }

  /// About the registers that ptxas 13.0 gives a thread, in steps of 8: loaded
  /// vectors, cosines and sines, one unit in fp32, addresses.
  constexpr int registers(const RopeSignature &signature) const {
    const int words = (vectorBytes(signature) + 3) / 4;
    const int more = units(signature) - 1;
    const int angles = anglesOf(signature) * 2 * vector;
    const bool isNormed = signature.hasQNorm || signature.hasKNorm;
    const int loaded = units(signature) * 2 * words + vector / 2 + 2 * more;
    const int each = staged ? 4 + 4 * more : 4 + loaded;
    const int rest = staged ? 40 + angles / 2 : 38 + angles;
    const int wanted =
        (rest + 6 * more + 6 * isNormed + items * each + 7) / 8 * 8;
    const int most = 65536 / blockThreads < 248 ? 65536 / blockThreads : 248;
    return wanted < most ? wanted : most;
  }

  friend constexpr bool operator==(const HeadRopeConfig &,
                                   const HeadRopeConfig &) = default;

private:
  constexpr int unitsOf(int elements) const {
    return (elements + 2 * vector - 1) / (2 * vector);
  }
};

/// A block for each row. The tuner does not choose it, so it has no fields.
struct ReferenceRopeConfig {
  static constexpr long long kMaxBlocks = 1ll << 20;

  constexpr int threads() const { return 256; }
  constexpr int sharedBytes(const RopeSignature &) const { return 0; }
  constexpr bool isValid(const RopeSignature &) const { return true; }
  constexpr long long blocks(long long rows) const {
    return rows < kMaxBlocks ? rows : kMaxBlocks;
  }

  friend constexpr bool operator==(const ReferenceRopeConfig &,
                                   const ReferenceRopeConfig &) = default;
};

} // namespace kiln
