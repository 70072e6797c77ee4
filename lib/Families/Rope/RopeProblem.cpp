//===- RopeProblem.cpp ----------------------------------------------------===//
#include "Families/Rope/RopeProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "Support/EnumName.h"

#include <algorithm>
#include <cassert>

namespace kiln {

//===----------------------------------------------------------------------===//
// The schema
//===----------------------------------------------------------------------===//

static constexpr FieldName kRopeTypeNames[] = {{int64_t(DType::BF16), "bf16"},
                                               {int64_t(DType::FP16), "fp16"}};
static constexpr FieldName kTableNames[] = {{int64_t(DType::FP32), "fp32"},
                                            {int64_t(DType::BF16), "bf16"},
                                            {int64_t(DType::FP16), "fp16"}};
static constexpr FieldName kCacheNames[] = {{int64_t(DType::BF16), "bf16"},
                                            {int64_t(DType::FP16), "fp16"},
                                            {int64_t(DType::E4M3), "e4m3"}};
static constexpr FieldName kStyleNames[] = {
    {int64_t(RopeStyle::Halves), "halves"},
    {int64_t(RopeStyle::Interleaved), "interleaved"},
    {int64_t(RopeStyle::InterleavedToHalves), "interleaved_to_halves"}};
static constexpr FieldName kSlotsNames[] = {
    {int64_t(RopeSlots::None), "none"},
    {int64_t(RopeSlots::Array), "array"},
    {int64_t(RopeSlots::Table), "table"}};
static constexpr FieldName kScaleNames[] = {
    {int64_t(ScaleKind::None), "none"},
    {int64_t(ScaleKind::Tensor), "tensor"},
    {int64_t(ScaleKind::Row), "head"}};
/// The types of positions and slots.
static constexpr FieldName kIndexNames[] = {{int64_t(DType::INT32), "int32"},
                                            {int64_t(DType::INT64), "int64"}};

static Field countField(llvm::StringRef key, FieldRole role, int64_t maximum) {
  return {.key = key, .role = role, .maximum = maximum};
}

/// An enumeration that need not be given; the first name is the default.
static Field optionalEnum(llvm::StringRef key,
                          llvm::ArrayRef<FieldName> names) {
  Field field = enumField(key, false, names);
  field.defaultValue = names.front().value;
  return field;
}

static std::vector<Field> problemFields() {
  return {extentField("tokens", FieldRole::DynamicExtent),
          countField("heads", FieldRole::Extent, kMaxHeads),
          countField("kvheads", FieldRole::Extent, kMaxHeads),
          {.key = "d",
           .role = FieldRole::Signature,
           .required = true,
           .minimum = 1,
           .maximum = kMaxHeadDim},
          countField("dv", FieldRole::Signature, kMaxHeadDim),
          enumField("dtype", true, kRopeTypeNames),
          countField("rotary", FieldRole::Signature, kMaxHeadDim),
          countField("offset", FieldRole::Signature, kMaxHeadDim),
          optionalEnum("style", kStyleNames),
          optionalEnum("table", kTableNames),
          countField("tablerows", FieldRole::Capacity, kMaxExtent),
          flagField("qnorm"),
          flagField("knorm"),
          flagField("unit"),
          scalarField("eps", 0),
          flagField("kout"),
          flagField("kcache"),
          flagField("vcache"),
          enumField("kv", false, kCacheNames),
          optionalEnum("scales", kScaleNames),
          optionalEnum("slots", kSlotsNames),
          flagField("seqs"),
          optionalEnum("index", kIndexNames),
          countField("page", FieldRole::Extent, kMaxExtent),
          countField("poolpages", FieldRole::Capacity, kMaxExtent),
          countField("pagerows", FieldRole::Capacity, kMaxExtent),
          countField("pagecols", FieldRole::Capacity, kMaxExtent),
          leadingDimensionField("ldq"),
          strideField("hsq"),
          leadingDimensionField("ldk"),
          strideField("hsk"),
          leadingDimensionField("ldv"),
          strideField("hsv"),
          leadingDimensionField("ldqo"),
          strideField("hsqo"),
          leadingDimensionField("ldko"),
          strideField("hsko"),
          leadingDimensionField("ldkc"),
          strideField("hskc"),
          strideField("bskc"),
          leadingDimensionField("ldvc"),
          strideField("hsvc"),
          strideField("bsvc"),
          alignField()};
}

const Schema &ropeProblemSchema() {
  static const Schema &schema =
      *new Schema("rope", TextStyle::Spaced, problemFields());
  assert(schema.fields().size() == RopeField::Count);
  return schema;
}

/// Resolves the room of caches and tables that the values leave open: enough
/// for the tokens.
static void resolveRoom(RopeProblem &p) {
  auto pagesOf = [&](int64_t tokens) {
    return tokens / p.pageSize + (tokens % p.pageSize != 0);
  };
  const int64_t tokens = std::max<int64_t>(p.tokens, 1);
  // Positions of one page lead decoding sequences to rows of their own.
  const bool isOfPage = p.slots == RopeSlots::Table && !p.sequences;
  if (p.tableRows == 0)
    p.tableRows = isOfPage ? std::max<int64_t>(p.pageSize, 1) : tokens;
  if (!p.hasCache() || p.pageSize == 0)
    return;
  const bool isTable = p.slots == RopeSlots::Table;
  if (isTable && p.pageTableRows == 0)
    p.pageTableRows = p.sequences ? 1 : tokens;
  if (isTable && p.pageTableColumns == 0)
    p.pageTableColumns = pagesOf(p.tableRows);
  // Decoding sequences have pages of their own.
  if (p.pageCount == 0)
    p.pageCount = isTable && !p.sequences ? tokens : pagesOf(tokens);
}

RopeProblem readRopeProblem(const int64_t *values) {
  using F = RopeField;
  RopeProblem p;
  p.tokens = values[F::Tokens];
  p.heads = values[F::Heads];
  p.kvHeads = values[F::KvHeads];
  p.headDim = values[F::D];
  p.valueDim = values[F::Dv] ? values[F::Dv] : p.headDim;
  p.dtype = static_cast<DType>(values[F::DType]);
  p.rotaryDim = values[F::Rotary];
  p.rotaryOffset = values[F::Offset];
  p.style = static_cast<RopeStyle>(values[F::Style]);
  p.table = static_cast<DType>(values[F::Table]);
  p.tableRows = values[F::TableRows];
  p.qNorm = values[F::QNorm] != 0;
  p.kNorm = values[F::KNorm] != 0;
  p.unitOffset = values[F::Unit] != 0;
  p.epsilon = decodeReal(values[F::Epsilon]);
  p.kOut = values[F::KOut] != 0;
  p.kCache = values[F::KCache] != 0;
  p.vCache = values[F::VCache] != 0;
  p.cache = values[F::Kv] ? static_cast<DType>(values[F::Kv]) : p.dtype;
  p.scales = static_cast<ScaleKind>(values[F::Scales]);
  p.slots = static_cast<RopeSlots>(values[F::Slots]);
  p.sequences = values[F::Sequences] != 0;
  p.longIndices = static_cast<DType>(values[F::Index]) == DType::INT64;
  p.pageSize = values[F::Page];
  p.pageCount = values[F::PoolPages];
  p.pageTableRows = values[F::PageRows];
  p.pageTableColumns = values[F::PageCols];
  resolveRoom(p);
  auto strides = [&](int field, int64_t tokens, int64_t heads, int64_t cols) {
    const bool isCache = field >= F::LdKCache;
    return resolveStrides(
        {values[field], values[field + 1], isCache ? values[field + 2] : 0},
        tokens, heads, cols);
  };
  p.q = strides(F::LdQ, p.tokens, p.heads, p.headDim);
  p.k = strides(F::LdK, p.tokens, p.kvHeads, p.headDim);
  p.v = strides(F::LdV, p.tokens, p.kvHeads, p.valueDim);
  p.qOut = strides(F::LdQOut, p.tokens, p.heads, p.headDim);
  p.kOutStrides = strides(F::LdKOut, p.tokens, p.kvHeads, p.headDim);
  p.kCacheStrides = strides(F::LdKCache, p.pageSize, p.kvHeads, p.headDim);
  p.vCacheStrides = strides(F::LdVCache, p.pageSize, p.kvHeads, p.valueDim);
  p.align = values[F::Align];
  return p;
}

llvm::SmallVector<HeadTensor, 7> tensorsOf(const RopeProblem &p) {
  using F = RopeField;
  llvm::SmallVector<HeadTensor, 7> tensors;
  auto add = [&](bool exists, int field, const HeadStrides &strides,
                 int64_t heads, int64_t cols) {
    if (exists)
      tensors.push_back({field, cols, strides, p.tokens, heads, 1,
                         /*hasBatch=*/false, /*hasBatchField=*/false});
  };
  add(p.hasQ(), F::LdQ, p.q, p.heads, p.headDim);
  add(p.hasK(), F::LdK, p.k, p.kvHeads, p.headDim);
  add(p.vCache, F::LdV, p.v, p.kvHeads, p.valueDim);
  add(p.hasQ(), F::LdQOut, p.qOut, p.heads, p.headDim);
  add(p.kOut, F::LdKOut, p.kOutStrides, p.kvHeads, p.headDim);
  auto addCache = [&](bool exists, int field, const HeadStrides &strides,
                      int64_t cols) {
    if (exists)
      tensors.push_back(
          {field, cols, strides, p.pageSize, p.kvHeads, p.pageCount, true});
  };
  addCache(p.kCache, F::LdKCache, p.kCacheStrides, p.headDim);
  addCache(p.vCache, F::LdVCache, p.vCacheStrides, p.valueDim);
  return tensors;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

/// The alignment of all rows, of the parts of a head, and of angles.
static int alignmentOf(const RopeProblem &p) {
  using F = RopeField;
  int64_t bits = p.align | 16;
  for (const HeadTensor &tensor : tensorsOf(p)) {
    const bool isCache =
        tensor.field == F::LdKCache || tensor.field == F::LdVCache;
    // Packed tensors have no step from sequence to sequence.
    HeadStrides strides = tensor.strides;
    if (!isCache)
      strides.batch = 0;
    bits |= kiln::alignmentOf(
        p.align, {{tensor.cols, strides, isCache ? p.cache : p.dtype}});
  }
  const int64_t element = bytesOf(p.dtype);
  const bool isRotated = p.rotaryDim > 0;
  if (isRotated)
    bits |= (p.rotaryDim / 2 | p.rotaryOffset) * element;
  return static_cast<int>(bits & -bits);
}

RopeSignature signatureOf(const RopeProblem &p) {
  RopeSignature signature;
  signature.type = p.dtype;
  signature.cache = p.cache;
  signature.table = p.table;
  signature.style = p.style;
  signature.headDim = static_cast<int>(p.headDim);
  signature.valueDim = static_cast<int>(p.valueDim);
  signature.rotaryDim = static_cast<int>(p.rotaryDim);
  signature.rotaryOffset = static_cast<int>(p.rotaryOffset);
  signature.hasQ = p.hasQ();
  signature.hasKOut = p.kOut;
  signature.hasKCache = p.kCache;
  signature.hasVCache = p.vCache;
  signature.hasQNorm = p.qNorm;
  signature.hasKNorm = p.kNorm;
  signature.hasUnitOffset = p.unitOffset;
  signature.slots = p.slots;
  signature.hasSequences = p.sequences;
  signature.hasLongIndices = p.longIndices;
  signature.scales = p.scales;
  signature.align = alignmentOf(p);
  return signature;
}

llvm::StringRef enumeratorText(RopeStyle style) {
  static constexpr EnumName<RopeStyle> kNames[] = {
      {RopeStyle::Halves, "kiln::RopeStyle::Halves"},
      {RopeStyle::Interleaved, "kiln::RopeStyle::Interleaved"},
      {RopeStyle::InterleavedToHalves, "kiln::RopeStyle::InterleavedToHalves"}};
  return nameIn(kNames, style, {});
}
llvm::StringRef enumeratorText(RopeSlots slots) {
  static constexpr EnumName<RopeSlots> kNames[] = {
      {RopeSlots::None, "kiln::RopeSlots::None"},
      {RopeSlots::Array, "kiln::RopeSlots::Array"},
      {RopeSlots::Table, "kiln::RopeSlots::Table"}};
  return nameIn(kNames, slots, {});
}

static constexpr SignatureFields kRopeSignatureFields(
    SignatureField{"type", "type", &RopeSignature::type, true, kRopeTypeNames},
    SignatureField{"cache", "cache", &RopeSignature::cache, true, kCacheNames},
    SignatureField{"table", "table", &RopeSignature::table, false, kTableNames},
    SignatureField{"style", "style", &RopeSignature::style, false, kStyleNames},
    SignatureField{
        "d", "headDim", &RopeSignature::headDim, true, {}, kMaxHeadDim},
    SignatureField{
        "dv", "valueDim", &RopeSignature::valueDim, true, {}, kMaxHeadDim},
    SignatureField{"rotary",
                   "rotaryDim",
                   &RopeSignature::rotaryDim,
                   true,
                   {},
                   kMaxHeadDim},
    SignatureField{"offset",
                   "rotaryOffset",
                   &RopeSignature::rotaryOffset,
                   false,
                   {},
                   kMaxHeadDim},
    SignatureField{"q", "hasQ", &RopeSignature::hasQ},
    SignatureField{"kout", "hasKOut", &RopeSignature::hasKOut},
    SignatureField{"kcache", "hasKCache", &RopeSignature::hasKCache},
    SignatureField{"vcache", "hasVCache", &RopeSignature::hasVCache},
    SignatureField{"qnorm", "hasQNorm", &RopeSignature::hasQNorm},
    SignatureField{"knorm", "hasKNorm", &RopeSignature::hasKNorm},
    SignatureField{"unit", "hasUnitOffset", &RopeSignature::hasUnitOffset},
    SignatureField{"slots", "slots", &RopeSignature::slots, false, kSlotsNames},
    SignatureField{"seqs", "hasSequences", &RopeSignature::hasSequences},
    SignatureField{"long", "hasLongIndices", &RopeSignature::hasLongIndices},
    SignatureField{"scales", "scales", &RopeSignature::scales, false,
                   kScaleNames},
    SignatureField{"align", "align", &RopeSignature::align, false, {}, 16});

Values toValues(const RopeSignature &signature) {
  static const Schema &schema =
      *new Schema(kRopeSignatureFields.schema("rope"));
  return kRopeSignatureFields.toValues(signature, schema);
}

RopeSignature readRopeSignature(const Values &values) {
  return kRopeSignatureFields.fromValues(values);
}

std::string initializerText(const RopeSignature &signature) {
  return kRopeSignatureFields.initializer(signature);
}

//===----------------------------------------------------------------------===//
// A launch
//===----------------------------------------------------------------------===//

/// Whether all that leads to a token's angles and its row of the caches may be
/// read before the kernel ahead has ended.
static bool isEarly(const RopeProblem &p, const Arguments &arguments) {
  using Operand = RopeOperand;
  auto allows = [&](bool isRead, int operand) {
    return !isRead || arguments.isEarly(operand);
  };
  const bool isTable = p.slots == RopeSlots::Table;
  return arguments.isDependent && allows(p.rotaryDim > 0, Operand::Table) &&
         allows(p.hasPositions(), Operand::Positions) &&
         allows(p.slots == RopeSlots::Array, Operand::Slots) &&
         allows(isTable, Operand::PageTable) &&
         allows(p.sequences, Operand::Sequences);
}

RopeParams makeRopeParams(const RopeProblem &p, const Arguments &arguments) {
  using Operand = RopeOperand;
  const OperandArgument *operands = arguments.operands;
  auto strides = [&](int index) -> HeadStrides {
    return {operands[index].leadingDimension, operands[index].planeStride,
            operands[index].batchStride};
  };
  auto at = [&](int index) {
    return reinterpret_cast<void *>(operands[index].address);
  };
  RopeParams params;
  params.q = at(Operand::Q);
  params.k = at(Operand::K);
  params.v = at(Operand::V);
  params.qOut = at(Operand::QOut);
  params.kOut = at(Operand::KOut);
  params.kCache = at(Operand::KCache);
  params.vCache = at(Operand::VCache);
  params.qStrides = strides(Operand::Q);
  params.kStrides = strides(Operand::K);
  params.vStrides = strides(Operand::V);
  params.qOutStrides = strides(Operand::QOut);
  params.kOutStrides = strides(Operand::KOut);
  params.kCacheStrides = strides(Operand::KCache);
  params.vCacheStrides = strides(Operand::VCache);
  params.table = at(Operand::Table);
  params.qWeight = at(Operand::QWeight);
  params.kWeight = at(Operand::KWeight);
  params.positions = at(Operand::Positions);
  params.slots = at(Operand::Slots);
  params.pageTable = static_cast<const int *>(at(Operand::PageTable));
  params.sequences = static_cast<const int *>(at(Operand::Sequences));
  params.kScale = static_cast<const float *>(at(Operand::KScale));
  params.vScale = static_cast<const float *>(at(Operand::VScale));
  params.tokens = p.tokens;
  params.tableRows = p.tableRows;
  params.pageSize = std::max<int64_t>(p.pageSize, 1);
  params.pageCount = p.pageCount;
  params.pageTableRows = p.pageTableRows;
  params.pageTableColumns = p.pageTableColumns;
  params.heads = static_cast<int>(p.heads);
  params.kvHeads = static_cast<int>(p.kvHeads);
  params.epsilon = static_cast<float>(arguments.scalars[0]);
  params.isEarly = isEarly(p, arguments);
  return params;
}

} // namespace kiln
