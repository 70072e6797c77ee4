//===- RowCall.cpp - reductions, softmax, norms, quantisation as calls ----===//
#include "Runtime/RowCall.h"

#include "Families/Rows/RowUnit.h"
#include "Runtime/OperandReader.h"

#include <bit>
#include <limits>

namespace kiln {

static_assert(int(KILN_ROW_X) == int(RowOperand::X) &&
              int(KILN_ROW_Y) == int(RowOperand::Y) &&
              int(KILN_ROW_WEIGHT) == int(RowOperand::Weight) &&
              int(KILN_ROW_BIAS) == int(RowOperand::Bias) &&
              int(KILN_ROW_RESIDUAL) == int(RowOperand::Residual) &&
              int(KILN_ROW_RESIDUAL_OUT) == int(RowOperand::ResidualOut) &&
              int(KILN_ROW_MASK) == int(RowOperand::Mask) &&
              int(KILN_ROW_SCALES) == int(RowOperand::Scales) &&
              int(KILN_ROW_SLOT_COUNT) == int(RowOperand::Count));

namespace {
// Fields of the families' records, in their order; fieldIndex() knows it too,
// but at the cost of a call for each.
struct ReduceField {
  enum : int { Op, Rows, Cols, Axis, DType, Out, LdX, Align, Count };
};
struct SoftmaxField {
  enum : int {
    Rows,
    Cols,
    DType,
    Out,
    Scale,
    Mask,
    LdX,
    LdY,
    LdMask,
    Align,
    Count
  };
};
struct QuantizeField {
  enum : int { Rows, Cols, DType, Op, LdX, LdY, Align, Count };
};
struct NormField {
  enum : int {
    Rows,
    Cols,
    DType,
    Out,
    Weight,
    Bias,
    Residual,
    Epsilon,
    LdX,
    LdY,
    LdResidual,
    LdResidualOut,
    Align,
    Count
  };
};

/// What the structs of these families share: x and y.
template <class Args> struct RowShape {
  kiln_dtype in, out;
  uint64_t inBytes, outBytes;

  explicit RowShape(const Args &args)
      : in(args.x.type), out(args.y.type ? args.y.type : in),
        inBytes(elementBytesOf(in)), outBytes(elementBytesOf(out)) {}

  int64_t outValue() const { return out == in ? 0 : out; }
  bool quantizes() const { return out == KILN_E4M3 || out == KILN_INT8; }
};
} // namespace

/// Scalars change no choice: a record has a 1 in their place.
static constexpr int64_t kAnyScalar = std::bit_cast<int64_t>(1.0);

template <class Args> static bool isGoodRowStruct(const Args &args) {
  return hasKnownSize(args) && !hasRowSlots(args) &&
         (args.rows | args.cols) >= 0;
}

static bool isFinite(double value) {
  constexpr double kMax = std::numeric_limits<double>::max();
  return -kMax <= value && value <= kMax;
}

bool readReduceCall(const kiln_reduce_args &args, CallAddresses addresses,
                    FamilyCall &call) noexcept {
  if (!isGoodRowStruct(args))
    return false;
  RowShape shape(args);
  call.isEmpty = args.rows == 0 || args.cols == 0;
  OperandReader reader(addresses, call.isEmpty);
  OperandArgument *operands = call.arguments.operands;
  reader.read(args.x, shape.inBytes, resolveRow(args.x.leading_dim, args.cols),
              true, operands[KILN_ROW_X]);
  reader.read(args.y, shape.outBytes, 1, true, operands[KILN_ROW_Y]);
  reader.checkWritten({operands, 2}, KILN_ROW_Y, -1);
  // The operations of a kernel follow those that are no reductions.
  constexpr int kFirst =
      static_cast<int>(RowOp::Sum) - static_cast<int>(KILN_REDUCTION_SUM);
  static_assert(kFirst + KILN_REDUCTION_MAX == int(RowOp::Max) &&
                kFirst + KILN_REDUCTION_MEAN == int(RowOp::Mean) &&
                kFirst + KILN_REDUCTION_SUM_SQUARES == int(RowOp::SumSquares));
  if (reader.wrong)
    return false;
  int64_t *values = call.values;
  values[ReduceField::Op] = int64_t(args.op) + kFirst;
  values[ReduceField::Rows] = args.rows;
  values[ReduceField::Cols] = args.cols;
  values[ReduceField::Axis] = args.axis;
  values[ReduceField::DType] = shape.in;
  values[ReduceField::Out] = shape.outValue();
  values[ReduceField::LdX] = canonicalRow(args.x.leading_dim, args.cols);
  values[ReduceField::Align] = reader.alignment();
  call.fieldCount = ReduceField::Count;
  return true;
}

bool readSoftmaxCall(const kiln_softmax_args &args, CallAddresses addresses,
                     FamilyCall &call) noexcept {
  if (!isGoodRowStruct(args) || !isFinite(args.scale))
    return false;
  RowShape shape(args);
  call.isEmpty = args.rows == 0 || args.cols == 0;
  OperandReader reader(addresses, call.isEmpty);
  OperandArgument *operands = call.arguments.operands;
  reader.read(args.x, shape.inBytes, resolveRow(args.x.leading_dim, args.cols),
              true, operands[KILN_ROW_X]);
  reader.read(args.y, shape.outBytes, resolveRow(args.y.leading_dim, args.cols),
              true, operands[KILN_ROW_Y]);
  bool isMatrix = args.mask_kind == KILN_MASK_MATRIX;
  int64_t maskRow = isMatrix ? args.mask.leading_dim : 0;
  if (args.mask_kind != KILN_MASK_NONE) {
    reader.read(args.mask, shape.inBytes,
                isMatrix ? resolveRow(maskRow, args.cols) : 0, true,
                operands[KILN_ROW_MASK]);
    reader.expectType(args.mask, shape.in);
  }
  int mayBe = shape.inBytes == shape.outBytes ? KILN_ROW_X : -1;
  reader.checkWritten({operands, KILN_ROW_SLOT_COUNT}, KILN_ROW_Y, mayBe);
  constexpr int kStep = KILN_MASK_MATRIX;
  static_assert(KILN_MASK_MATRIX == kStep * int(RowMask::Matrix) &&
                KILN_MASK_ROW == kStep * int(RowMask::Row));
  if (reader.wrong || args.mask_kind % kStep != 0)
    return false;
  call.arguments.scalars[0] = args.scale;
  int64_t *values = call.values;
  values[SoftmaxField::Rows] = args.rows;
  values[SoftmaxField::Cols] = args.cols;
  values[SoftmaxField::DType] = shape.in;
  values[SoftmaxField::Out] = shape.outValue();
  values[SoftmaxField::Scale] = kAnyScalar;
  values[SoftmaxField::Mask] = args.mask_kind / kStep;
  values[SoftmaxField::LdX] = canonicalRow(args.x.leading_dim, args.cols);
  values[SoftmaxField::LdY] = canonicalRow(args.y.leading_dim, args.cols);
  values[SoftmaxField::LdMask] = canonicalRow(maskRow, args.cols);
  values[SoftmaxField::Align] = reader.alignment();
  call.fieldCount = SoftmaxField::Count;
  return true;
}

bool readQuantizeCall(const kiln_quantize_args &args, CallAddresses addresses,
                      FamilyCall &call) noexcept {
  if (!isGoodRowStruct(args))
    return false;
  RowShape shape(args);
  call.isEmpty = args.rows == 0 || args.cols == 0;
  OperandReader reader(addresses, call.isEmpty);
  OperandArgument *operands = call.arguments.operands;
  reader.read(args.x, shape.inBytes, resolveRow(args.x.leading_dim, args.cols),
              true, operands[KILN_ROW_X]);
  reader.readScaled(args.y, shape.outBytes,
                    resolveRow(args.y.leading_dim, args.cols), true,
                    operands[KILN_ROW_Y]);
  reader.readScales(args.y, operands[KILN_ROW_SCALES]);
  llvm::ArrayRef<OperandArgument> all(operands, KILN_ROW_SLOT_COUNT);
  reader.checkWritten(all, KILN_ROW_Y, -1);
  reader.checkWritten(all, KILN_ROW_SCALES, -1);
  if (reader.wrong)
    return false;
  int64_t *values = call.values;
  values[QuantizeField::Rows] = args.rows;
  values[QuantizeField::Cols] = args.cols;
  values[QuantizeField::DType] = shape.in;
  values[QuantizeField::Op] = shape.out;
  values[QuantizeField::LdX] = canonicalRow(args.x.leading_dim, args.cols);
  values[QuantizeField::LdY] = canonicalRow(args.y.leading_dim, args.cols);
  values[QuantizeField::Align] = reader.alignment();
  call.fieldCount = QuantizeField::Count;
  return true;
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The operands that a norm need not have.
static void readOptional(const kiln_norm_args &args,
                         const RowShape<kiln_norm_args> &shape,
                         OperandReader &reader, OperandArgument *operands) {
  struct Optional {
    const kiln_operand &from;
    int slot;
    bool isMatrix;
  };
  for (const Optional &one :
       {Optional{args.weight, KILN_ROW_WEIGHT, false},
        Optional{args.bias, KILN_ROW_BIAS, false},
        Optional{args.residual, KILN_ROW_RESIDUAL, true},
        Optional{args.residual_out, KILN_ROW_RESIDUAL_OUT, true}}) {
    if (one.from.type == KILN_DTYPE_NONE) {
      reader.readAbsent(one.from);
      continue;
    }
    int64_t row =
        one.isMatrix ? resolveRow(one.from.leading_dim, args.cols) : 0;
    reader.read(one.from, shape.inBytes, row, true, operands[one.slot]);
    reader.expectType(one.from, shape.in);
  }
}

static void readNormValues(const kiln_norm_args &args,
                           const RowShape<kiln_norm_args> &shape,
                           int64_t alignment, int64_t *values) {
  bool hasResidual = args.residual.type != KILN_DTYPE_NONE;
  values[NormField::Rows] = args.rows;
  values[NormField::Cols] = args.cols;
  values[NormField::DType] = shape.in;
  values[NormField::Out] = shape.outValue();
  values[NormField::Weight] = args.weight.type != KILN_DTYPE_NONE;
  values[NormField::Bias] = args.bias.type != KILN_DTYPE_NONE;
  values[NormField::Residual] = hasResidual;
  values[NormField::Epsilon] = kAnyScalar;
  values[NormField::LdX] = canonicalRow(args.x.leading_dim, args.cols);
  values[NormField::LdY] = canonicalRow(args.y.leading_dim, args.cols);
  values[NormField::LdResidual] =
      hasResidual ? canonicalRow(args.residual.leading_dim, args.cols) : 0;
  values[NormField::LdResidualOut] =
      hasResidual ? canonicalRow(args.residual_out.leading_dim, args.cols) : 0;
  values[NormField::Align] = alignment;
}

bool readNormCall(const kiln_norm_args &args, CallAddresses addresses,
                  FamilyCall &call) noexcept {
  bool isGoodEpsilon = args.epsilon >= 0 && isFinite(args.epsilon);
  bool isGoodPair = (args.residual.type != KILN_DTYPE_NONE) ==
                    (args.residual_out.type != KILN_DTYPE_NONE);
  if (!isGoodRowStruct(args) || !isGoodEpsilon || !isGoodPair)
    return false;
  RowShape shape(args);
  call.isEmpty = args.rows == 0 || args.cols == 0;
  OperandReader reader(addresses, call.isEmpty);
  OperandArgument *operands = call.arguments.operands;
  reader.read(args.x, shape.inBytes, resolveRow(args.x.leading_dim, args.cols),
              true, operands[KILN_ROW_X]);
  reader.readScaled(args.y, shape.outBytes,
                    resolveRow(args.y.leading_dim, args.cols), true,
                    operands[KILN_ROW_Y]);
  if (shape.quantizes())
    reader.readScales(args.y, operands[KILN_ROW_SCALES]);
  else
    reader.wrong |= args.y.scale != nullptr;
  readOptional(args, shape, reader, operands);
  llvm::ArrayRef<OperandArgument> all(operands, KILN_ROW_SLOT_COUNT);
  int mayBe = shape.inBytes == shape.outBytes ? KILN_ROW_X : -1;
  reader.checkWritten(all, KILN_ROW_Y, mayBe);
  reader.checkWritten(all, KILN_ROW_RESIDUAL_OUT, KILN_ROW_RESIDUAL);
  reader.checkWritten(all, KILN_ROW_SCALES, -1);
  if (reader.wrong)
    return false;
  call.arguments.scalars[0] = args.epsilon;
  readNormValues(args, shape, reader.alignment(), call.values);
  call.fieldCount = NormField::Count;
  return true;
}

} // namespace kiln
