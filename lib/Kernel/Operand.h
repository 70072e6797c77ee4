//===- Operand.h - the operands of a problem ------------------------------===//
//
// The operand table is all that trials need of a problem: with it they
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
  Constant, ///< an input that does not change between launches: a weight
};

/// The description of data, of an operand's two, with which a trial fills it.
enum class TrialData {
  Usual,    ///< N(0, 1) for most: used for timing
  Outliers, ///< values that break careless arithmetic
};

/// The valid data with which a trial fills an operand: samples of a normal
/// distribution, rounded to the operand's type, some of them replaced, or
/// integers.
struct OperandInit {
  double mean = 0, deviation = 1;
  /// Samples are powers of two: the distribution gives the exponents.
  bool isLogarithmic = false;
  /// The number of explicit mantissa bits that are kept; 0 keeps the type's (10
  /// for fp32 data that a tf32 kernel reads).
  int mantissaBits = 0;
  /// Above 0, about one element in this many is +outlier or -outlier.
  int outlierPeriod = 0;
  double outlier = 0;
  /// Above 0, about one element in this many is minus infinity.
  int minusInfinityPeriod = 0;
  /// Above 0, every rowPeriod-th row has rowValue in all elements.
  int rowPeriod = 0;
  double rowValue = 0;
  IntegerInit integers = {};
};

/// |d - ref| <= relative*|ref| + scaled*bound + absolute, for each element,
/// where the reference computes `bound` with the value.
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
  OperandInit usual, outliers; ///< for operands that are read
  Tolerance tolerance;         ///< for operands that are written
  /// With a leading dimension or batch stride of 0 one row, or matrix, serves
  /// the whole problem.
  int64_t rows = 0, cols = 0, leadingDimension = 0;
  int64_t batch = 1, batchStride = 0;
  int64_t planes = 1, planeStride = 0;
  /// Its start, in bytes past a 256-byte boundary: exactly the alignment that
  /// the problem promises.
  int64_t misalignment = 0;
  /// The bytes that divide its address, if the problem's promise is not about
  /// it; 0: the promise holds.
  int64_t alignment = 0;
  bool present = true; ///< false: the problem has no such operand
  /// Its place in kiln_arguments.operands; -1: its index in the table.
  int slot = -1;
  /// For an output: the index of the input that it may be exactly (same address
  /// and strides); -1: none.
  int mayBe = -1;

  /// The bytes of its elements, each counted once; 0 if it is not there.
  double elementBytes() const {
    constexpr double kBitsPerByte = 8;
    return present ? double(batch) * double(planes) * double(rows) *
                         double(cols) * bitsOf(type) / kBitsPerByte
                   : 0;
  }

  bool isWritten() const {
    return present && (role == OperandRole::Out || role == OperandRole::InOut);
  }
  const OperandInit &init(TrialData data) const {
    return data == TrialData::Usual ? usual : outliers;
  }
  /// The bytes from the first one to the end of the last row.
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

/// The arguments of one launch: plain data that owns nothing.
struct Arguments {
  static constexpr int kMaxOperands = 24;
  static constexpr int kMaxScalars = 4;

  /// All 0.
  Arguments() : operands() {}
  /// Leaves operands unset: for a launch that hits, which sets its family's.
  struct Unset {};
  explicit Arguments(Unset /*operands*/) {}

  /// The values of the problem at this call, in schema order.
  const int64_t *problem = nullptr;
  OperandArgument operands[kMaxOperands];
  /// In the order of the schema's Scalar fields.
  double scalars[kMaxScalars] = {};
  /// If not 0, the scalar's value is in device memory as fp32.
  DeviceAddress scalarAddresses[kMaxScalars] = {};
  /// A bit for each operand, such as a weight, that no kernel writes that may
  /// still run when the launch begins.
  uint32_t constants = 0;
  /// The launch may begin before the previous kernel in the stream has ended,
  /// and waits for that itself (common/Dependent.cuh).
  bool isDependent = false;

  /// Whether operand \p index may be read before that wait.
  bool isEarly(int index) const {
    return isDependent && (constants >> index & 1);
  }
};

/// The operands of a problem in the order of Arguments. Every written one is
/// compared with the reference.
struct OperandTable {
  llvm::SmallVector<OperandSpec, Arguments::kMaxOperands> operands;
};

} // namespace kiln
