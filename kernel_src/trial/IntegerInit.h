//===- trial/IntegerInit.h - the meaning of integer operands --------------===//
//
// Compiled by the host compiler and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// The meaning of an operand of integers, by which trials fill it with valid
/// data.
enum class IntegerData : int {
  None, ///< it has no integers
  /// Each from `least` to `most`; a `total` above 0 is about their sum.
  Lengths,
  /// Prefix sums of lengths from `least` to `most`: the first is 0, the last at
  /// most `total`.
  Offsets,
  Indices, ///< from `least` to `most`, all different as long as there are
           ///< enough; -1 names no place
  Values,  ///< any from `least` to `most`, which may be negative
  Counts,  ///< from 0 to `most`, whose sum is about `total`
  /// Ends of counts that follow one another, each beginning at a multiple of
  /// `align`; the last end is at most `total`.
  Ends,
};

/// The integers of an operand of type int32 or int64. Values vary in both the
/// usual data and the outliers, and include `least` and `most` where there are
/// two. Usual lengths are equal, and as great as `most` and `total` allow.
/// Exception: Lengths that a total keeps below `most` are one length of `most`
/// among others that vary. Outliers vary, and include `least` (which may be 0)
/// and `most` where there are at least two. Usual counts lie between 0.7
/// and 1.3 times their mean. Counts of outliers lie between 0 and twice the
/// mean, and include 0 and, where it is below that, `most`. `most` among them.
struct IntegerInit {
  IntegerData kind = IntegerData::None;
  long long least = 0, most = 0, total = 0, align = 1;
};

} // namespace kiln
