//===- RowCall.cpp - reductions, softmax, norms, quantisation as calls ----===//
#include "Families/Rows/RowCall.h"

#include "Families/OperandReader.h"
#include "Families/Rows/RowFields.h"
#include "Families/Rows/RowUnit.h"

#include <bit>
#include <cmath>

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
/// The values of a record, by field. Where each goes is known when this is
/// compiled.
template <RowKind kKind> class RowValues {
  static_assert(RowField::Count <= kMaxProblemFields);

public:
  explicit RowValues(FamilyCall &call) : values(call.values) {
    call.fieldCount = fieldsOf(kKind).count;
  }

  template <int kField> int64_t &at() {
    constexpr int kIndex = fieldIndex(kKind, kField);
    static_assert(kIndex >= 0, "the family has no such field");
    return values[kIndex];
  }

private:
  int64_t *values;
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

/// As a kernel takes it: in fp32.
static bool isFinite(double value) {
  return std::isfinite(static_cast<float>(value));
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
  RowValues<RowKind::Reduce> values(call);
  values.at<RowField::Op>() = int64_t(args.op) + kFirst;
  values.at<RowField::Rows>() = args.rows;
  values.at<RowField::Cols>() = args.cols;
  values.at<RowField::Axis>() = args.axis;
  values.at<RowField::DType>() = shape.in;
  values.at<RowField::Out>() = shape.outValue();
  values.at<RowField::LdX>() = canonicalRow(args.x.leading_dim, args.cols);
  values.at<RowField::Align>() = reader.alignment();
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
  RowValues<RowKind::Softmax> values(call);
  values.at<RowField::Rows>() = args.rows;
  values.at<RowField::Cols>() = args.cols;
  values.at<RowField::DType>() = shape.in;
  values.at<RowField::Out>() = shape.outValue();
  values.at<RowField::Scale>() = kAnyScalar;
  values.at<RowField::Mask>() = args.mask_kind / kStep;
  values.at<RowField::LdX>() = canonicalRow(args.x.leading_dim, args.cols);
  values.at<RowField::LdY>() = canonicalRow(args.y.leading_dim, args.cols);
  values.at<RowField::LdMask>() = canonicalRow(maskRow, args.cols);
  values.at<RowField::Align>() = reader.alignment();
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
  RowValues<RowKind::Rowquant> values(call);
  values.at<RowField::Rows>() = args.rows;
  values.at<RowField::Cols>() = args.cols;
  values.at<RowField::DType>() = shape.in;
  values.at<RowField::Op>() = shape.out;
  values.at<RowField::LdX>() = canonicalRow(args.x.leading_dim, args.cols);
  values.at<RowField::LdY>() = canonicalRow(args.y.leading_dim, args.cols);
  values.at<RowField::Align>() = reader.alignment();
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
                           int64_t alignment, FamilyCall &call) {
  static_assert(&fieldsOf(RowKind::RmsNorm) == &fieldsOf(RowKind::LayerNorm));
  RowValues<RowKind::RmsNorm> values(call);
  bool hasResidual = args.residual.type != KILN_DTYPE_NONE;
  values.at<RowField::Rows>() = args.rows;
  values.at<RowField::Cols>() = args.cols;
  values.at<RowField::DType>() = shape.in;
  values.at<RowField::Out>() = shape.outValue();
  values.at<RowField::Weight>() = args.weight.type != KILN_DTYPE_NONE;
  values.at<RowField::Bias>() = args.bias.type != KILN_DTYPE_NONE;
  values.at<RowField::Residual>() = hasResidual;
  values.at<RowField::Epsilon>() = kAnyScalar;
  values.at<RowField::LdX>() = canonicalRow(args.x.leading_dim, args.cols);
  values.at<RowField::LdY>() = canonicalRow(args.y.leading_dim, args.cols);
  values.at<RowField::LdResidual>() =
      hasResidual ? canonicalRow(args.residual.leading_dim, args.cols) : 0;
  values.at<RowField::LdResidualOut>() =
      hasResidual ? canonicalRow(args.residual_out.leading_dim, args.cols) : 0;
  values.at<RowField::Align>() = alignment;
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
  readNormValues(args, shape, reader.alignment(), call);
  return true;
}

const CallReader &rowCall(RowKind kind) {
  static constexpr CallReader readers[] = {
      makeCallReader<kiln_norm_args, readNormCall, checkNorm>(
          KILN_FAMILY_RMS_NORM),
      makeCallReader<kiln_norm_args, readNormCall, checkNorm>(
          KILN_FAMILY_LAYER_NORM),
      makeCallReader<kiln_softmax_args, readSoftmaxCall, checkSoftmax>(
          KILN_FAMILY_SOFTMAX),
      makeCallReader<kiln_quantize_args, readQuantizeCall, checkQuantize>(
          KILN_FAMILY_QUANTIZE),
      makeCallReader<kiln_reduce_args, readReduceCall, checkReduce>(
          KILN_FAMILY_REDUCTION)};
  return readers[static_cast<int>(kind)];
}

} // namespace kiln
