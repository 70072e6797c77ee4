//===- trial/IntegerInit.h - what operands of integers mean ---------------===//
//
// Compiled by the host compiler and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// What an operand of integers means, so that trials can fill it with valid
/// data.
enum class IntegerData : int {
  None, ///< it has no integers
  /// Each from `least` to `most`; `total`, where it is given, is about their
  /// sum.
  Lengths,
  /// Sums of lengths from `least` to `most`: the first is 0, the last at most
  /// `total`.
  Offsets,
  Indices, ///< from 0 to `most`, all different as long as there are enough
};

/// Of operands of type int32. The usual data have lengths that are equal, and
/// as great as `most` and `total` allow. Exception: Lengths that a total keeps
/// below the greatest are one of `most` among others that differ. Outliers
/// differ, and `least` (which may be 0) and `most` are among them where there
/// are at least two.
struct IntegerInit {
  IntegerData kind = IntegerData::None;
  long long least = 0, most = 0, total = 0;
};

} // namespace kiln
