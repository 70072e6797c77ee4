//===- transpose/ShiftedTransposeConfig.h - knobs of the shifted transpose ===//
//
// The knobs, and the layout of a tile's rows in shared memory. Host and kernel
// share these functions, so that a test on the host can walk through them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "transpose/TransposeParams.h"
#include "transpose/TransposeSignature.h"

namespace kiln {

/// Transposes tiles of tileRows x tileCols elements of x through shared memory,
/// with accesses of 16 bytes at any alignment of the rows of x and y. Any
/// architecture, size, pitch and alignment.
struct ShiftedTransposeConfig {
  int tileRows = 128, tileCols = 128;
  int blockThreads = 256;
  int rasterGroup = 1; ///< run-time value
  /// Run-time value. The most blocks of an SM, enforced by a launch that asks
  /// for more shared memory than it uses; 0: as many as fit. A few blocks have
  /// all bytes in flight that DRAM needs, and more of them interfere.
  int blocksPerSm = 0;

  static constexpr const char *kName = "shifted";
  /// A raster group that in practice holds all rows: tiles go down x's columns.
  static constexpr int kAllRows = 1024;

  template <class F> static constexpr void forEachField(F &&f) {
    f("tr", "tileRows", &ShiftedTransposeConfig::tileRows, 128);
    f("tc", "tileCols", &ShiftedTransposeConfig::tileCols, 128);
    f("t", "blockThreads", &ShiftedTransposeConfig::blockThreads, 256);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("rg", "rasterGroup", &ShiftedTransposeConfig::rasterGroup, 1);
    f("ps", "blocksPerSm", &ShiftedTransposeConfig::blocksPerSm, 0);
  }

  static constexpr int kAccessBytes = 16;
  static constexpr int copyBytes = kAccessBytes;
  /// Pieces of y begin and end at multiples of a sector: where tiles share a
  /// sector, each writes a part of it, and L2 has to merge the parts. H100,
  /// bf16 50257 x 4096: 291 us, with pieces of whole accesses 303 us.
  static constexpr int kGrain = 32;

  constexpr int threads() const { return blockThreads; }

  /// Elements of an access.
  static constexpr int vector(const TransposeSignature &signature) {
    return kAccessBytes / signature.elementBytes;
  }
  /// Rows of x before the tile's own with which a piece of y may begin.
  static constexpr int extraRows(const TransposeSignature &signature) {
    return kGrain / signature.elementBytes;
  }
  constexpr int sharedRows(const TransposeSignature &signature) const {
    return tileRows + extraRows(signature);
  }
  /// Copies that cover the tile's columns in a row of x, at any alignment.
  constexpr int rowCopies(const TransposeSignature &signature) const {
    return tileCols / vector(signature) + 1;
  }

  /// Pointers, pitches and extents have to be multiples of this.
  static constexpr int neededAlign(const TransposeSignature &signature) {
    return signature.elementBytes;
  }

  /// Offset of row \p row of the tile in shared memory: the vector with its
  /// first element. See the head of ShiftedTranspose.cuh.
  constexpr int rowOffset(const TransposeSignature &signature, int row) const {
    const auto left =
        static_cast<unsigned>(row) / static_cast<unsigned>(vector(signature));
    return (row * rowCopies(signature) + static_cast<int>(left)) * kAccessBytes;
  }
  constexpr int sharedBytes(const TransposeSignature &signature) const {
    return rowOffset(signature, sharedRows(signature));
  }

  // Squares of narrow elements have as many rows and columns as a word of four
  // bytes has elements. After the transposition each word has one column of its
  // square.
  static constexpr int squareSide(const TransposeSignature &signature) {
    return 4 / signature.elementBytes;
  }
  /// Offset of the word with column \p column of the square that begins with
  /// row \p row of the tile. It takes the place of a word of this square, or of
  /// a neighbouring square in the same 16 bytes, so that words of four
  /// neighbouring columns are in four banks.
  constexpr int squareOffset(const TransposeSignature &signature, int row,
                             int column) const {
    const int side = squareSide(signature);
    const int inSquare = column % side;
    return rowOffset(signature, row + inSquare) +
           (column / side ^ inSquare * signature.elementBytes) * 4;
  }

