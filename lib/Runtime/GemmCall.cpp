//===- GemmCall.cpp - kiln_gemm_args as values and arguments --------------===//
#include "Runtime/GemmCall.h"

#include "Runtime/StructAccess.h"

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
              KILN_POINTWISE_SILU == int(PointwiseOp::Silu));
static_assert(KILN_MAX_POINTWISE == PointwiseChain::kMaxOps);

/// Greatest alignment that the family tells apart, in bytes.
static constexpr uint64_t kMaxAlign = 16;

static uint64_t addressOf(const kiln_operand &operand) {
  return reinterpret_cast<uintptr_t>(operand.data);
}

/// Leading dimensions, resolved, and what the family's record has for them.
static int64_t resolve(int64_t given, int64_t packed) {
  return given ? given : packed;
}
static int64_t canonical(int64_t given, int64_t packed) {
  return given == packed ? 0 : given;
}

//===----------------------------------------------------------------------===//
// The dispatch path
//===----------------------------------------------------------------------===//

namespace {

/// Reads the operands of one call, collecting what is wrong and how all of them
/// are aligned.
class OperandReader {
public:
  OperandReader(const kiln_gemm_args &args, GemmAddresses addresses,
                bool isEmpty)
      : batch(args.batch), launches(addresses == GemmAddresses::Used),
        needed(launches && !isEmpty) {}

  void read(const kiln_operand &from, uint64_t elementBytes,
            int64_t leadingDimension, bool isRead, OperandArgument &to) {
    uint64_t address = launches ? addressOf(from) : 0;
    uint64_t promise = from.alignment;
    wrong |= (from.struct_size != 0) & (from.struct_size != sizeof(from));
    wrong |= (from.flags & ~uint32_t(KILN_OPERAND_CONSTANT)) != 0;
    wrong |= (from.reserved[0] | from.reserved[1] | from.reserved[2]) != 0;
    wrong |= from.scale != nullptr;
    wrong |= (promise & (promise - 1)) != 0;
    wrong |= needed & isRead & (address == 0);
    wrong |= (address & (elementBytes - 1)) != 0;
    wrong |= (promise != 0) & ((address & (promise - 1)) != 0);
    // An address is aligned to its element whatever less is promised.
    bits |= promise ? std::max(promise, elementBytes) : address;
    if (batch > 1)
      bits |= static_cast<uint64_t>(from.batch_stride) * elementBytes;
    to = {address, leadingDimension, from.batch_stride};
  }

  int64_t alignment() const {
    uint64_t all = bits | kMaxAlign;
    return static_cast<int64_t>(all & -all);
  }

  bool wrong = false;

private:
  int64_t batch;
  bool launches, needed;
  uint64_t bits = 0;
};

} // namespace

/// The chain as a record holds it; its operands go to \p bias and \p residual.
static bool readChain(const kiln_gemm_args &args, int64_t &chain,
                      const kiln_operand *&bias,
                      const kiln_operand *&residual) {
  uint64_t packed = 0;
  unsigned length = 0;
  if (args.pointwise_count > KILN_MAX_POINTWISE ||
      (args.pointwise_count && !args.pointwise))
    return false;
  for (uint32_t i = 0; i < args.pointwise_count; ++i) {
    const kiln_pointwise &link = at(args.pointwise, i);
    bool sizeIsGood = link.struct_size == sizeof(link) ||
                      (link.struct_size > sizeof(link) &&
                       link.struct_size == args.pointwise->struct_size &&
                       isZero(&link + 1, link.struct_size - sizeof(link)));
    if (!sizeIsGood || (link.op & ~0xff) ||
        (link.reserved[0] | link.reserved[1]) ||
        !isZero(link.params, sizeof(link.params)))
      return false;
    if (link.op == KILN_POINTWISE_NONE)
      continue;
    packed |= static_cast<uint64_t>(link.op) << (8 * length++);
    if (link.op == KILN_POINTWISE_BIAS) {
      if (bias)
        return false;
      bias = &link.operand;
    } else if (link.op == KILN_POINTWISE_RESIDUAL) {
      if (residual)
        return false;
      residual = &link.operand;
    }
  }
  chain = static_cast<int64_t>(packed);
  return true;
}

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

