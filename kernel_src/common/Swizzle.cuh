//===- common/Swizzle.cuh - the places of a tile's bytes in shared memory -===//
//
// Rows of a tile follow each other without padding; within a row the 16-byte
// chunks are permuted by an XOR with a phase of the row, so that the accesses
// of one instruction fall into different banks. Row bytes are 32, 64 or a
// multiple of 128.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Which instruction reads the tile: eight rows at one chunk, or four rows at
/// two neighbouring chunks.
enum class SwizzleFor { Ldmatrix, Words };

/// Rows after which the phase repeats.
constexpr int swizzlePeriod(SwizzleFor use) {
  return use == SwizzleFor::Words ? 4 : 8;
}

/// XOR for the chunk index of \p row. For ldmatrix, eight consecutive rows
/// cover all eight chunks of a 128-byte line of banks; for words, four
/// consecutive rows cover its four pairs of chunks.
template <int kRowBytes, SwizzleFor kUse>
constexpr unsigned swizzlePhase(unsigned row) {
  static_assert(kRowBytes == 32 || kRowBytes == 64 || kRowBytes % 128 == 0,
                "this row has no swizzle");
  if constexpr (kUse == SwizzleFor::Words) {
    static_assert(kRowBytes != 32, "words need rows of 64 bytes or more");
    return kRowBytes == 64 ? ((row >> 1) & 1u) << 1 : (row & 3u) << 1;
  } else
    return kRowBytes == 32   ? (row >> 2) & 1u
           : kRowBytes == 64 ? (row >> 1) & 3u
                             : row & 7u;
}

/// Offset in the tile of byte \p byte of row \p row.
template <int kRowBytes, SwizzleFor kUse>
constexpr unsigned swizzledOffset(unsigned row, unsigned byte) {
  return row * kRowBytes + (byte ^ (swizzlePhase<kRowBytes, kUse>(row) << 4));
}

} // namespace kiln
