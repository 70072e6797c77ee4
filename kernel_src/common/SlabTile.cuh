//===- common/SlabTile.cuh - tiles that TMA writes and wgmma reads --------===//
//
// An operand of wgmma lies in shared memory in slabs with the 128-byte swizzle.
// Where k is contiguous in memory the slabs are cut along k, else along the
// operand's other extent: m, n, or their counterpart in attention. This file
// has all that follows from this: the boxes to load, the descriptor of the
// tile, and the offset of the next step or unit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/PtxSm90.cuh"
#include "common/Slab.h"

namespace kiln {

/// A tile of kExtent x kDepth elements, kDepth of them along k. kKMajor: k is
/// contiguous, which wgmma requires except for elements of two bytes.
template <bool kKMajor, int kExtent, int kDepth, int kElementBytes = 2>
struct SlabTile {
  static constexpr int kElements = Slab::elements(kElementBytes);
  static_assert((kKMajor ? kDepth : kExtent) % kElements == 0,
                "a tile has whole slabs");

  /// Has TMA load the tile that begins at \p begin of the extent and at \p k of
  /// \p batch; \p full counts its bytes. If two blocks of a cluster share the
  /// tile, each block, of number \p rank, loads half of the boxes for both.
  /// \p policy is used with kHints, in tiles without sharers.
  template <bool kHints, int kSharers>
  static void load(unsigned shared, const TensorMap *map, unsigned full,
                   int begin, int k, int batch, int rank,
                   unsigned long long policy) {
    if constexpr (kKMajor) {
      constexpr int kRows = kExtent / kSharers;
      constexpr int kBoxRows = Slab::boxRows(kRows);
      int first = kSharers > 1 ? rank * kRows : 0;
#pragma unroll
      for (int slab = 0; slab < kDepth / kElements; ++slab)
#pragma unroll
        for (int i = 0; i < kRows; i += kBoxRows) {
          int row = first + i;
          loadBox<kHints, kSharers>(
              shared + (slab * kExtent + row) * Slab::kBytes, map, full,
              k + slab * kElements, begin + row, batch, policy);
        }
    } else {
      constexpr int kBoxes = kExtent / kElements;
#pragma unroll
      for (int i = 0; i < kBoxes / kSharers; ++i) {
        int slab = kSharers > 1 ? rank * (kBoxes / kSharers) + i : i;
        loadBox<kHints, kSharers>(shared + slab * kDepth * Slab::kBytes, map,
                                  full, begin + slab * kElements, k, batch,
                                  policy);
      }
    }
  }

  /// Descriptor of the tile at \p address (PTX ISA, matrix descriptor):
  /// address, leading and stride byte offsets in units of 16 bytes. Along k a
  /// swizzle atom is 8 rows of the extent, 1024 bytes from the next atom; along
  /// the extent it is 8 rows of k, and the next slab follows at the leading
  /// offset.
  static unsigned long long descriptor(unsigned address) {
    static_assert(kKMajor || kElementBytes == 2,
                  "wgmma transposes elements of two bytes alone");
    constexpr unsigned long long kSwizzle128 = 1ull << 62;
    constexpr unsigned long long kStride = Slab::kAtomBytes >> 4;
    constexpr unsigned long long kLeading =
        kKMajor ? 1 : kDepth * Slab::kBytes >> 4;
    return kSwizzle128 | kStride << 32 | kLeading << 16 |
           (address & 0x3ffffu) >> 4;
  }

  /// The offset that step \p k within the tile adds to a descriptor.
  static constexpr unsigned stepOffset(int k) {
    int bytes = kKMajor ? k / kElements * kExtent * Slab::kBytes +
                              k % kElements * kElementBytes
                        : k * Slab::kBytes;
    return static_cast<unsigned>(bytes) >> 4;
  }

  /// Bytes between neighbouring pieces of \p extent elements, the size of one
  /// wgmma: whole slabs if they run along the extent.
  static constexpr int pieceBytes(int extent) {
    return (kKMajor ? extent : extent / kElements * kDepth) * Slab::kBytes;
  }

private:
  template <bool kHints, int kSharers>
  static void loadBox(unsigned shared, const TensorMap *map, unsigned full,
                      int x, int y, int z, unsigned long long policy) {
    if constexpr (kSharers > 1)
      ptx::tmaLoadMulticast(shared, map, full, x, y, z, (1 << kSharers) - 1);
    else if constexpr (kHints)
      ptx::tmaLoad(shared, map, full, x, y, z, policy);
    else
      ptx::tmaLoad(shared, map, full, x, y, z);
  }
};

} // namespace kiln