bool readGemmCall(const kiln_gemm_args &args, GemmAddresses addresses,
                  GemmCall &call) noexcept {
  // Another size is for checkGemm to judge, and rare.
  if (args.struct_size != sizeof(args)) [[unlikely]]
    if (args.struct_size < sizeof(args) ||
        !isZero(&args + 1, args.struct_size - sizeof(args)))
      return false;
  if (hasSlots(args) || (args.m | args.n | args.k | args.batch) < 0)
    return false;
  const kiln_operand *bias = nullptr, *residual = nullptr;
  int64_t chain = 0;
  if (!readChain(args, chain, bias, residual))
    return false;

  kiln_dtype in = args.a.type, out = args.d.type ? args.d.type : in;
  bool readsC = args.beta != 0 || args.beta_device;
  bool typesDiffer = (args.b.type && args.b.type != in) |
                     (readsC && args.c.type && args.c.type != out) |
                     (bias && bias->type && bias->type != out) |
                     (residual && residual->type && residual->type != out);
  if (typesDiffer)
    return false;

  auto layout = static_cast<Layout>(args.layout);
  int64_t packedA = isTransposedA(layout) ? args.m : args.k;
  int64_t packedB = isTransposedB(layout) ? args.k : args.n;
  int64_t ldc = readsC ? args.c.leading_dim : 0;
  int64_t ldr = residual ? residual->leading_dim : 0;
  auto inBytes = static_cast<uint64_t>(in >> 8) / 8;
  auto outBytes = static_cast<uint64_t>(out >> 8) / 8;

  call.isEmpty = args.m == 0 || args.n == 0 || args.batch == 0;
  OperandReader reader(args, addresses, call.isEmpty);
  OperandArgument *operands = call.arguments.operands;
  bool readsAB = args.k != 0;
  reader.read(args.a, inBytes, resolve(args.a.leading_dim, packedA), readsAB,
              operands[GemmOperand::A]);
  reader.read(args.b, inBytes, resolve(args.b.leading_dim, packedB), readsAB,
              operands[GemmOperand::B]);
  reader.read(args.d, outBytes, resolve(args.d.leading_dim, args.n), true,
              operands[GemmOperand::D]);
  if (readsC)
    reader.read(args.c, outBytes, resolve(ldc, args.n), true,
                operands[GemmOperand::C]);
  if (bias)
    reader.read(*bias, outBytes, args.n, true, operands[GemmOperand::Bias]);
  if (residual)
    reader.read(*residual, outBytes, resolve(ldr, args.n), true,
                operands[GemmOperand::Residual]);
  bool scalarsMisaligned = ((reinterpret_cast<uintptr_t>(args.alpha_device) |
                             reinterpret_cast<uintptr_t>(args.beta_device)) &
                            (sizeof(float) - 1)) != 0;
  bool brokenOutput = args.batch > 1 && args.d.batch_stride == 0;
  if (reader.wrong || scalarsMisaligned || brokenOutput ||
      (!call.isEmpty && overlaps(call.arguments, readsC, args.batch)))
    return false;

  call.arguments.scalars[GemmScalar::Alpha] = args.alpha;
  call.arguments.scalars[GemmScalar::Beta] = args.beta;
  call.arguments.scalarAddresses[GemmScalar::Alpha] =
      reinterpret_cast<uintptr_t>(args.alpha_device);
  call.arguments.scalarAddresses[GemmScalar::Beta] =
      reinterpret_cast<uintptr_t>(args.beta_device);

  int64_t *values = call.values;
  values[GemmField::M] = args.m;
  values[GemmField::N] = args.n;
  values[GemmField::K] = args.k;
  values[GemmField::DType] = in;
  values[GemmField::Out] = out == in ? 0 : out;
  values[GemmField::Compute] = args.compute;
  values[GemmField::Layout] = args.layout;
  values[GemmField::Batch] = args.batch;
  values[GemmField::Pointwise] = chain;
  values[GemmField::Alpha] = std::bit_cast<int64_t>(1.0);
  values[GemmField::Beta] = std::bit_cast<int64_t>(readsC ? 1.0 : 0.0);
  values[GemmField::Lda] = canonical(args.a.leading_dim, packedA);
  values[GemmField::Ldb] = canonical(args.b.leading_dim, packedB);
  values[GemmField::Ldc] = canonical(ldc, args.n);
  values[GemmField::Ldd] = canonical(args.d.leading_dim, args.n);
  values[GemmField::LdResidual] = canonical(ldr, args.n);
  values[GemmField::Align] = reader.alignment();
  return true;
}

