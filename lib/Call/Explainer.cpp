//===- Explainer.cpp - the faults of the struct of a call -----------------===//
#include "Call/Explainer.h"

#include "Kernel/TypeName.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

static std::string textOf(const StatedName &name) {
  return name.link < 0 ? std::string(name.text)
                       : fmt::format(fmt::runtime(name.text), name.link);
}

llvm::Error Explainer::finish() {
  quick.finish();
  checkOverlaps();
  if (fault)
    return errorOf(*fault);
  if (quick.wrong)
    return makeError(ErrorCode::Internal,
                     "{}: the call is refused, but no rule says why: please "
                     "report this",
                     schema.name());
  return llvm::Error::success();
}

void Explainer::take(llvm::Error error) {
  if (!error)
    return;
  ErrorSummary taken = summarize(std::move(error));
  if (!fault)
    fault = std::move(taken);
}

void Explainer::refuse(llvm::StringRef what, bool isSet) {
  if (isSet)
    fail(ErrorCode::Unsupported, "{} is not available yet", what);
}

//===----------------------------------------------------------------------===//
// Fields of the problem
//===----------------------------------------------------------------------===//

/// Whether \p field may have \p value.
static bool takes(const Field &field, int64_t value) {
  if (field.kind == FieldKind::Integer)
    return field.minimum <= value && value <= field.maximum;
  return (!field.required && value == field.defaultValue) ||
         llvm::any_of(field.names, [&](const FieldName &name) {
           return name.value == value;
         });
}

/// "bf16, fp16 and fp32".
static std::string typesOf(const Field &field) {
  std::string text;
  for (size_t i = 0; i < field.names.size(); ++i) {
    if (i > 0)
      text += i + 1 < field.names.size() ? ", " : " and ";
    text += nameOf(static_cast<DType>(field.names[i].value));
  }
  return text;
}

void Explainer::checkNumber(int index, int64_t value) {
  const Field &field = schema.fields()[index];
  if (value < field.minimum)
    fail(ErrorCode::InvalidArgument, "{} is {}", names[index], value);
  if (value > field.maximum)
    fail(ErrorCode::Unsupported, "{} is {}, at most {} works", names[index],
         value, field.maximum);
}

void Explainer::number(int index, StatedName name, int64_t value) {
  names[index] = textOf(name);
  quick.number(index, name, value);
  checkNumber(index, value);
}

int64_t Explainer::derived(int index, StatedName name, int64_t given,
                           int64_t otherwise) {
  names[index] = textOf(name);
  checkNumber(index, given);
  return quick.derived(index, name, given, otherwise);
}

void Explainer::hint(int index, StatedName name, int64_t given, int64_t most) {
  names[index] = textOf(name);
  checkNumber(index, given);
  quick.hint(index, name, given, most);
}

void Explainer::choice(int index, StatedName name, int64_t given,
                       int64_t value) {
  names[index] = textOf(name);
  quick.choice(index, name, given, value);
  if (takes(schema.fields()[index], value))
    return;
  if (given == 0)
    fail(ErrorCode::InvalidArgument, "{} is required", names[index]);
  fail(ErrorCode::Unsupported, "{} {} is unknown", names[index], given);
}

void Explainer::type(int index, StatedName name, kiln_dtype given,
                     int64_t value) {
  const Field &field = schema.fields()[index];
  names[index] = textOf(name);
  quick.type(index, name, given, value);
  if (takes(field, value))
    return;
  if (given == KILN_DTYPE_NONE)
    fail(ErrorCode::InvalidArgument, "{} is required", names[index]);
  fail(ErrorCode::Unsupported, "{} {:#x}: {} are supported", names[index],
       given, typesOf(field));
}

