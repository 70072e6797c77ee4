//===- common/PackedWeights.h - the order of packed weights ---------------===//
//
// A weight matrix W[n, k] of 4 or 8 bits an element, in the order in which
// tensor cores take it as the A operand of mma.m16n8k16 (and of wgmma m64k16).
// A lane's own elements are neighbours in memory, so that one 16-byte load
// brings a lane the operands of several instructions, warps load whole lines,
// and the weights skip shared memory. The order is called k64r16. It is version
// 1: its stored form never changes.
//
// Blocks. n and k are padded to multiples of 64. A block has 64 rows and 64 k,
// and 2 KiB (4 bits) or 4 KiB (8 bits). Blocks that follow each other along k
// lie one after the other: [n / 64][k / 64][block].
//
// Units. A block has four units of 16 rows. Let r be the row in its unit, K =
// k / 16 the number of the instruction and c = k % 16 the place in it. The
// fragment of mma.m16n8k16 gives the element to
//   lane      4 (r % 8) + c % 8 / 2
//   register  (r / 8) + 2 (c / 8)
//   half      c % 2, the lower or the upper half of the register.
//
//   4 bits: a unit is [32 lanes][16 bytes]. Word K of a lane has the four
//   registers of instruction K: the lower element of register i at the bits 4 i
//   and on, the upper one at 16 + 4 i.
//   8 bits: a unit is [2 halves of 32 k][32 lanes][16 bytes]. In half h, the
//   words 2 (K % 2) and 2 (K % 2) + 1 of a lane have the registers 0, 1 and 2,
//   3 of instruction K = 2 h + K % 2: the lower element of register i at the
//   bits 8 (i % 2) and on, the upper one at 16 + 8 (i % 2).
//
// So a shift and a mask bring the two elements of each register to the same
// place of its two halves.
//
// Scales and zero points. A group is a run of 32, 64, 128 or all k of a row.
// Groups cover the padded k: a row has `groups` of them. Their values are
// stored as [n / 64][groups][64], where the rows r and r + 8 of a unit, which
// belong to the same lane, are neighbours.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// The order of an operand in memory.
enum class WeightOrder : int { Plain = 0, K64R16 = 1 };

struct PackedWeights {
  static constexpr int kRows = 64, kDepth = 64; ///< of a block
  static constexpr int kUnitRows = 16;
  static constexpr int kLaneBytes = 16; ///< of an access

  static constexpr long long blocksOf(long long extent) {
    return (extent + 63) / 64;
  }
  static constexpr int blockBytes(int bits) {
    return kRows * kDepth * bits / 8;
  }
  /// k that the 16 bytes of a lane cover: 64 or 32.
  static constexpr int laneDepth(int bits) { return 256 / bits; }

  /// The first bit of element (\p row, \p k) of a block within that block.
  static constexpr int bitOf(int bits, int row, int k) {
    const int unit = row / 16, r = row % 16, step = k / 16, c = k % 16;
    const int lane = r % 8 * 4 + c % 8 / 2, reg = r / 8 + c / 8 * 2;
    if (bits == 4)
      return ((unit * 32 + lane) * 4 + step) * 32 + c % 2 * 16 + reg * 4;
    return (((unit * 2 + step / 2) * 32 + lane) * 4 + step % 2 * 2 + reg / 2) *
               32 +
           c % 2 * 16 + reg % 2 * 8;
  }

  /// Bytes of n x k elements.
  static constexpr long long bytes(int bits, long long n, long long k) {
    return blocksOf(n) * blocksOf(k) * blockBytes(bits);
  }

  /// Groups of a row; a group size of 0 stands for all k.
  static constexpr long long groups(long long k, int group) {
    return group ? (blocksOf(k) * kDepth + group - 1) / group : 1;
  }
  /// Index of a row's scale among the 64 of its block and group.
  static constexpr int scaleOf(int row) {
    return row / 16 * 16 + row % 8 * 2 + row % 16 / 8;
  }
  /// Index of a scale among all scales of W.
  static constexpr long long scaleAt(long long row, long long group,
                                     long long groups) {
    return (row / kRows * groups + group) * kRows +
           scaleOf(static_cast<int>(row % kRows));
  }
};

} // namespace kiln
