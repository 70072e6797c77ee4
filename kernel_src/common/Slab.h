//===- common/Slab.h - rows of a swizzled tile in shared memory -----------===//
//
// Included by the host and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// The layout that TMA writes with the 128-byte swizzle and wgmma reads: a tile
/// is cut into slabs, columns of 128 bytes, whose rows follow each other.
struct Slab {
  static constexpr int kBytes = 128;   ///< of a row
  static constexpr int kElements = 64; ///< of two bytes in a row
  static constexpr int elements(int elementBytes) {
    return kBytes / elementBytes;
  }
  /// The swizzle repeats after eight rows: the unit in which slabs are placed.
  static constexpr int kAtomBytes = 8 * kBytes;
  /// Rows of the boxes that load \p rows rows: TMA takes at most 256.
  static constexpr int boxRows(int rows) {
    return rows > 256 ? rows / 2 : rows;
  }
};

} // namespace kiln
