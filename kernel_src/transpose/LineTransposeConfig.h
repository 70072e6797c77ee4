//===- transpose/LineTransposeConfig.h - knobs of the line transpose ------===//
//
// The knobs, and the layout of a block's rows in shared memory. Host and kernel
// share these functions, so that a test on the host can walk through them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "transpose/TransposeParams.h"
#include "transpose/TransposeSignature.h"

namespace kiln {

/// Transposes all rows of tileCols columns of x, which are one run of a packed
/// y, through shared memory. It is meant for x with few rows. Any architecture,
/// number of columns, pitch of x and alignment.
struct LineTransposeConfig {
  int tileCols = 128;
  int blockThreads = 256;
  /// Bytes of a copy of x into shared memory, 4 or 16. Narrow copies take more
  /// instructions, but spread the elements of a column over all banks.
  int copyBytes = 16;

  static constexpr const char *kName = "line";

  template <class F> static constexpr void forEachField(F &&f) {
    f("tc", "tileCols", &LineTransposeConfig::tileCols, 128);
    f("t", "blockThreads", &LineTransposeConfig::blockThreads, 256);
    f("cp", "copyBytes", &LineTransposeConfig::copyBytes, 16);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  static constexpr int kAccessBytes = 16;
  /// Pieces of rows of x, and so runs of y, are multiples of a sector.
  static constexpr int kSector = 32;
  static constexpr int kMostTileCols = 1024;

  constexpr int threads() const { return blockThreads; }

  /// Elements of an access to y.
  static constexpr int vector(const TransposeSignature &signature) {
    return kAccessBytes / signature.elementBytes;
  }
  /// Copies that cover the columns in a row of x, at any alignment.
  constexpr int rowCopies(const TransposeSignature &signature) const {
    return tileCols * signature.elementBytes / copyBytes + 1;
  }
  /// Pointers, pitches and extents have to be multiples of this.
  static constexpr int neededAlign(const TransposeSignature &signature) {
    return signature.elementBytes;
  }

  /// Offset of row \p row in shared memory: the copy with its first element.
  /// One copy is left out behind every `vector` rows; see the head of
  /// LineTranspose.cuh.
  constexpr int rowOffset(const TransposeSignature &signature, int row) const {
    const auto left =
        static_cast<unsigned>(row) / static_cast<unsigned>(vector(signature));
    return (row * rowCopies(signature) + static_cast<int>(left)) * copyBytes;
  }
  /// Shared memory of a block that takes \p rows rows.
  constexpr int sharedBytes(const TransposeSignature &signature,
                            int rows) const {
    return rowOffset(signature, rows);
  }
  /// More rows than any shared memory holds; sharedBytes() of fewer fits an
  /// int.
  static constexpr int kMostRows = 16384;

  constexpr bool isValid(const TransposeSignature &signature) const {
    return signature.isWellFormed() && isPowerOfTwo(tileCols) &&
           tileCols <= kMostTileCols &&
           tileCols * signature.elementBytes >= kSector &&
           isPowerOfTwo(blockThreads) && blockThreads >= 32 &&
           blockThreads <= 1024 && (copyBytes == 4 || copyBytes == 16);
  }

  /// Vectors whose loads a thread has in flight at once, 32 elements.
  constexpr int unroll(const TransposeSignature &signature) const {
    return 2 * signature.elementBytes;
  }
  /// Registers of a thread: the elements of its vectors, an address for each
  /// row of a vector, and the rest.
  constexpr int registers(const TransposeSignature &signature) const {
    return signature.elementBytes > 1 ? 56 : 64;
  }
  constexpr int minBlocks(const TransposeSignature &signature) const {
    int byRegisters = 65536 / (registers(signature) * blockThreads);
    int byThreads = 1024 / blockThreads; // of sm_75, the smallest limit
    int least = byRegisters < byThreads ? byRegisters : byThreads;
    return least < 1 ? 1 : least;
  }

  /// Tiles, and blocks of the one-dimensional grid; must stay below 2^31.
  static constexpr long long tileRowCount(const TransposeSignature &,
                                          const TransposeParams &) {
    return 1;
  }
  constexpr long long tileColumnCount(long long cols) const {
    return (cols + tileCols - 1) / tileCols;
  }

  friend constexpr bool operator==(const LineTransposeConfig &,
                                   const LineTransposeConfig &) = default;

private:
  static constexpr bool isPowerOfTwo(int value) {
    return value > 0 && (value & (value - 1)) == 0;
  }
};

} // namespace kiln