llvm::SmallVector<uint32_t, 8> gemmSlots(int64_t chain) {
  llvm::SmallVector<uint32_t, 8> slots = {
      KILN_GEMM_A, KILN_GEMM_B,         KILN_GEMM_C,
      KILN_GEMM_D, KILN_GEMM_POINTWISE, KILN_GEMM_POINTWISE};
  PointwiseChain links = decodeChain(chain);
  for (int i = 0; i < links.size(); ++i) {
    if (links.ops[i] == PointwiseOp::Bias)
      slots[GemmOperand::Bias] = KILN_GEMM_POINTWISE + i;
    if (links.ops[i] == PointwiseOp::Residual)
      slots[GemmOperand::Residual] = KILN_GEMM_POINTWISE + i;
  }
  return slots;
}

//===----------------------------------------------------------------------===//
// What is wrong
//===----------------------------------------------------------------------===//

static llvm::Error invalid(llvm::StringRef what, int64_t value) {
  return makeError(ErrorCode::InvalidArgument, "{} is {}", what, value);
}

static llvm::Error unsupported(llvm::StringRef what) {
  return makeError(ErrorCode::Unsupported, "{} is not available yet", what);
}

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
  constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;
  for (auto [name, value] : {std::pair("m", args.m),
                             {"n", args.n},
                             {"k", args.k},
                             {"batch", args.batch}}) {
    if (value < 0)
      return invalid(name, value);
    if (value > kMaxExtent)
      return makeError(ErrorCode::Unsupported, "{} is {}, at most {} works",
                       name, value, kMaxExtent);
  }
  return llvm::Error::success();
}

namespace {
/// One operand as checkOperand() sees it.
struct NamedOperand {
  std::string name;
  const kiln_operand *operand;
  kiln_dtype type;
  int64_t rowLength;
  bool isRead; ///< its address is used
};
} // namespace

static llvm::Error checkOperand(const NamedOperand &named,
                                const kiln_gemm_args &args, bool launches) {
  const kiln_operand &operand = *named.operand;
  const std::string &name = named.name;
  if (operand.struct_size != 0 && operand.struct_size != sizeof(operand))
    return makeError(ErrorCode::InvalidArgument,
                     "{}.struct_size is {}, {} or 0 is needed", name,
                     operand.struct_size, sizeof(operand));
  if (auto error = checkReserved(operand, name.c_str()))
    return error;
  if (operand.flags & KILN_OPERAND_POINTER_ARRAY)
    return unsupported(name + ": an array of pointers");
  if (operand.flags & ~uint32_t(KILN_OPERAND_CONSTANT))
    return makeError(ErrorCode::Unsupported, "{}.flags {:#x} are unknown", name,
                     operand.flags);
  if (operand.scale)
    return unsupported(name + ".scale");
  constexpr int64_t kMaxLeadingDimension = int64_t(1) << 40;
  if (operand.leading_dim < 0 || operand.leading_dim > kMaxLeadingDimension)
    return invalid(name + ".leading_dim", operand.leading_dim);
  if (operand.leading_dim != 0 && operand.leading_dim < named.rowLength)
    return makeError(ErrorCode::InvalidArgument,
                     "{}.leading_dim is {}, less than a row of {}", name,
                     operand.leading_dim, named.rowLength);
  if (operand.alignment & (operand.alignment - 1))
    return makeError(ErrorCode::InvalidArgument,
                     "{}.alignment is {}, no power of two", name,
                     operand.alignment);
  if (!launches)
    return llvm::Error::success();
  bool isEmpty = args.m == 0 || args.n == 0 || args.batch == 0;
  uint64_t address = addressOf(operand);
  if (!address && named.isRead && !isEmpty)
    return makeError(ErrorCode::InvalidArgument, "{}.data is null", name);
  uint64_t alignment =
      std::max<uint64_t>(operand.alignment, uint32_t(named.type) >> 11);
  if (address & (alignment - 1))
    return makeError(ErrorCode::InvalidArgument,
                     "{}.data {:#x} is not aligned to {} bytes", name, address,
                     alignment);
  return llvm::Error::success();
}

