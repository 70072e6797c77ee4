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
  Values,  ///< any from `least` to `most`, which may be negative
  Counts,  ///< from 0 to `most`, whose sum is about `total`
  /// Where counts end that follow one another, each from a multiple of `align`
  /// on; the last is at most `total`.
  Ends,
};

/// Of operands of type int32. Values differ in either data, and `least` and
/// `most` are among them where there are two. The usual data have lengths that
/// are equal, and as great as `most` and `total` allow. Exception: Lengths that
/// a total keeps below the greatest are one of `most` among others that differ.
/// Outliers differ, and `least` (which may be 0) and `most` are among them
/// where there are at least two. Counts lie within 0.7 and 1.3 of their mean;
/// those of outliers within 0 and its double, 0 and, where it is below that,
/// `most` among them.
struct IntegerInit {
  IntegerData kind = IntegerData::None;
  long long least = 0, most = 0, total = 0, align = 1;
};

} // namespace kiln
