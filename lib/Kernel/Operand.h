//===- Operand.h - what a problem reads and writes ------------------------===//
//
// The operand table is all that trials need to know of a problem: from it they
// allocate, initialise, poison, red-zone, rotate and compare, without knowing
// the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/LaunchSpec.h"
#include "common/Types.h"
#include "trial/IntegerInit.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <cstdint>

namespace kiln {

enum class OperandRole {
  In,
  Out,
  InOut,    ///< read, then written by the same launch
  Constant, ///< an input that holds still between launches: a weight
};

/// Which of an operand's two descriptions of data a trial fills it with.
enum class TrialData {
  Usual,    ///< N(0, 1) for most: what times are taken with
  Outliers, ///< values that break careless arithmetic
};

/// How a trial fills an operand with valid data: samples of a normal
/// distribution, rounded to the operand's type, some of them replaced, or
/// integers.
struct OperandInit {
  double mean = 0, deviation = 1;
  /// Samples are powers of two: those of the distribution are the exponents.
  bool isLogarithmic = false;
  /// Explicit mantissa bits that are kept; 0 keeps the type's (10 for fp32 data
  /// that a tf32 kernel reads).
  int mantissaBits = 0;
  /// Above 0, about one element in this many is +outlier or -outlier.
  int outlierPeriod = 0;
  double outlier = 0;
  /// Above 0, about one element in this many is minus infinity.
  int minusInfinityPeriod = 0;
  /// Above 0, each element of the last of so many rows is rowValue.
  int rowPeriod = 0;
  double rowValue = 0;
  IntegerInit integers = {};
};

/// |d - ref| <= relative*|ref| + scaled*bound + absolute, for each element,
/// where `bound` comes from the reference with the value.
struct Tolerance {
  double relative = 0, scaled = 0, absolute = 1e-30;
};

/// One operand of a problem: a batch of planes (heads), each a row-major
/// matrix. Most operands have one plane. Sizes in elements. Rows of planes may
/// interleave: a plane stride may be less than a leading dimension.
struct OperandSpec {
  llvm::StringRef name; ///< a literal: "a", "bias"
  OperandRole role = OperandRole::In;
  DType type = DType::FP32;
  OperandInit usual, outliers; ///< of what is read
  Tolerance tolerance;         ///< of what is written
  /// A leading dimension or batch stride of 0: the one row, or matrix, serves
  /// all of the problem's.
  int64_t rows = 0, cols = 0, leadingDimension = 0;
  int64_t batch = 1, batchStride = 0;
  int64_t planes = 1, planeStride = 0;
  /// Where it starts, in bytes past a 256-byte boundary: the alignment that the
  /// problem promises and no more.
  int64_t misalignment = 0;
  /// Bytes that divide its address, where the problem's promise is not about
  /// it; 0: those of the promise.
  int64_t alignment = 0;
  bool present = true; ///< false: the problem has no such operand
  /// Its place in kiln_arguments.operands; -1: its index in the table.
  int slot = -1;
  /// Of an output: index of the input that it may be, exactly (same address and
  /// strides); -1: none.
  int mayBe = -1;

  bool isWritten() const {
    return present && (role == OperandRole::Out || role == OperandRole::InOut);
  }
  const OperandInit &init(TrialData data) const {
    return data == TrialData::Usual ? usual : outliers;
  }
  /// From the first byte to the end of the last row.
  int64_t bytes() const {
    if (!present || rows == 0 || cols == 0 || batch == 0 || planes == 0)
      return 0;
    return ((batch - 1) * batchStride + (planes - 1) * planeStride +
            (rows - 1) * leadingDimension + cols) *
           bitsOf(type) / 8;
  }
};

/// One operand of a call. Has no initialisers: see Arguments.
struct OperandArgument {
  DeviceAddress address;
  int64_t leadingDimension, batchStride, planeStride;
};

/// The arguments of one launch: plain data that points to nothing it owns.
struct Arguments {
  static constexpr int kMaxOperands = 16;
  static constexpr int kMaxScalars = 4;

  /// All 0.
  Arguments() : operands() {}
  /// Operands are not set: for a launch that hits, which sets those that its
  /// family has.
  struct Unset {};
  explicit Arguments(Unset /*operands*/) {}

  /// Values of the problem's record at this call, in schema order.
  const int64_t *problem = nullptr;
  OperandArgument operands[kMaxOperands];
  /// In the order of the schema's Scalar fields.
  double scalars[kMaxScalars] = {};
  /// Where not 0, the scalar's value lies in device memory as fp32.
  DeviceAddress scalarAddresses[kMaxScalars] = {};
  /// A bit for each operand that no kernel writes which may still run when the
  /// launch begins: weights.
  uint32_t constants = 0;
  /// The launch may begin before the kernel ahead of it in the stream has
  /// ended, and waits for that itself (common/Dependent.cuh).
  bool isDependent = false;

  /// Whether operand \p index may be read before that wait.
  bool isEarly(int index) const {
    return isDependent && (constants >> index & 1);
  }
};

/// The operands of a problem in the order that Arguments uses. Every one that
/// is written is compared with the reference.
struct OperandTable {
  llvm::SmallVector<OperandSpec, Arguments::kMaxOperands> operands;
};

} // namespace kiln
