//===- transpose/Squares.cuh - narrow elements transposed in registers ----===//
//
// A register holds several elements of one or two bytes. A square of as many
// rows, with one register each, is transposed by byte permutes; shared memory
// then moves registers instead of elements.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"

namespace kiln {

/// Transposes \p square: element i of register j becomes element j of register
/// i. A register takes one permute for elements of two bytes, two for one byte.
template <int kElementBytes>
void transposeSquare(unsigned (&square)[4 / kElementBytes]) {
  static_assert(kElementBytes == 1 || kElementBytes == 2 || kElementBytes == 4,
                "elements that fill a register in whole numbers");
  if constexpr (kElementBytes == 2) {
    unsigned first = square[0];
    square[0] = __byte_perm(first, square[1], 0x5410);
    square[1] = __byte_perm(first, square[1], 0x7632);
  } else if constexpr (kElementBytes == 1) {
    unsigned low01 = __byte_perm(square[0], square[1], 0x5140);
    unsigned low23 = __byte_perm(square[2], square[3], 0x5140);
    unsigned high01 = __byte_perm(square[0], square[1], 0x7362);
    unsigned high23 = __byte_perm(square[2], square[3], 0x7362);
    square[0] = __byte_perm(low01, low23, 0x5410);
    square[1] = __byte_perm(low01, low23, 0x7632);
    square[2] = __byte_perm(high01, high23, 0x5410);
    square[3] = __byte_perm(high01, high23, 0x7632);
  }
}

} // namespace kiln
