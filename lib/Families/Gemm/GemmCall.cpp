//===- GemmCall.cpp - kiln_gemm_args as values and arguments --------------===//
#include "Families/Gemm/GemmCall.h"

#include "Families/OperandReader.h"

#include <bit>

namespace kiln {

static_assert(sizeof(kiln_operand) == 72, "embedded: it never changes");
static_assert(KILN_FP32 == int(DType::FP32) && KILN_FP16 == int(DType::FP16) &&
              KILN_BF16 == int(DType::BF16) && KILN_FP64 == int(DType::FP64) &&
              KILN_INT32 == int(DType::INT32) &&
              KILN_E4M3 == int(DType::E4M3) && KILN_E5M2 == int(DType::E5M2) &&
              KILN_INT8 == int(DType::INT8));
static_assert(KILN_COMPUTE_NATIVE == int(ComputeMode::Native) &&
              KILN_COMPUTE_TF32 == int(ComputeMode::TF32));
static_assert(KILN_LAYOUT_NN == int(Layout::NN) &&
              KILN_LAYOUT_NT == int(Layout::NT) &&
              KILN_LAYOUT_TN == int(Layout::TN) &&
              KILN_LAYOUT_TT == int(Layout::TT));
static_assert(KILN_POINTWISE_NONE == int(PointwiseOp::None) &&
              KILN_POINTWISE_BIAS == int(PointwiseOp::Bias) &&
              KILN_POINTWISE_RESIDUAL == int(PointwiseOp::Residual) &&
              KILN_POINTWISE_RELU == int(PointwiseOp::Relu) &&
              KILN_POINTWISE_GELU_ERF == int(PointwiseOp::GeluErf) &&
              KILN_POINTWISE_GELU_TANH == int(PointwiseOp::GeluTanh) &&
              KILN_POINTWISE_SILU == int(PointwiseOp::Silu) &&
              KILN_POINTWISE_MUL == int(PointwiseOp::Mul) &&
              KILN_POINTWISE_SCALE == int(PointwiseOp::Scale) &&
              KILN_POINTWISE_ROW_BIAS == int(PointwiseOp::RowBias) &&
              KILN_POINTWISE_COLUMN_SCALE == int(PointwiseOp::ColumnScale) &&
              KILN_POINTWISE_ROW_SCALE == int(PointwiseOp::RowScale) &&
              KILN_POINTWISE_SWIGLU == int(PointwiseOp::SwiGlu));
static_assert(KILN_MAX_POINTWISE == PointwiseChain::kMaxOps);

/// True if a field is set that must not be, whatever the operands are.
static bool hasSlots(const kiln_gemm_args &args) {
  uint64_t set = args.flags | uint32_t(args.max_sms) |
                 uint32_t(args.determinism) | uint64_t(args.m_hint) |
                 reinterpret_cast<uintptr_t>(args.m_device);
  for (uint64_t word : args.reserved)
    set |= word;
  bool accumulator =
      args.accumulator != KILN_DTYPE_NONE && args.accumulator != KILN_FP32;
  return set != 0 || accumulator;
}

/// D may be C exactly, and shares nothing with another operand.
static bool overlaps(const Arguments &arguments, bool readsC, int64_t batch) {
  const OperandArgument *operands = arguments.operands;
  const OperandArgument &c = operands[GemmOperand::C];
  const OperandArgument &d = operands[GemmOperand::D];
  if (d.address == 0)
    return false;
  if (readsC && c.address == d.address &&
      (c.leadingDimension != d.leadingDimension ||
       (batch > 1 && c.batchStride != d.batchStride)))
    return true;
  for (int other : {GemmOperand::A, GemmOperand::B, GemmOperand::Bias,
                    GemmOperand::Residual})
    if (operands[other].address == d.address)
      return true;
  return false;
}

namespace {
/// What the operands and the record of one call are read from.
struct CallShape {
  kiln_dtype in, out;
  bool readsC;
  int64_t chain = 0;
  const kiln_operand *bias = nullptr, *residual = nullptr;
  int64_t packedA, packedB; ///< elements of a row as stored
  int64_t outCols;          ///< of what the links read so far make: D's at last
  int64_t biasCols, residualCols;
  int64_t ldc = 0, ldr = 0; ///< as given, 0 where the operand is not read