static llvm::Error checkChain(const kiln_gemm_args &args, kiln_dtype out,
                              std::vector<NamedOperand> &operands) {
  if (args.pointwise_count > KILN_MAX_POINTWISE)
    return makeError(ErrorCode::Unsupported,
                     "pointwise_count is {}, at most {} works",
                     args.pointwise_count, KILN_MAX_POINTWISE);
  if (auto error =
          checkArray(args.pointwise, args.pointwise_count, "pointwise"))
    return error;
  int biases = 0, residuals = 0;
  for (uint32_t i = 0; i < args.pointwise_count; ++i) {
    const kiln_pointwise &link = at(args.pointwise, i);
    if (!isZero(link.params, sizeof(link.params)))
      return makeError(ErrorCode::Unsupported,
                       "pointwise[{}].params: no operation takes any", i);
    std::string name = fmt::format("pointwise[{}].operand", i);
    switch (link.op) {
    case KILN_POINTWISE_BIAS:
      ++biases;
      operands.push_back({name, &link.operand, out, 0, true});
      break;
    case KILN_POINTWISE_RESIDUAL:
      ++residuals;
      operands.push_back({name, &link.operand, out, args.n, true});
      break;
    case KILN_POINTWISE_NONE:
    case KILN_POINTWISE_RELU:
    case KILN_POINTWISE_GELU_ERF:
    case KILN_POINTWISE_GELU_TANH:
    case KILN_POINTWISE_SILU:
      continue;
    default:
      return makeError(ErrorCode::Unsupported, "pointwise[{}].op {} is unknown",
                       i, link.op);
    }
    if (link.operand.type && link.operand.type != out)
      return makeError(ErrorCode::Unsupported, "{}.type {:#x} is not that of d",
                       name, link.operand.type);
  }
  if (biases > 1 || residuals > 1)
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
    return unsupported("max_sms");
  if (args.m_device || args.m_hint)
    return unsupported("m_device");
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
                                      bool launches) {
  if (args.batch > 1 && args.d.batch_stride == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "d.batch_stride is 0 with a batch of {}", args.batch);
  if (!launches || !args.d.data || args.m == 0 || args.n == 0 ||
      args.batch == 0)
    return llvm::Error::success();
  for (const NamedOperand &other : operands) {
    if (other.operand == &args.d || other.operand->data != args.d.data)
      continue;
    bool same = resolve(args.c.leading_dim, args.n) ==
                    resolve(args.d.leading_dim, args.n) &&
                (args.batch <= 1 || args.c.batch_stride == args.d.batch_stride);
    if (other.operand != &args.c || !same)
      return makeError(ErrorCode::InvalidArgument,
                       "d overlaps {}: it may be c only, with one leading_dim "
                       "and batch_stride",
                       other.name);
  }
  return llvm::Error::success();
}

llvm::Error checkGemm(const kiln_gemm_args &args, GemmAddresses addresses) {
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
  std::vector<NamedOperand> operands = {
      {"a", &args.a, in, isTransposedA(layout) ? args.m : args.k, readsAB},
      {"b", &args.b, in, isTransposedB(layout) ? args.k : args.n, readsAB},
      {"d", &args.d, out, args.n, true}};
  if (args.beta != 0 || args.beta_device)
    operands.push_back({"c", &args.c, out, args.n, true});
  if (auto error = checkChain(args, out, operands))
    return error;
  bool launches = addresses == GemmAddresses::Used;
  for (const NamedOperand &operand : operands)
    if (auto error = checkOperand(operand, args, launches))
      return error;
  return checkOutputOperand(args, operands, launches);
}

} // namespace kiln
