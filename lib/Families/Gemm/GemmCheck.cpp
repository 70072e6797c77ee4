//===- GemmCheck.cpp - what is wrong with a kiln_gemm_args ----------------===//
//
// Every rule of types.h, each with the words that name the field. Off the
// dispatch path: readGemmCall() tells that something is wrong, not what.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/GemmCall.h"

#include "Families/OperandCheck.h"
#include "Families/OperandReader.h"

#include <vector>

namespace kiln {

static llvm::Error checkEnumerations(const kiln_gemm_args &args) {
  switch (args.layout) {
  case KILN_LAYOUT_NN:
  case KILN_LAYOUT_NT:
  case KILN_LAYOUT_TN:
  case KILN_LAYOUT_TT:
    break;
  default:
    return makeError(ErrorCode::Unsupported, "layout {} is unknown",
                     args.layout);
  }
  if (args.compute != KILN_COMPUTE_NATIVE && args.compute != KILN_COMPUTE_TF32)
    return makeError(ErrorCode::Unsupported, "compute {} is unknown",
                     args.compute);
  if (args.determinism)
    return makeError(ErrorCode::Unsupported,
                     "determinism {} is not available yet", args.determinism);
  if (args.accumulator != KILN_DTYPE_NONE && args.accumulator != KILN_FP32)
    return makeError(ErrorCode::Unsupported, "accumulator {:#x}",
                     args.accumulator);
  return llvm::Error::success();
}

static llvm::Error checkTypes(const kiln_gemm_args &args) {
  kiln_dtype in = args.a.type, out = args.d.type ? args.d.type : in;
  if (in == KILN_DTYPE_NONE)
    return makeError(ErrorCode::InvalidArgument, "a.type is required");
  if (in != KILN_FP32 && in != KILN_FP16 && in != KILN_BF16)
    return makeError(ErrorCode::Unsupported,
                     "a.type {:#x}: bf16, fp16 and fp32 are supported", in);
  if (args.b.type && args.b.type != in)
    return makeError(ErrorCode::Unsupported, "b.type {:#x} is not that of a",
                     args.b.type);
  if (out != in && out != KILN_FP32)
    return makeError(ErrorCode::Unsupported,
                     "d.type {:#x} is neither that of a nor fp32", out);
  bool readsC = args.beta != 0 || args.beta_device;
  if (readsC && args.c.type && args.c.type != out)
    return makeError(ErrorCode::Unsupported, "c.type {:#x} is not that of d",
                     args.c.type);
  if (args.compute == KILN_COMPUTE_TF32 && in != KILN_FP32)
    return makeError(ErrorCode::InvalidArgument,
                     "compute tf32 needs fp32 data");
  return llvm::Error::success();
}

static llvm::Error checkExtents(const kiln_gemm_args &args) {
  for (auto [name, value] : {std::pair("m", args.m),
                             {"n", args.n},
                             {"k", args.k},
                             {"batch", args.batch}})
    if (auto error = checkExtent(name, value))
      return error;
  return llvm::Error::success();
}

namespace {
/// What the links so far have come to.
struct ChainState {
  int biases = 0, residuals = 0, joins = 0;
  int64_t columns; ///< of what the next link acts on, and of D at last
};
} // namespace

static llvm::Error checkSwiGlu(const kiln_gemm_args &args,
                               const ChainState &state) {
  if (state.joins > 1)
    return makeError(ErrorCode::Unsupported,
                     "pointwise has more than one swiglu");
  if (args.n % 2 != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "n is {}, odd: swiglu joins columns in pairs", args.n);
  if (args.beta_device)
    return makeError(ErrorCode::Unsupported,
                     "beta_device is set with swiglu, which takes no C");
  if (args.beta != 0)
    return makeError(ErrorCode::Unsupported,
                     "beta is {} with swiglu, which takes no C", args.beta);
  return llvm::Error::success();
}

/// Adds the operand of link \p index to \p operands.
static llvm::Error checkLink(const kiln_gemm_args &args, uint32_t index,
                             kiln_dtype out, ChainState &state,
                             std::vector<NamedOperand> &operands) {
  const kiln_pointwise &link = at(args.pointwise, index);
  if (!isZero(link.params, sizeof(link.params)))
    return makeError(ErrorCode::Unsupported,
                     "pointwise[{}].params: no operation of a gemm takes any",
                     index);
  std::string name = fmt::format("pointwise[{}].operand", index);
  switch (link.op) {
  case KILN_POINTWISE_BIAS:
    ++state.biases;
    operands.push_back({.name = name,
                        .operand = &link.operand,
                        .type = out,
                        .isVector = true});
    break;
  case KILN_POINTWISE_RESIDUAL:
    ++state.residuals;
    operands.push_back({name, &link.operand, out, state.columns});
    break;
  case KILN_POINTWISE_SWIGLU:
    ++state.joins;
    state.columns = args.n / 2;
    return checkSwiGlu(args, state);
  case KILN_POINTWISE_NONE:
  case KILN_POINTWISE_RELU:
  case KILN_POINTWISE_GELU_ERF:
  case KILN_POINTWISE_GELU_TANH:
  case KILN_POINTWISE_SILU:
    return llvm::Error::success();
  default:
    return makeError(ErrorCode::Unsupported,
                     "pointwise[{}].op {} is not available in a gemm", index,
                     link.op);
  }
  if (link.operand.type && link.operand.type != out)
    return makeError(ErrorCode::Unsupported, "{}.type {:#x} is not that of d",
                     name, link.operand.type);
  return llvm::Error::success();
}

/// Adds the operands of all links to \p operands.
static llvm::Error checkChain(const kiln_gemm_args &args, kiln_dtype out,
                              ChainState &state,
                              std::vector<NamedOperand> &operands) {
  if (args.pointwise_count > KILN_MAX_POINTWISE)
    return makeError(ErrorCode::Unsupported,
                     "pointwise_count is {}, at most {} works",
                     args.pointwise_count, KILN_MAX_POINTWISE);
  if (auto error =
          checkArray(args.pointwise, args.pointwise_count, "pointwise"))
    return error;
  for (uint32_t i = 0; i < args.pointwise_count; ++i)
    if (auto error = checkLink(args, i, out, state, operands))
      return error;
  if (state.biases > 1 || state.residuals > 1)
    return makeError(ErrorCode::Unsupported,
                     "pointwise has more than one bias or residual");
  return llvm::Error::success();
}

/// Slots of the struct that no operand is part of.
static llvm::Error checkSlots(const kiln_gemm_args &args) {
  if (args.flags)
    return makeError(ErrorCode::Unsupported, "flags {:#x} are unknown",
                     args.flags);
  if (args.max_sms)
    return notAvailable("max_sms");
  if (args.m_device || args.m_hint)
    return notAvailable("m_device");
  for (auto [name, scalar] : {std::pair("alpha_device", args.alpha_device),
                              {"beta_device", args.beta_device}})
    if (reinterpret_cast<uintptr_t>(scalar) % sizeof(float))
      return makeError(ErrorCode::InvalidArgument,
                       "{} {:#x} is not aligned to {} bytes", name,
                       reinterpret_cast<uintptr_t>(scalar), sizeof(float));
  return llvm::Error::success();
}

/// What concerns D together with others.
static llvm::Error checkOutputOperand(const kiln_gemm_args &args,
                                      const std::vector<NamedOperand> &operands,
                                      CallUse use) {
  int64_t batch = use.mostBatches(args.batch);
  if (batch > 1 && args.d.batch_stride == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "d.batch_stride is 0 with a batch of {}", batch);
  if (use.addresses == CallAddresses::Ignored || !args.d.data || args.m == 0 ||
      args.n == 0 || args.batch == 0)
    return llvm::Error::success();
  for (const NamedOperand &other : operands) {
    if (other.operand == &args.d || other.operand->data != args.d.data)
      continue;
    bool same = resolveRow(args.c.leading_dim, args.n) ==
                    resolveRow(args.d.leading_dim, args.n) &&
                (args.batch <= 1 || args.c.batch_stride == args.d.batch_stride);
    if (other.operand != &args.c || !same)
      return makeError(ErrorCode::InvalidArgument,
                       "d overlaps {}: it may be c only, with one leading_dim "
                       "and batch_stride",
                       other.name);
  }
  return llvm::Error::success();
}

llvm::Error checkGemm(const kiln_gemm_args &args, CallUse use) {
  if (auto error = checkInput(args, "kiln_gemm_args"))
    return error;
  if (auto error = checkEnumerations(args))
    return error;
  if (auto error = checkTypes(args))
    return error;
  if (auto error = checkExtents(args))
    return error;
  if (auto error = checkSlots(args))
    return error;
  auto layout = static_cast<Layout>(args.layout);
  kiln_dtype in = args.a.type, out = args.d.type ? args.d.type : in;
  bool readsAB = args.k != 0;
  int64_t rowA = isTransposedA(layout) ? args.m : args.k;
  int64_t rowB = isTransposedB(layout) ? args.k : args.n;
  constexpr size_t kD = 2;
  std::vector<NamedOperand> operands = {
      {.name = "a",
       .operand = &args.a,
       .type = in,
       .rowLength = rowA,
       .isRead = readsAB},
      {.name = "b",
       .operand = &args.b,
       .type = in,
       .rowLength = rowB,
       .isRead = readsAB},
      {.name = "d", .operand = &args.d, .type = out}};
  if (args.beta != 0 || args.beta_device)
    operands.push_back({"c", &args.c, out, args.n});
  ChainState chain = {.columns = args.n};
  if (auto error = checkChain(args, out, chain, operands))
    return error;
  operands[kD].rowLength = chain.columns;
  for (NamedOperand &operand : operands)
    operand.hasBatches = true;
  bool isEmpty = args.m == 0 || args.n == 0 || args.batch == 0;
  if (auto error = checkOperands(operands, use.addresses, isEmpty))
    return error;
  return checkOutputOperand(args, operands, use);
}

} // namespace kiln