void Explainer::scalar(const StatedScalar &stated) {
  const std::string name = textOf(stated.name);
  names[stated.field] = stated.address ? stated.addressName : name;
  quick.scalar(stated);
  auto address = reinterpret_cast<uintptr_t>(stated.address);
  if (address % sizeof(float))
    fail(ErrorCode::InvalidArgument, "{} {:#x} is not aligned to {} bytes",
         stated.addressName, address, sizeof(float));
  if (!fitsFp32(stated.value))
    fail(ErrorCode::InvalidArgument,
         "{} is {}: it must be finite in fp32, and not be rounded to 0", name,
         stated.value);
  else if (!QuickReader::isScalar(stated.value, stated.least))
    fail(ErrorCode::InvalidArgument, "{} is {}: it must be at least {}", name,
         stated.value, stated.least);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// A struct that another one has by value.
template <class Struct>
void Explainer::checkEmbedded(const std::string &name, const Struct &given) {
  if (!hasEmbeddedSize(given))
    fail(ErrorCode::InvalidArgument, "{}.struct_size is {}, {} or 0 is needed",
         name, given.struct_size, sizeof(given));
  take(checkReserved(given, name.c_str()));
}

/// The rules of an operand that hold also where it is not read.
template <class Operand>
void Explainer::checkKnown(const std::string &name, const Operand &given) {
  checkEmbedded(name, given);
  if (given.flags & ~uint32_t(KILN_OPERAND_CONSTANT))
    fail(ErrorCode::Unsupported, "{}.flags {:#x} are unknown", name,
         given.flags);
}

void Explainer::unread(StatedName stated, const kiln_operand &given) {
  quick.unread(stated, given);
  checkKnown(textOf(stated), given);
}

void Explainer::unread(StatedName stated, const kiln_heads_operand &given) {
  quick.unread(stated, given);
  checkKnown(textOf(stated), given);
}

void Explainer::checkScale(const std::string &name, const kiln_scale &given) {
  checkEmbedded(name, given);
  if (given.reserved0)
    fail(ErrorCode::Unsupported, "{}: a reserved field is set", name);
}

template <class Stated>
void Explainer::checkStruct(const std::string &name, const Stated &stated) {
  const auto &given = stated.given;
  checkKnown(name, given);
  if (stated.type == KILN_DTYPE_NONE)
    fail(ErrorCode::InvalidArgument, "{}.type is required",
         stated.typeOf ? stated.typeOf : name);
  if (given.type != KILN_DTYPE_NONE && given.type != stated.type) {
    if (stated.typeOf)
      fail(ErrorCode::Unsupported, "{}.type {:#x} is not that of {}", name,
           given.type, stated.typeOf);
    else
      fail(ErrorCode::Unsupported, "{}.type {:#x}: {} is the only one", name,
           given.type, nameOf(static_cast<DType>(stated.type)));
  }
  if constexpr (requires { stated.hasScales; })
    if (!stated.hasScales) {
      refuse(name + ".scale", anyFieldOf(given.scale) != 0);
      checkScale(name + ".scale", given.scale);
    }
  if (given.alignment & (given.alignment - 1))
    fail(ErrorCode::InvalidArgument,
         "{}.alignment is {}, which is not a power of two", name,
         given.alignment);
}

void Explainer::checkStrides(const std::string &name,
                             const StatedOperand &stated) {
  const int64_t stride = stated.given.batch_stride;
  if (stride && (!hasBatches || !stated.hasBatches))
    fail(ErrorCode::Unsupported, "{}.batch_stride is {}, there are no batches",
         name, stride);
  if (stride < 0)
    fail(ErrorCode::InvalidArgument,
         "{}.batch_stride is {}, it may not be negative", name, stride);
  if (stride > kMaxBatchStride)
    fail(ErrorCode::InvalidArgument, "{}.batch_stride is {}, at most {} works",
         name, stride, kMaxBatchStride);
  if (stated.isWritten && stated.hasBatches && mostBatches > 1)
    checkMatrices(name, stated);
  if (stated.field < 0)
    return;
  const int64_t row = stated.given.leading_dim;
  const Field &field = schema.fields()[stated.field];
  names[stated.field] = name + ".leading_dim";
  if (row < field.minimum)
    fail(ErrorCode::InvalidArgument, "{}.leading_dim is {}", name, row);
  if (row > field.maximum)
    fail(ErrorCode::InvalidArgument, "{}.leading_dim is {}, at most {} works",
         name, row, field.maximum);
}

/// Checks that the matrices of an output lie apart. Only a launch has their
/// size: a described problem may have ranges.
void Explainer::checkMatrices(const std::string &name,
                              const StatedOperand &stated) {
  const OperandArgument &output = call.arguments.operands[stated.index];
  if (output.batchStride == 0)
    fail(ErrorCode::InvalidArgument, "{}.batch_stride is 0 with a batch of {}",
         name, mostBatches);
  if (use.addresses == CallAddresses::Ignored || call.isEmpty)
    return;
  const uint64_t elements =
      matrixElements(stated.rows, stated.rowLength, output.leadingDimension);
  if (static_cast<uint64_t>(output.batchStride) < elements)
    fail(ErrorCode::InvalidArgument,
         "{}.batch_stride is {}, but each of its {} matrices spans {} elements",
         name, output.batchStride, mostBatches, elements);
}

void Explainer::checkAddress(const std::string &name, uint64_t address,
                             bool isNeeded, uint64_t alignment) {
  if (use.addresses == CallAddresses::Ignored)
    return;
  if (!address && isNeeded && !call.isEmpty)
    fail(ErrorCode::InvalidArgument, "{}.data is null", name);
  if (alignment && (address & (alignment - 1)))
    fail(ErrorCode::InvalidArgument, "{}.data {:#x} is not aligned to {} bytes",
         name, address, alignment);
}

void Explainer::checkOverlaps() {
  if (use.addresses == CallAddresses::Ignored || call.isEmpty)
    return;
  const OperandArgument *operands = call.arguments.operands;
  // Results are stated last, but a caller looks at them first.
  for (const Output &output : llvm::reverse(outputs))
    for (int i = 0; i < operandCount; ++i) {
      bool mayBe = i == output.mayBe && output.isAsWide;
      if (i == output.index || !overlaps(operands[output.index], operands[i],
                                         mayBe, mostBatches > 1))
        continue;
      std::string allowed;
      if (output.mayBe >= 0)
        allowed =
            fmt::format(": it may be {} only, with its strides and width of "
                        "elements",
                        output.mayBeName);
      return fail(ErrorCode::InvalidArgument, "{} overlaps {}{}",
                  operandNames[output.index], operandNames[i], allowed);
    }
}

template <class Stated> void Explainer::addOutput(const Stated &stated) {
  outputs.push_back(
      {stated.index, stated.mayBe,
       elementBytesOf(stated.mayBeType) == elementBytesOf(stated.type),
       stated.mayBeName});
}

void Explainer::operand(const StatedOperand &stated) {
  const std::string name = textOf(stated.name);
  operandNames[stated.index] = name;
  quick.operand(stated);
  checkStruct(name, stated);
  checkStrides(name, stated);
  checkAddress(
      name, reinterpret_cast<uintptr_t>(stated.given.data), stated.isUsed,
      std::max<uint64_t>(stated.given.alignment, elementBytesOf(stated.type)));
  if (stated.isWritten)
    addOutput(stated);
}

void Explainer::heads(const StatedHeads &stated) {
  const std::string name = textOf(stated.name);
  const kiln_heads_operand &given = stated.given;
  operandNames[stated.index] = name;
  quick.heads(stated);
  checkStruct(name, stated);
  const std::pair<const char *, int64_t> strides[] = {
      {"token_stride", given.token_stride},
      {"head_stride", stated.planes == 1 ? 0 : given.head_stride},
      {"batch_stride", stated.hasBatches ? given.batch_stride : 0}};
  if (!stated.hasBatchField && given.batch_stride != 0)
    fail(ErrorCode::InvalidArgument, "{}.batch_stride is {}: there is no batch",
         name, given.batch_stride);
  for (auto [i, stride] : llvm::enumerate(
           llvm::ArrayRef(strides).take_front(stated.hasBatchField ? 3 : 2))) {
    const int field = stated.field + static_cast<int>(i);
    names[field] = fmt::format("{}.{}", name, stride.first);
    checkNumber(field, stride.second);
  }
  checkAddress(
      name, reinterpret_cast<uintptr_t>(given.data), stated.isUsed,
      std::max<uint64_t>(given.alignment, elementBytesOf(stated.type)));
  if (stated.isWritten)
    addOutput(stated);
}

void Explainer::array(const StatedArray &stated) {
  const std::string name = textOf(stated.name);
  operandNames[stated.index] = name;
  quick.array(stated);
  if (use.addresses == CallAddresses::Ignored)
    return;
  auto address = reinterpret_cast<uintptr_t>(stated.address);
  if (!address && stated.isUsed && !call.isEmpty)
    fail(ErrorCode::InvalidArgument, "{} is null", name);
  if (address % stated.elementBytes)
    fail(ErrorCode::InvalidArgument, "{} {:#x} is not aligned to {} bytes",
         name, address, stated.elementBytes);
  if (stated.isWritten)
    outputs.push_back({stated.index, stated.mayBe, true, stated.mayBeName});
}

bool Explainer::optional(const StatedOperand &stated) {
  if (stated.given.type != KILN_DTYPE_NONE) {
    operand(stated);
    return true;
  }
  quick.optional(stated);
  const std::string name = textOf(stated.name);
  if (use.addresses == CallAddresses::Used && stated.given.data)
    fail(ErrorCode::InvalidArgument,
         "{}.data is {:#x} without a type: set {}.type for the operand to be "
         "used",
         name, reinterpret_cast<uintptr_t>(stated.given.data), name);
  checkKnown(name, stated.given);
  return false;
}

/// The unit that has one scale.
static const char *textOf(kiln_granularity granularity) {
  switch (granularity) {
  case KILN_GRANULARITY_ROW:
    return "row";
  case KILN_GRANULARITY_HEAD:
    return "head";
  default:
    return "operand";
  }
}

const kiln_scale *Explainer::scaleOf(StatedName stated,
                                     const kiln_scale &given) {
  if (!isPresent(given))
    checkAbsent(textOf(stated), given);
  return quick.scaleOf(stated, given);
}

/// Checks that scales without a granularity have no field set.
void Explainer::checkAbsent(const std::string &name, const kiln_scale &given) {
  auto check = [&](const char *field, const std::string &value, bool isSet) {
    if (isSet)
      fail(ErrorCode::InvalidArgument,
           "{}.{} is {} without a granularity: set {}.granularity for it to be "
           "used",
           name, field, value, name);
  };
  const auto data = reinterpret_cast<uintptr_t>(given.data);
  check("data", fmt::format("{:#x}", data), data != 0);
  check("type", fmt::format("{:#x}", given.type), given.type != 0);
  const std::pair<const char *, int64_t> numbers[] = {
      {"block_rows", given.block_rows},
      {"block_columns", given.block_columns},
      {"row_stride", given.row_stride},
      {"column_stride", given.column_stride},
      {"batch_stride", given.batch_stride}};
  for (auto [field, value] : numbers)
    check(field, std::to_string(value), value != 0);
  checkScale(name, given);
}

void Explainer::scales(const StatedScales &stated) {
  const std::string name = textOf(stated.name);
  operandNames[stated.index] = name;
  quick.scales(stated);
  const char *each = textOf(stated.granularity);
  if (!stated.given)
    return fail(ErrorCode::InvalidArgument,
                "{}.granularity is none: type {:#x} needs a scale of each {}",
                name, stated.type, each);
  const kiln_scale &scale = *stated.given;
  checkScale(name, scale);
  if (scale.granularity != stated.granularity)
    fail(ErrorCode::Unsupported,
         "{}: granularity {}, one scale per {} is supported", name,
         scale.granularity, each);
  if (scale.type != KILN_DTYPE_NONE && scale.type != KILN_FP32)
    fail(ErrorCode::Unsupported, "{}: type {:#x}, fp32 is supported", name,
         scale.type);
  refuse(name + ": blocks", scale.block_rows || scale.block_columns);
  refuse(name + ": a stride",
         scale.row_stride || scale.column_stride || scale.batch_stride);
  checkAddress(name, reinterpret_cast<uintptr_t>(scale.data), true,
               sizeof(float));
  if (stated.isWritten)
    outputs.push_back({.index = stated.index});
}

void Explainer::factors(const StatedFactors &stated) {
  const std::string name = textOf(stated.name);
  operandNames[stated.index] = name;
  names[stated.kind] = name;
  if (stated.hasBlocks())
    names[stated.order] = names[stated.ld] = name;
  quick.factors(stated);
  if (!stated.given)
    return;
  const kiln_scale &scale = *stated.given;
  checkScale(name, scale);
  const int kind = kindOf(stated);
  if (kind < 0)
    return fail(ErrorCode::Unsupported,
                "{}: granularity {} with blocks of {} x {} is not available",
                name, scale.granularity, scale.block_rows, scale.block_columns);
  if (!scaleStridesOf(stated, static_cast<ScaleKind>(kind)).isGood)
    return fail(ErrorCode::Unsupported,
                "{}: strides {} and {}, one of them has to be 1", name,
                scale.row_stride, scale.column_stride);
  if (!stated.mayBe(scale.type))
    fail(ErrorCode::Unsupported, "{}: type {:#x}, {} is supported", name,
         scale.type, stated.areIntegers ? "int32" : "fp32");
  if (scale.batch_stride && !stated.hasBatches)
    fail(ErrorCode::Unsupported, "{}.batch_stride is {}, there are no batches",
         name, scale.batch_stride);
  if (scale.batch_stride < 0 || scale.batch_stride > kMaxBatchStride)
    fail(ErrorCode::InvalidArgument,
         "{}: batch_stride {} is negative or above "
         "{}",
         name, scale.batch_stride, kMaxBatchStride);
  checkAddress(name, reinterpret_cast<uintptr_t>(scale.data), true,
               sizeof(float));
  if (stated.writes(static_cast<ScaleKind>(kind)))
    checkWritten(name, stated, static_cast<ScaleKind>(kind));
}

/// Checks that the scales that a launch writes lie apart for each matrix.
void Explainer::checkWritten(const std::string &name,
                             const StatedFactors &stated, ScaleKind kind) {
  outputs.push_back({.index = stated.index});
  const int64_t stride = stated.given->batch_stride;
  if (!stated.hasBatches || mostBatches <= 1)
    return;
  if (stride == 0)
    fail(ErrorCode::InvalidArgument, "{}.batch_stride is 0 with a batch of {}",
         name, mostBatches);
  if (use.addresses == CallAddresses::Ignored || call.isEmpty)
    return;
  const ScaleStrides strides = scaleStridesOf(stated, kind);
  const ScaleLines lines = scaleLinesOf(stated, kind, strides);
  const uint64_t scales = matrixElements(lines.lines, lines.scales, strides.ld);
  if (static_cast<uint64_t>(stride) < scales)
    fail(ErrorCode::InvalidArgument,
         "{}.batch_stride is {}, but each of its {} matrices spans {} scales",
         name, stride, mostBatches, scales);
}

void Explainer::packed(const StatedPacked &stated) {
  const std::string name = textOf(stated.name);
  const std::string own = stated.structName;
  const std::string scaleName = own + ".scale", zerosName = own + ".zeros";
  operandNames[stated.index] = name;
  operandNames[stated.scaleIndex] = scaleName;
  operandNames[stated.zeroIndex] = zerosName;
  names[stated.order] = own + ".order";
  names[stated.kind] = names[stated.type] = scaleName;
  names[stated.hasZero] = zerosName;
  quick.packed(stated);
  const kiln_operand &given = stated.given;
  const kiln_scale &scale = stated.scale;
  checkEmbedded(name, given);
  if (given.alignment & (given.alignment - 1))
    fail(ErrorCode::InvalidArgument,
         "{}.alignment is {}, which is not a power of two", name,
         given.alignment);
  if (stated.givenOrder == 0)
    fail(ErrorCode::InvalidArgument, "{}.order is required", own);
  checkScale(scaleName, scale);
  if (!isPresent(scale))
    fail(ErrorCode::InvalidArgument,
         "{}.granularity is none: weights of order {} have scales", scaleName,
         stated.givenOrder);
  if (stated.kindOf(scale) < 0)
    fail(ErrorCode::Unsupported,
         "{}: granularity {} with blocks of {} x {} is not available",
         scaleName, scale.granularity, scale.block_rows, scale.block_columns);
  refuse(name + ": a flag other than KILN_OPERAND_CONSTANT",
         given.flags & ~uint32_t(KILN_OPERAND_CONSTANT));
  refuse(name + ": a batch_stride", given.batch_stride != 0);
  checkAddress(name, reinterpret_cast<uintptr_t>(given.data), true,
               StatedPacked::kAlign);
  checkPackedPart(scaleName, scale);
  if (stated.zeros)
    checkPackedZeros(zerosName, stated);
}

/// Scales or zero points of packed weights.
void Explainer::checkPackedPart(const std::string &name,
                                const kiln_scale &given) {
  refuse(name + ": a stride",
         given.row_stride || given.column_stride || given.batch_stride);
  checkAddress(name, reinterpret_cast<uintptr_t>(given.data), true,
               StatedPacked::kAlign);
}

void Explainer::checkPackedZeros(const std::string &name,
                                 const StatedPacked &stated) {
  const kiln_scale &zeros = *stated.zeros;
  checkScale(name, zeros);
  if (!stated.mayBeZeros(zeros.type))
    fail(ErrorCode::Unsupported, "{}: type {:#x}, int8 is supported", name,
         zeros.type);
  if (!stated.zerosFit())
    fail(ErrorCode::Unsupported,
         "{}: granularity {} with blocks of {} x {} is not that of the scales",
         name, zeros.granularity, zeros.block_rows, zeros.block_columns);
  checkPackedPart(name, zeros);
}

void Explainer::checkChain(int field, const kiln_pointwise *chain,
                           uint32_t count) {
  if (count > KILN_MAX_POINTWISE)
    return fail(ErrorCode::Unsupported,
                "pointwise_count is {}, at most {} works", count,
                KILN_MAX_POINTWISE);
  take(checkArray(chain, count, "pointwise"));
  for (uint32_t i = 0; i < count && !fault; ++i) {
    const kiln_pointwise &link = at(chain, i);
    bool isKnown = 0 <= link.op && link.op < kLinkCodes;
    if (link.op != KILN_POINTWISE_NONE &&
        !(isKnown && takes(schema.fields()[field], link.op)))
      fail(ErrorCode::Unsupported, "pointwise[{}].op {} is not available in {}",
           i, link.op, schema.name());
    if (QuickReader::hasParams(link))
      fail(ErrorCode::Unsupported,
           "pointwise[{}].params: operation {} does not take them", i, link.op);
    if (link.op == KILN_POINTWISE_NONE)
      checkKnown(fmt::format("pointwise[{}].operand", i), link.operand);
  }
}

} // namespace kiln
