//===- RowCheck.cpp - what is wrong with structs over rows ----------------===//
//
// Every rule of rows.h for reductions, softmax, norms and quantisation, each
// with the words that name the field. Off the dispatch path.
//
//===----------------------------------------------------------------------===//
#include "Families/Rows/RowCall.h"

#include "Families/OperandCheck.h"

#include <cmath>

namespace kiln {

static bool isFloat(kiln_dtype type) {
  return type == KILN_FP32 || type == KILN_FP16 || type == KILN_BF16;
}

static bool isQuantized(kiln_dtype type) {
  return type == KILN_E4M3 || type == KILN_INT8;
}

/// Types of x and of y, where y's is \p out; may it be quantised?
static llvm::Error checkTypes(kiln_dtype in, kiln_dtype out, bool mayQuantize) {
  if (in == KILN_DTYPE_NONE)
    return makeError(ErrorCode::InvalidArgument, "x.type is required");
  if (!isFloat(in))
    return makeError(ErrorCode::Unsupported,
                     "x.type {:#x}: bf16, fp16 and fp32 are supported", in);
  if (isFloat(out) || (mayQuantize && isQuantized(out)))
    return llvm::Error::success();
  return makeError(ErrorCode::Unsupported,
                   "y.type {:#x}: bf16, fp16{} are supported", out,
                   mayQuantize ? ", fp32, e4m3 and int8" : " and fp32");
}

/// The scales of a y that is quantised.
static llvm::Error checkScale(const kiln_operand &y) {
  if (!y.scale)
    return makeError(ErrorCode::InvalidArgument,
                     "y.scale is null: y.type {:#x} needs a scale of each row",
                     y.type);
  const kiln_scale &scale = *y.scale;
  if (auto error = checkInput(scale, "y.scale"))
    return error;
  if (scale.granularity != KILN_GRANULARITY_ROW)
    return makeError(ErrorCode::Unsupported,
                     "y.scale: granularity {}, one scale per row is supported",
                     scale.granularity);
  if (scale.type != KILN_DTYPE_NONE && scale.type != KILN_FP32)
    return makeError(ErrorCode::Unsupported,
                     "y.scale: type {:#x}, fp32 is supported", scale.type);
  if (scale.block_rows || scale.block_columns || scale.order)
    return notAvailable("y.scale: an order of blocks");
  if (scale.row_stride || scale.column_stride || scale.batch_stride)
    return notAvailable("y.scale: a stride");
  return llvm::Error::success();
}

/// The operands of one call, with x and y.
template <class Args>
static std::vector<NamedOperand> namedXY(const Args &args, kiln_dtype out) {
  return {{.name = "x",
           .operand = &args.x,
           .type = args.x.type,
           .rowLength = args.cols},
          {.name = "y",
           .operand = &args.y,
           .type = out,
           .rowLength = args.cols,
           .isWritten = true,
           .mayBe = "x",
           .mayScale = isQuantized(out)}};
}

/// The scales' address as an operand of its own. \p y has scales.
static kiln_operand scalesOf(const kiln_operand &y) {
  kiln_operand scales = KILN_INIT(kiln_operand);
  scales.data = y.scale->data;
  return scales;
}

static NamedOperand namedScales(const kiln_operand &scales) {
  return {.name = "y.scale",
          .operand = &scales,
          .type = KILN_FP32,
          .isVector = true,
          .isWritten = true};
}

template <class Args> static bool isEmpty(const Args &args) {
  return args.rows == 0 || args.cols == 0;
}

llvm::Error checkReduce(const kiln_reduce_args &args, CallAddresses addresses) {
  if (auto error = checkRowArgs(args, "kiln_reduce_args"))
    return error;
  switch (args.op) {
  case KILN_REDUCTION_SUM:
  case KILN_REDUCTION_MAX:
  case KILN_REDUCTION_MEAN:
  case KILN_REDUCTION_SUM_SQUARES:
    break;
  case KILN_REDUCTION_NONE:
    return makeError(ErrorCode::InvalidArgument, "op is required");
  default:
    return makeError(ErrorCode::Unsupported, "op {} is unknown", args.op);
  }
  if (args.axis != KILN_AXIS_COLUMNS && args.axis != KILN_AXIS_ALL)
    return makeError(ErrorCode::Unsupported, "axis {} is unknown", args.axis);
  bool hasNothing =
      args.cols == 0 || (args.rows == 0 && args.axis == KILN_AXIS_ALL);
  if (hasNothing)
    return makeError(ErrorCode::InvalidArgument,
                     "rows {} and cols {} leave nothing to reduce", args.rows,
                     args.cols);
  kiln_dtype out = args.y.type ? args.y.type : args.x.type;
  if (auto error = checkTypes(args.x.type, out, false))
    return error;
  std::vector<NamedOperand> operands = namedXY(args, out);
  operands[1].isVector = true;
  operands[1].mayBe = {};
  return checkOperands(operands, addresses, isEmpty(args));
}

llvm::Error checkSoftmax(const kiln_softmax_args &args,
                         CallAddresses addresses) {
  if (auto error = checkRowArgs(args, "kiln_softmax_args"))
    return error;
  if (!std::isfinite(static_cast<float>(args.scale)))
    return makeError(ErrorCode::InvalidArgument,
                     "scale is {}, no finite number in fp32", args.scale);
  kiln_dtype out = args.y.type ? args.y.type : args.x.type;
  if (auto error = checkTypes(args.x.type, out, false))
    return error;
  std::vector<NamedOperand> operands = namedXY(args, out);
  switch (args.mask_kind) {
  case KILN_MASK_NONE:
    break;
  case KILN_MASK_MATRIX:
  case KILN_MASK_ROW:
    if (auto error = checkType("mask", args.mask, args.x.type, "x"))
      return error;
    operands.push_back({.name = "mask",
                        .operand = &args.mask,
                        .type = args.x.type,
                        .rowLength = args.cols,
                        .isVector = args.mask_kind == KILN_MASK_ROW});
    break;
  default:
    return makeError(ErrorCode::Unsupported, "mask_kind {} is unknown",
                     args.mask_kind);
  }
  return checkOperands(operands, addresses, isEmpty(args));
}

llvm::Error checkQuantize(const kiln_quantize_args &args,
                          CallAddresses addresses) {
  if (auto error = checkRowArgs(args, "kiln_quantize_args"))
    return error;
  if (args.y.type == KILN_DTYPE_NONE)
    return makeError(ErrorCode::InvalidArgument, "y.type is required");
  if (auto error = checkTypes(args.x.type, args.y.type, true))
    return error;
  if (!isQuantized(args.y.type))
    return makeError(ErrorCode::Unsupported,
                     "y.type {:#x}: e4m3 and int8 are supported", args.y.type);
  if (auto error = checkScale(args.y))
    return error;
  std::vector<NamedOperand> operands = namedXY(args, args.y.type);
  operands[1].mayBe = {};
  kiln_operand scales = scalesOf(args.y);
  operands.push_back(namedScales(scales));
  return checkOperands(operands, addresses, isEmpty(args));
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Adds an optional operand to \p operands if the call has it.
static llvm::Error addOptional(NamedOperand added, CallAddresses addresses,
                               std::vector<NamedOperand> &operands) {
  const kiln_operand &operand = *added.operand;
  if (operand.type == KILN_DTYPE_NONE)
    return checkAbsent(added.name, operand, addresses);
  if (auto error = checkType(added.name, operand, added.type, "x"))
    return error;
  operands.push_back(std::move(added));
  return llvm::Error::success();
}

static llvm::Error checkOptional(const kiln_norm_args &args,
                                 CallAddresses addresses,
                                 std::vector<NamedOperand> &operands) {
  bool hasResidual = args.residual.type != KILN_DTYPE_NONE;
  bool hasOut = args.residual_out.type != KILN_DTYPE_NONE;
  if (hasResidual != hasOut)
    return makeError(ErrorCode::Unsupported,
                     "residual and residual_out come together: only the type "
                     "of {} is set",
                     hasResidual ? "residual" : "residual_out");
  kiln_dtype type = args.x.type;
  NamedOperand optional[] = {
      {.name = "weight",
       .operand = &args.weight,
       .type = type,
       .isVector = true},
      {.name = "bias", .operand = &args.bias, .type = type, .isVector = true},
      {.name = "residual",
       .operand = &args.residual,
       .type = type,
       .rowLength = args.cols},
      {.name = "residual_out",
       .operand = &args.residual_out,
       .type = type,
       .rowLength = args.cols,
       .isWritten = true,
       .mayBe = "residual"}};
  for (NamedOperand &one : optional)
    if (auto error = addOptional(std::move(one), addresses, operands))
      return error;
  return llvm::Error::success();
}

llvm::Error checkNorm(const kiln_norm_args &args, CallAddresses addresses) {
  if (auto error = checkRowArgs(args, "kiln_norm_args"))
    return error;
  if (!(args.epsilon >= 0) || !std::isfinite(static_cast<float>(args.epsilon)))
    return makeError(ErrorCode::InvalidArgument,
                     "epsilon is {}, no finite number in fp32 from 0 on",
                     args.epsilon);
  kiln_dtype out = args.y.type ? args.y.type : args.x.type;
  if (auto error = checkTypes(args.x.type, out, true))
    return error;
  std::vector<NamedOperand> operands = namedXY(args, out);
  if (auto error = checkOptional(args, addresses, operands))
    return error;
  kiln_operand scales;
  if (isQuantized(out)) {
    if (auto error = checkScale(args.y))
      return error;
    scales = scalesOf(args.y);
    operands.push_back(namedScales(scales));
  }
  return checkOperands(operands, addresses, isEmpty(args));
}

} // namespace kiln
