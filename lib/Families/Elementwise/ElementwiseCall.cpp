//===- ElementwiseCall.cpp - kiln_elementwise_args as a call --------------===//
#include "Families/Elementwise/ElementwiseCall.h"

#include "Families/Elementwise/ElementwiseProblem.h"
#include "Families/OperandCheck.h"
#include "Families/OperandReader.h"

#include <bit>
#include <cmath>

namespace kiln {

namespace {
/// The links of a chain as a record holds them.
struct Links {
  uint64_t packed = 0;
  int count = 0;
  double factor = 1;      ///< of the one scale
  int64_t leadingDim = 0; ///< of all matrices, canonical
  bool hasMatrix = false, hasFactor = false;
};
} // namespace

static constexpr int kFields = ElementwiseField::Align + 1;
static_assert(int(KILN_ELEMENTWISE_X) == int(ElementwiseOperand::X) &&
              int(KILN_ELEMENTWISE_Y) == int(ElementwiseOperand::Y) &&
              int(KILN_ELEMENTWISE_POINTWISE) ==
                  int(ElementwiseOperand::FirstLink));
static_assert(KILN_ELEMENTWISE_POINTWISE + KILN_MAX_POINTWISE <=
              Arguments::kMaxOperands);

//===----------------------------------------------------------------------===//
// The dispatch path
//===----------------------------------------------------------------------===//

/// Reads one link. False if it is wrong in a way that \p reader does not see.
static bool readLink(const kiln_elementwise_args &args,
                     const kiln_pointwise &link, OperandReader &reader,
                     Links &links, OperandArgument &to) {
  auto op = static_cast<PointwiseOp>(link.op);
  LinkShape shape = shapeOf(op);
  if (shape == LinkShape::Scalar) {
    bool again = links.hasFactor;
    links.hasFactor = true;
    links.factor = link.params[0];
    return !again && std::isfinite(link.params[0]) &&
           isZero(link.params + 1, sizeof(link.params) - sizeof(float));
  }
  if (!isZero(link.params, sizeof(link.params)))
    return false;
  if (shape == LinkShape::None)
    return true;
  bool isMatrix = shape == LinkShape::Matrix;
  int64_t row = isMatrix ? resolveRow(link.operand.leading_dim, args.cols) : 0;
  reader.read(link.operand, elementBytesOf(args.x.type), row, true, to);
  reader.expectType(link.operand, args.x.type);
  if (!isMatrix)
    return true;
  int64_t leadingDim = canonicalRow(link.operand.leading_dim, args.cols);
  bool differs = links.hasMatrix && leadingDim != links.leadingDim;
  links.hasMatrix = true;
  links.leadingDim = leadingDim;
  return !differs;
}

static bool readLinks(const kiln_elementwise_args &args, OperandReader &reader,
                      Links &links, OperandArgument *operands) {
  if (args.pointwise_count > KILN_MAX_POINTWISE ||
      (args.pointwise_count && !args.pointwise))
    return false;
  for (uint32_t i = 0; i < args.pointwise_count; ++i) {
    if (!isGoodLink(args.pointwise, i))
      return false;
    const kiln_pointwise &link = at(args.pointwise, i);
    if (link.op != KILN_POINTWISE_NONE)
      links.packed |= static_cast<uint64_t>(link.op) << (8 * links.count);
    if (!readLink(args, link, reader, links,
                  operands[KILN_ELEMENTWISE_POINTWISE + links.count]))
      return false;
    links.count += link.op != KILN_POINTWISE_NONE;
  }
  return true;
}

bool readElementwiseCall(const kiln_elementwise_args &args,
                         CallAddresses addresses, FamilyCall &call) noexcept {
  if (!hasKnownSize(args) || hasRowSlots(args) || (args.rows | args.cols) < 0)
    return false;
  call.isEmpty = args.rows == 0 || args.cols == 0;
  kiln_dtype in = args.x.type, out = args.y.type ? args.y.type : in;
  uint64_t inBytes = elementBytesOf(in), outBytes = elementBytesOf(out);
  OperandReader reader(addresses, call.isEmpty);
  OperandArgument *operands = call.arguments.operands;
  reader.read(args.x, inBytes, resolveRow(args.x.leading_dim, args.cols), true,
              operands[KILN_ELEMENTWISE_X]);
  reader.read(args.y, outBytes, resolveRow(args.y.leading_dim, args.cols), true,
              operands[KILN_ELEMENTWISE_Y]);
  Links links;
  if (!readLinks(args, reader, links, operands))
    return false;
  int mayBe = inBytes == outBytes ? KILN_ELEMENTWISE_X : -1;
  size_t count = static_cast<size_t>(KILN_ELEMENTWISE_POINTWISE + links.count);
  reader.checkWritten({operands, count}, KILN_ELEMENTWISE_Y, mayBe);
  if (reader.wrong)
    return false;
  call.arguments.scalars[ElementwiseScalar::Scale] = links.factor;
  int64_t *values = call.values;
  values[ElementwiseField::Op] = static_cast<int64_t>(links.packed);
  values[ElementwiseField::Rows] = args.rows;
  values[ElementwiseField::Cols] = args.cols;
  values[ElementwiseField::DType] = in;
  values[ElementwiseField::Out] = out == in ? 0 : out;
  values[ElementwiseField::Scale] = std::bit_cast<int64_t>(1.0);
  values[ElementwiseField::LdX] = canonicalRow(args.x.leading_dim, args.cols);
  values[ElementwiseField::LdY] = canonicalRow(args.y.leading_dim, args.cols);
  values[ElementwiseField::LdOperand] = links.leadingDim;
  values[ElementwiseField::Align] = reader.alignment();
  call.fieldCount = kFields;
  return true;
}

//===----------------------------------------------------------------------===//
// What is wrong
//===----------------------------------------------------------------------===//

static llvm::Error checkElementwiseType(llvm::StringRef name, kiln_dtype type) {
  switch (type) {
  case KILN_DTYPE_NONE:
    return makeError(ErrorCode::InvalidArgument, "{}.type is required", name);
  case KILN_BF16:
  case KILN_FP16:
  case KILN_FP32:
  case KILN_E4M3:
    return llvm::Error::success();
  default:
    return makeError(ErrorCode::Unsupported,
                     "{}.type {:#x}: bf16, fp16, fp32 and e4m3 are supported",
                     name, type);
  }
}

static llvm::Error checkParams(const kiln_pointwise &link, uint32_t index) {
  bool isScale = link.op == KILN_POINTWISE_SCALE;
  if (isScale && !std::isfinite(link.params[0]))
    return makeError(ErrorCode::InvalidArgument,
                     "pointwise[{}].params[0] is {}, not a finite factor",
                     index, link.params[0]);
  size_t used = isScale ? 1 : 0;
  if (!isZero(link.params + used, sizeof(link.params) - used * sizeof(float)))
    return makeError(ErrorCode::Unsupported,
                     "pointwise[{}].params: operation {} does not take them",
                     index, link.op);
  return llvm::Error::success();
}

/// Adds the operand of one link to \p operands.
static llvm::Error checkLink(const kiln_elementwise_args &args, uint32_t index,
                             std::vector<NamedOperand> &operands) {
  const kiln_pointwise &link = at(args.pointwise, index);
  auto op = static_cast<PointwiseOp>(link.op);
  bool isKnown =
      link.op == KILN_POINTWISE_NONE || link.op == KILN_POINTWISE_RELU ||
      link.op == KILN_POINTWISE_GELU_ERF ||
      link.op == KILN_POINTWISE_GELU_TANH || link.op == KILN_POINTWISE_SILU ||
      shapeOf(op) != LinkShape::None;
  if (joinsColumns(op))
    return makeError(ErrorCode::Unsupported,
                     "pointwise[{}].op {} joins columns, which is available in "
                     "a gemm only",
                     index, link.op);
  if (!isKnown)
    return makeError(ErrorCode::Unsupported, "pointwise[{}].op {} is unknown",
                     index, link.op);
  if (auto error = checkParams(link, index))
    return error;
  if (!hasOperand(op))
    return llvm::Error::success();
  std::string name = fmt::format("pointwise[{}].operand", index);
  if (auto error = checkType(name, link.operand, args.x.type, "x"))
    return error;
  bool isMatrix = shapeOf(op) == LinkShape::Matrix;
  operands.push_back({.name = std::move(name),
                      .operand = &link.operand,
                      .type = args.x.type,
                      .rowLength = isMatrix ? args.cols : 0,
                      .isVector = !isMatrix});
  return llvm::Error::success();
}

static llvm::Error checkChain(const kiln_elementwise_args &args,
                              std::vector<NamedOperand> &operands) {
  if (args.pointwise_count > KILN_MAX_POINTWISE)
    return makeError(ErrorCode::Unsupported,
                     "pointwise_count is {}, at most {} works",
                     args.pointwise_count, KILN_MAX_POINTWISE);
  if (auto error =
          checkArray(args.pointwise, args.pointwise_count, "pointwise"))
    return error;
  int factors = 0;
  for (uint32_t i = 0; i < args.pointwise_count; ++i) {
    factors += at(args.pointwise, i).op == KILN_POINTWISE_SCALE;
    if (auto error = checkLink(args, i, operands))
      return error;
  }
  if (factors > 1)
    return makeError(ErrorCode::Unsupported, "pointwise has {} scales",
                     factors);
  const NamedOperand *first = nullptr;
  for (const NamedOperand &operand : operands) {
    if (operand.isVector || operand.operand == &args.x ||
        operand.operand == &args.y)
      continue;
    if (first && resolveRow(first->operand->leading_dim, args.cols) !=
                     resolveRow(operand.operand->leading_dim, args.cols))
      return makeError(ErrorCode::Unsupported,
                       "{}.leading_dim is {}, that of {} is {}: matrices of a "
                       "chain share one",
                       operand.name, operand.operand->leading_dim, first->name,
                       first->operand->leading_dim);
    first = &operand;
  }
  return llvm::Error::success();
}

llvm::Error checkElementwise(const kiln_elementwise_args &args,
                             CallAddresses addresses) {
  if (auto error = checkRowArgs(args, "kiln_elementwise_args"))
    return error;
  kiln_dtype out = args.y.type ? args.y.type : args.x.type;
  if (auto error = checkElementwiseType("x", args.x.type))
    return error;
  if (auto error = checkElementwiseType("y", out))
    return error;
  std::vector<NamedOperand> operands = {{.name = "x",
                                         .operand = &args.x,
                                         .type = args.x.type,
                                         .rowLength = args.cols},
                                        {.name = "y",
                                         .operand = &args.y,
                                         .type = out,
                                         .rowLength = args.cols,
                                         .isWritten = true,
                                         .mayBe = "x"}};
  if (auto error = checkChain(args, operands))
    return error;
  return checkOperands(operands, addresses, args.rows == 0 || args.cols == 0);
}

} // namespace kiln
