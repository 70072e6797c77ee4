//===- rope/RopeSignature.h - the signature of rotary embeddings ----------===//
//
// For each token at position p, heads of Q and K are rotated: with (a, b) the
// elements of pair j of the r rotated ones, c = table[p][j] and
// s = table[p][r / 2 + j],
//
//   a' = a c - b s,   b' = b c + a s,
//
// after an RMSNorm of the head where there are weights. Rotated heads of K, and
// those of V, go to a row of a cache, to which the token's slot leads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// Where the elements of a pair are read and written.
enum class RopeStyle : int {
  Halves = 0,               ///< j and j + r / 2
  Interleaved = 10,         ///< 2j and 2j + 1
  InterleavedToHalves = 20, ///< read as the second, written as the first
};

/// How a token finds its row of the caches.
enum class RopeSlots : int {
  None,  ///< there are no caches
  Array, ///< its slot is given
  Table, ///< by its position and a page table
};

struct RopeSignature {
  DType type = DType::BF16;  ///< of Q, K, V and the outputs
  DType cache = DType::BF16; ///< of the caches
  DType table = DType::FP32;
  RopeStyle style = RopeStyle::Halves;
  int headDim = 128; ///< elements of a head of Q and K
  int valueDim = 128;
  int rotaryDim = 128; ///< r; 0: nothing is rotated
  int rotaryOffset = 0;
  // Which operands there are.
  bool hasQ = true;
  bool hasKOut = false; ///< K goes to an output besides a cache
  bool hasKCache = true, hasVCache = true;
  bool hasQNorm = false, hasKNorm = false;
  bool hasUnitOffset = false; ///< weights are 1 more than those in memory
  RopeSlots slots = RopeSlots::Array;
  bool hasSequences = false;   ///< tokens name their row of the page table
  bool hasLongIndices = false; ///< positions and slots are int64
  ScaleKind scales = ScaleKind::None; ///< of the caches: none, Tensor or, one
                                      ///< for each head, Row
  /// A power of two up to 16 that divides every address of rows and tables,
  /// every stride and the parts of a row, in bytes.
  int align = 16;

  constexpr bool hasK() const { return hasKOut || hasKCache; }
  constexpr bool hasCache() const { return hasKCache || hasVCache; }
  /// Whether the positions of tokens are read.
  constexpr bool hasPositions() const {
    return rotaryDim > 0 || slots == RopeSlots::Table;
  }

  friend constexpr bool operator==(const RopeSignature &,
                                   const RopeSignature &) = default;
};

} // namespace kiln
