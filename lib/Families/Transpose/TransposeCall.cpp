//===- TransposeCall.cpp - kiln_transpose_args as a call ------------------===//
#include "Families/Transpose/TransposeCall.h"

#include "Families/OperandCheck.h"
#include "Families/OperandReader.h"
#include "Families/Transpose/TransposeProblem.h"

namespace kiln {

static constexpr int kFields = TransposeField::Align + 1;

bool readTransposeCall(const kiln_transpose_args &args, CallAddresses addresses,
                       FamilyCall &call) noexcept {
  if (!hasKnownSize(args) || hasRowSlots(args) || (args.rows | args.cols) < 0)
    return false;
  call.isEmpty = args.rows == 0 || args.cols == 0;
  uint64_t bytes = elementBytesOf(args.x.type);
  OperandReader reader(addresses, call.isEmpty);
  OperandArgument *operands = call.arguments.operands;
  reader.read(args.x, bytes, resolveRow(args.x.leading_dim, args.cols), true,
              operands[KILN_TRANSPOSE_X]);
  reader.read(args.y, bytes, resolveRow(args.y.leading_dim, args.rows), true,
              operands[KILN_TRANSPOSE_Y]);
  reader.expectType(args.y, args.x.type);
  reader.checkWritten({operands, KILN_TRANSPOSE_SLOT_COUNT}, KILN_TRANSPOSE_Y,
                      -1);
  if (reader.wrong)
    return false;
  int64_t *values = call.values;
  values[TransposeField::Rows] = args.rows;
  values[TransposeField::Cols] = args.cols;
  values[TransposeField::DType] = args.x.type;
  values[TransposeField::Ldx] = canonicalRow(args.x.leading_dim, args.cols);
  values[TransposeField::Ldy] = reader.recordRow(args.y.leading_dim, args.rows);
  values[TransposeField::Align] = reader.alignment();
  call.fieldCount = kFields;
  return true;
}

static llvm::Error checkTypes(const kiln_transpose_args &args) {
  switch (args.x.type) {
  case KILN_DTYPE_NONE:
    return makeError(ErrorCode::InvalidArgument, "x.type is required");
  case KILN_BF16:
  case KILN_FP16:
  case KILN_FP32:
  case KILN_E4M3:
  case KILN_INT8:
    return checkType("y", args.y, args.x.type, "x");
  default:
    return makeError(
        ErrorCode::Unsupported,
        "x.type {:#x}: bf16, fp16, fp32, e4m3 and int8 are supported",
        args.x.type);
  }
}

llvm::Error checkTranspose(const kiln_transpose_args &args,
                           CallAddresses addresses) {
  if (auto error = checkRowArgs(args, "kiln_transpose_args"))
    return error;
  if (auto error = checkTypes(args))
    return error;
  NamedOperand operands[] = {{.name = "x",
                              .operand = &args.x,
                              .type = args.x.type,
                              .rowLength = args.cols},
                             {.name = "y",
                              .operand = &args.y,
                              .type = args.x.type,
                              .rowLength = args.rows,
                              .isWritten = true}};
  return checkOperands(operands, addresses, args.rows == 0 || args.cols == 0);
}

} // namespace kiln