  // Chunks are vectors of rows of y. A warp stores chunks of several rows, and
  // a thread the chunks of one column of chunks.
  constexpr int chunksPerRow(const TransposeSignature &signature) const {
    return tileRows / vector(signature);
  }
  constexpr int warpChunks(const TransposeSignature &signature) const {
    int chunks = chunksPerRow(signature);
    return chunks < kBankGroups ? chunks : kBankGroups;
  }
  /// Rows of y that the block stores at a time.
  constexpr int rowsAtOnce(const TransposeSignature &signature) const {
    return blockThreads / chunksPerRow(signature);
  }
  /// Rows of y after which misalignments repeat.
  static constexpr int period(const TransposeSignature &signature) {
    return kGrain / signature.elementBytes;
  }
  /// Kinds of rows that a thread stores; each kind has one row in every
  /// rowStep().
  constexpr int kinds(const TransposeSignature &signature) const {
    int atOnce = rowsAtOnce(signature);
    return atOnce < period(signature) ? period(signature) / atOnce : 1;
  }
  constexpr int rowStep(const TransposeSignature &signature) const {
    return rowsAtOnce(signature) * kinds(signature);
  }

  constexpr bool isValid(const TransposeSignature &signature) const {
    if (!signature.isWellFormed() || rasterGroup < 1 || blocksPerSm < 0 ||
        !isSide(tileRows) || !isSide(tileCols))
      return false;
    if (!isPowerOfTwo(blockThreads) || blockThreads < 32 || blockThreads > 1024)
      return false;
    return rowsAtOnce(signature) >= 1 && rowStep(signature) <= tileCols;
  }

  /// Whether a matrix y has rows that begin between two multiples of a grain.
  static constexpr bool isShifted(const TransposeSignature &signature,
                                  unsigned long long y, long long ldy) {
    auto pitch = static_cast<unsigned long long>(ldy) *
                 static_cast<unsigned>(signature.elementBytes);
    return ((y | pitch) & static_cast<unsigned>(kGrain - 1)) != 0;
  }

  /// Steps whose loads a thread has in flight at once.
  constexpr int unroll(const TransposeSignature &signature) const {
    constexpr int kMost = 4;
    int rows = tileCols / rowStep(signature);
    return rows < kMost ? rows : kMost;
  }
  /// Registers of a thread: words of its steps, their addresses, and the rest.
  constexpr int registers(const TransposeSignature &) const { return 64; }
  constexpr int minBlocks(const TransposeSignature &signature) const {
    int byRegisters = 65536 / (registers(signature) * blockThreads);
    int byThreads = 1024 / blockThreads; // of sm_75, the smallest limit
    int least = byRegisters < byThreads ? byRegisters : byThreads;
    return least < 1 ? 1 : least;
  }

  /// Tiles, and blocks of the one-dimensional grid; must stay below 2^31. Where
  /// rows of y are shifted, a tile's pieces of them may begin before its own
  /// first row.
  constexpr long long tileRowCount(const TransposeSignature &signature,
                                   long long rows, bool isShifted) const {
    long long extra = isShifted ? extraRows(signature) - 1 : 0;
    return (rows + extra + tileRows - 1) / tileRows;
  }
  long long tileRowCount(const TransposeSignature &signature,
                         const TransposeParams &params) const {
    auto y = reinterpret_cast<unsigned long long>(params.y);
    return tileRowCount(signature, params.rows,
                        isShifted(signature, y, params.ldy));
  }
  constexpr long long tileColumnCount(long long cols) const {
    return (cols + tileCols - 1) / tileCols;
  }

  friend constexpr bool operator==(const ShiftedTransposeConfig &,
                                   const ShiftedTransposeConfig &) = default;

private:
  static constexpr int kBankGroups = 8; // of 16 bytes

  static constexpr bool isSide(int extent) {
    return isPowerOfTwo(extent) && extent >= 32 && extent <= 512;
  }
  static constexpr bool isPowerOfTwo(int value) {
    return value > 0 && (value & (value - 1)) == 0;
  }
};

} // namespace kiln