  explicit CallShape(const kiln_gemm_args &args)
      : in(args.a.type), out(args.d.type ? args.d.type : in),
        readsC(args.beta != 0 || args.beta_device), outCols(args.n),
        biasCols(args.n), residualCols(args.n) {
    auto layout = static_cast<Layout>(args.layout);
    packedA = isTransposedA(layout) ? args.m : args.k;
    packedB = isTransposedB(layout) ? args.k : args.n;
  }
};
} // namespace

/// Reads the chain into \p shape. False if it is wrong.
static bool readChain(const kiln_gemm_args &args, CallShape &shape) {
  uint64_t packed = 0;
  unsigned length = 0;
  bool isJoined = false;
  if (args.pointwise_count > KILN_MAX_POINTWISE ||
      (args.pointwise_count && !args.pointwise))
    return false;
  for (uint32_t i = 0; i < args.pointwise_count; ++i) {
    const kiln_pointwise &link = at(args.pointwise, i);
    if (!isGoodLink(args.pointwise, i) ||
        !isZero(link.params, sizeof(link.params)))
      return false;
    if (link.op == KILN_POINTWISE_NONE)
      continue;
    packed |= static_cast<uint64_t>(link.op) << (8 * length++);
    if (link.op == KILN_POINTWISE_BIAS) {
      if (shape.bias)
        return false;
      shape.bias = &link.operand;
      shape.biasCols = shape.outCols;
    } else if (link.op == KILN_POINTWISE_RESIDUAL) {
      if (shape.residual)
        return false;
      shape.residual = &link.operand;
      shape.residualCols = shape.outCols;
    } else if (link.op == KILN_POINTWISE_SWIGLU) {
      if (isJoined || shape.readsC || args.n % 2 != 0)
        return false;
      isJoined = true;
      shape.outCols = args.n / 2;
    }
  }
  shape.chain = static_cast<int64_t>(packed);
  return true;
}

/// Fills the arguments of the launch. False if an operand is wrong.
static bool readOperands(const kiln_gemm_args &args, const CallShape &shape,
                         CallUse use, OperandReader &reader, FamilyCall &call) {
  uint64_t inBytes = elementBytesOf(shape.in);
  uint64_t outBytes = elementBytesOf(shape.out);
  bool readsAB = args.k != 0;
  OperandArgument *operands = call.arguments.operands;
  reader.read(args.a, inBytes, resolveRow(args.a.leading_dim, shape.packedA),
              readsAB, operands[GemmOperand::A]);
  reader.read(args.b, inBytes, resolveRow(args.b.leading_dim, shape.packedB),
              readsAB, operands[GemmOperand::B]);
  reader.read(args.d, outBytes, resolveRow(args.d.leading_dim, shape.outCols),
              true, operands[GemmOperand::D]);
  if (shape.readsC)
    reader.read(args.c, outBytes, resolveRow(shape.ldc, args.n), true,
                operands[GemmOperand::C]);
  if (shape.bias)
    reader.read(*shape.bias, outBytes, shape.biasCols, true,
                operands[GemmOperand::Bias]);
  if (shape.residual)
    reader.read(*shape.residual, outBytes,
                resolveRow(shape.ldr, shape.residualCols), true,
                operands[GemmOperand::Residual]);
  auto alpha = reinterpret_cast<uintptr_t>(args.alpha_device);
  auto beta = reinterpret_cast<uintptr_t>(args.beta_device);
  call.arguments.scalars[GemmScalar::Alpha] = args.alpha;
  call.arguments.scalars[GemmScalar::Beta] = args.beta;
  call.arguments.scalarAddresses[GemmScalar::Alpha] = alpha;
  call.arguments.scalarAddresses[GemmScalar::Beta] = beta;
  bool misaligned = ((alpha | beta) & (sizeof(float) - 1)) != 0;
  bool brokenOutput =
      use.mostBatches(args.batch) > 1 && args.d.batch_stride == 0;
  bool isShared =
      !call.isEmpty && overlaps(call.arguments, shape.readsC, args.batch);
  return !(reader.wrong | misaligned | brokenOutput | isShared);
}

/// Fills the record's values.
static void readValues(const kiln_gemm_args &args, const CallShape &shape,
                       const OperandReader &reader, int64_t *values) {
  values[GemmField::M] = args.m;
  values[GemmField::N] = args.n;
  values[GemmField::K] = args.k;
  values[GemmField::DType] = shape.in;
  values[GemmField::Out] = shape.out == shape.in ? 0 : shape.out;
  values[GemmField::Compute] = args.compute;
  values[GemmField::Layout] = args.layout;
  values[GemmField::Batch] = args.batch;
  values[GemmField::Pointwise] = shape.chain;
  values[GemmField::Alpha] = std::bit_cast<int64_t>(1.0);
  values[GemmField::Beta] = std::bit_cast<int64_t>(shape.readsC ? 1.0 : 0.0);
  values[GemmField::Lda] = reader.recordRow(args.a.leading_dim, shape.packedA);
  values[GemmField::Ldb] = canonicalRow(args.b.leading_dim, shape.packedB);
  values[GemmField::Ldc] = canonicalRow(shape.ldc, args.n);
  values[GemmField::Ldd] = canonicalRow(args.d.leading_dim, shape.outCols);
  values[GemmField::LdResidual] = canonicalRow(shape.ldr, shape.residualCols);
  values[GemmField::Align] = reader.alignment();
}
static constexpr int kFields = GemmField::Align + 1;
static_assert(kFields <= kMaxProblemFields);

bool readGemmCall(const kiln_gemm_args &args, CallUse use,
                  FamilyCall &call) noexcept {
  if (!hasKnownSize(args) || hasSlots(args) ||
      (args.m | args.n | args.k | args.batch) < 0)
    return false;
  CallShape shape(args);
  if (!readChain(args, shape))
    return false;
  auto differs = [](const kiln_operand *operand, kiln_dtype type) {
    return operand && operand->type && operand->type != type;
  };
  if (differs(&args.b, shape.in) ||
      (shape.readsC && differs(&args.c, shape.out)) ||
      differs(shape.bias, shape.out) || differs(shape.residual, shape.out))
    return false;
  if (shape.readsC)
    shape.ldc = args.c.leading_dim;
  if (shape.residual)
    shape.ldr = shape.residual->leading_dim;
  call.isEmpty = args.m == 0 || args.n == 0 || args.batch == 0;
  OperandReader reader(use.addresses, call.isEmpty,
                       use.mostBatches(args.batch));
  if (!readOperands(args, shape, use, reader, call))
    return false;
  readValues(args, shape, reader, call.values);
  call.fieldCount = kFields;
  return true;
}

} // namespace kiln
