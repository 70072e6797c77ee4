//===- gather/LaneGatherConfig.h - knobs of the gather kernel -------------===//
//
// The knobs, and the division of a problem into tiles. Included by the host and
// by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gather/GatherParams.h"
#include "gather/GatherSignature.h"

namespace kiln {

/// Neighbouring lanes share a row, and a thread has some vectors of some rows.
/// A block moves a tile: threads / lanes * rows rows, and of each a piece of
/// lanes * items vectors. Any architecture, size and alignment.
struct LaneGatherConfig {
  int blockThreads = 256;
  int lanes = 128; ///< threads that share a row
  int items = 4;   ///< vectors of a row that a thread has, `lanes` apart
  int rows = 1;    ///< rows of a thread, threads / lanes apart
  int access = 16; ///< bytes of a vector of the wider type
  int hint = 0;    ///< 1: streaming stores

  static constexpr const char *kName = "lanes";

  template <class F> static constexpr void forEachField(F &&f) {
    f("t", "blockThreads", &LaneGatherConfig::blockThreads, 256);
    f("l", "lanes", &LaneGatherConfig::lanes, 128);
    f("i", "items", &LaneGatherConfig::items, 4);
    f("r", "rows", &LaneGatherConfig::rows, 1);
    f("v", "access", &LaneGatherConfig::access, 16);
    f("h", "hint", &LaneGatherConfig::hint, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&) {}

  static constexpr int kMostVectors = 16, kMostRows = 8; ///< of a thread

  constexpr int threads() const { return blockThreads; }
  /// Vectors that a thread has in flight at once.
  constexpr int vectors() const { return items * rows; }

  constexpr bool isValid(const GatherSignature &signature) const {
    return signature.isWellFormed() && isPower(blockThreads, 32, 1024) &&
           isPower(lanes, 1, blockThreads) && isPower(items, 1, kMostVectors) &&
           isPower(rows, 1, kMostRows) && vectors() <= kMostVectors &&
           isPower(access, signature.widerBytes(), 16) &&
           access <= signature.align && (hint == 0 || hint == 1);
  }

  /// Elements of a vector; bytes where bits are moved.
  constexpr int elements(const GatherSignature &signature) const {
    return access / signature.widerBytes();
  }
  /// Bytes of a vector in x and in y.
  constexpr int xBytes(const GatherSignature &signature) const {
    return signature.moves() ? access
                             : elements(signature) * bytesOf(signature.in);
  }
  constexpr int yBytes(const GatherSignature &signature) const {
    return signature.moves() ? access
                             : elements(signature) * bytesOf(signature.out);
  }
  /// Registers that hold a vector of x.
  constexpr int vectorWords(const GatherSignature &signature) const {
    return (xBytes(signature) + 3) / 4;
  }

  /// Registers that a thread needs: its vectors, with places for several rows,
  /// then what conversions of bytes hold; or its indices and targets before
  /// that. The constants are about the least with which ptxas 13.0 does not
  /// spill, sm_75 to sm_120.
  constexpr int registers(const GatherSignature &signature) const {
    int held = vectors() * vectorWords(signature);
    if (rows >= 4)
      held += 2 * rows;
    if (rows > 1 && vectors() >= 8)
      held += 8;
    if (!signature.moves() && bytesOf(signature.in) == 1)
      held += elements(signature) > 8 ? elements(signature) : 8;
    const int arrays = 8 * rows;
    const int wanted = (held > arrays ? held : arrays) + 16;
    // They are allocated in units of eight; below 32 no more threads fit.
    return wanted > 32 ? (wanted + 7) / 8 * 8 : 32;
  }
  /// Blocks that have to fit an SM, which bounds the registers that the
  /// compiler may use.
  constexpr int minBlocks(const GatherSignature &signature) const {
    const int byRegisters =
        kRegistersPerSm / (blockThreads * registers(signature));
    const int byThreads = kMostThreadsPerSm / blockThreads;
    const int blocks = byRegisters < byThreads ? byRegisters : byThreads;
    return blocks > 1 ? blocks : 1;
  }

  /// Rows of a tile, and vectors of each.
  constexpr int tileRows() const { return blockThreads / lanes * rows; }
  constexpr int pieceVectors() const { return lanes * items; }

  constexpr long long pieces(long long rowVectors) const {
    return divideUp(rowVectors, pieceVectors());
  }
  constexpr long long rowTiles(long long rowCount) const {
    return divideUp(rowCount, tileRows());
  }
  /// Blocks of the one-dimensional grid, which strides over the tiles.
  static constexpr long long blocks(long long tiles) {
    return tiles < kMostBlocks ? tiles : kMostBlocks;
  }

  /// Fills in the tiles; the operands have to be set before. An element of
  /// the wider type has \p elementBytes.
  constexpr void fillTiles(LaneGatherParams &params, int elementBytes) const {
    const GatherParams &given = params.operands;
    params.rowVectors = given.cols * elementBytes / access;
    params.pieces = pieces(params.rowVectors);
    params.rowTiles = rowTiles(given.rows);
    params.tiles = params.pieces * params.rowTiles * given.batch;
  }

  friend constexpr bool operator==(const LaneGatherConfig &,
                                   const LaneGatherConfig &) = default;

private:
  // The largest SM that is supported, sm_75 to sm_120.
  static constexpr int kRegistersPerSm = 65536, kMostThreadsPerSm = 2048;
  static constexpr long long kMostBlocks = (1ll << 31) - 1;

  static constexpr bool isPower(int value, int least, int most) {
    return value >= least && value <= most && (value & (value - 1)) == 0;
  }
  static constexpr long long divideUp(long long count, long long by) {
    return (count + by - 1) / by;
  }
};

} // namespace kiln
