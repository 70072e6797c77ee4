//===- AttentionProblem.cpp -----------------------------------------------===//
#include "Families/Attention/AttentionProblem.h"

#include "Families/Attention/LaunchedAttention.h"
#include "Families/HeadTensor.h"
#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"
#include "Support/EnumName.h"
#include "Support/Format.h"

#include <llvm/Support/MathExtras.h>

#include <cassert>

namespace kiln {

static constexpr int64_t code(auto value) {
  return static_cast<int64_t>(value);
}

//===----------------------------------------------------------------------===//
// Schemas
//===----------------------------------------------------------------------===//

static constexpr FieldName kTypeNames[] = {{code(DType::BF16), "bf16"},
                                           {code(DType::FP16), "fp16"},
                                           {code(DType::E4M3), "e4m3"}};
/// The types of O.
static constexpr llvm::ArrayRef<FieldName> kOutNames(kTypeNames, 2);
static constexpr FieldName kMaskNames[] = {
    {code(AttentionMask::None), "none"},
    {code(AttentionMask::Causal), "causal"},
    {code(AttentionMask::Window), "window"}};
static constexpr FieldName kLengthNames[] = {
    {code(AttentionLengths::Uniform), "uniform"},
    {code(AttentionLengths::Packed), "packed"},
    {code(AttentionLengths::Used), "used"}};
/// The length kinds that queries may have.
static constexpr llvm::ArrayRef<FieldName> kQueryLengthNames(kLengthNames, 2);
static constexpr FieldName kPageNames[] = {
    {code(AttentionPages::None), "none"},
    {code(AttentionPages::Table), "table"},
    {code(AttentionPages::List), "list"}};
using Scales = AttentionProblem::Scales;
static constexpr FieldName kScaleNames[] = {{code(Scales::None), "none"},
                                            {code(Scales::Tensor), "tensor"},
                                            {code(Scales::Head), "head"}};

static Field flag(llvm::StringRef key) {
  return {.key = key, .role = FieldRole::Signature, .maximum = 1};
}

/// A size that a problem need not state.
static Field optionalSize(llvm::StringRef key, FieldRole role,
                          int64_t defaultValue = 0) {
  return {.key = key,
          .role = role,
          .defaultValue = defaultValue,
          .maximum = kMaxExtent};
}

/// Tokens of a sequence. Kernels count them in 32 bits and step behind the last
/// one by a few blocks.
static Field tokensField(llvm::StringRef key) {
  constexpr int64_t kMostBlocks = 1 << 16; // in tokens
  Field field = extentField(key, FieldRole::DynamicExtent);
  field.maximum = kMaxExtent - kMostBlocks;
  return field;
}

/// The stride of an input, whose sequences may all be one.
static Field inputStrideField(llvm::StringRef key) {
  Field field = strideField(key);
  field.minimum = kSharedStride;
  return field;
}

/// The scale; 0 stands for 1 / sqrt(d).
static Field scaleField() {
  Field field = scalarField("scale", 0);
  field.alwaysUsed = field.isPositive = true;
  return field;
}

static Field softcapField() {
  Field field = scalarField("softcap", 0);
  field.isPositive = true;
  return field;
}

static std::vector<Field> problemFields() {
  return {
      optionalSize("batch", FieldRole::DynamicExtent, 1),
      tokensField("sq"),
      tokensField("sk"),
      optionalSize("skhint", FieldRole::Hint),
      {.key = "heads", .required = true, .minimum = 1, .maximum = kMaxHeads},
      {.key = "kvheads", .maximum = kMaxHeads},
      {.key = "d",
       .role = FieldRole::Signature,
       .required = true,
       .minimum = 1,
       .maximum = kMaxHeadDim},
      {.key = "dv", .role = FieldRole::Signature, .maximum = kMaxHeadDim},
      enumField("dtype", true, kTypeNames),
      enumField("kv", false, kTypeNames),
      enumField("out", false, kOutNames),
      enumField("mask", false, kMaskNames),
      optionalSize("left", FieldRole::Extent, kMaxExtent),
      optionalSize("right", FieldRole::Extent, kMaxExtent),
      scaleField(),
      softcapField(),
      flag("sinks"),
      flag("alibi"),
      flag("lse"),
      enumField("qlen", false, kQueryLengthNames),
      enumField("kvlen", false, kLengthNames),
      enumField("pages", false, kPageNames),
      optionalSize("page", FieldRole::Extent),
      optionalSize("poolpages", FieldRole::Capacity),
      optionalSize("tablecols", FieldRole::Capacity),
      optionalSize("totalq", FieldRole::Capacity),
      optionalSize("totalk", FieldRole::Capacity),
      enumField("scales", false, kScaleNames),
      optionalSize("split", FieldRole::Extent),
      {.key = "latent", .role = FieldRole::Extent, .maximum = 1},
      leadingDimensionField("ldq"),
      strideField("hsq"),
      inputStrideField("bsq"),
      leadingDimensionField("ldk"),
      strideField("hsk"),
      inputStrideField("bsk"),
      leadingDimensionField("ldv"),
      strideField("hsv"),
      inputStrideField("bsv"),
      leadingDimensionField("ldo"),
      strideField("hso"),
      strideField("bso"),
      alignField(),
  };
}

const Schema &attentionProblemSchema() {
  static const Schema &schema =
      *new Schema("attention", TextStyle::Spaced, problemFields());
  assert(schema.fields().size() == AttentionField::Count);
  return schema;
}

//===----------------------------------------------------------------------===//
// From values to structs
//===----------------------------------------------------------------------===//

AttentionProblem readAttentionProblem(const int64_t *values) {
  using F = AttentionField;
  AttentionProblem p = readLaunchedAttention(values);
  p.scale = resolveScale(decodeReal(values[F::Scale]), defaultScale(p.headDim));
  int64_t keyTokens = p.isPaged() ? p.pageSize : p.keys;
  // The three strides are consecutive fields.
  auto strides = [&](int field, int64_t tokens, int64_t heads, int64_t cols) {
    const int64_t *given = values + field;
    return resolveStrides({given[0], given[1], given[2]}, tokens, heads, cols);
  };
  p.q = strides(F::LdQ, p.queries, p.heads, p.headDim);
  p.k = strides(F::LdK, keyTokens, p.kvHeads, p.headDim);
  p.v = p.latent ? p.k : strides(F::LdV, keyTokens, p.kvHeads, p.valueDim);
  p.o = strides(F::LdO, p.queries, p.heads, p.valueDim);
  return p;
}

int64_t AttentionProblem::usualQueries() const {
  if (!hasPackedQueries() || batch == 0)
    return queries;
  return std::min(queries, int64_t(llvm::divideCeil(totalQueries, batch)));
}

int64_t AttentionProblem::usualKeys() const {
  if (keyLengths == AttentionLengths::Uniform || batch == 0)
    return keys;
  if (hasPackedKeys())
    return std::min(typicalKeys, int64_t(llvm::divideCeil(totalKeys, batch)));
  return typicalKeys;
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

/// The sum over i in [0, rows) of i + first, each clamped to [0, most].
static double clampedSum(double rows, double first, double most) {
  // The rows whose addend is at least 1 and below the maximum.
  double begin = std::clamp(1 - first, 0.0, rows);
  double end = std::clamp(most - first, begin, rows);
  double count = end - begin;
  return count * first + (begin + end - 1) / 2 * count + (rows - end) * most;
}

double visiblePairs(const AttentionProblem &p, int64_t queries, int64_t keys) {
  double rows = double(queries), all = double(keys), shift = all - rows;
  bool limitsLeft = p.mask == AttentionMask::Window && p.left < kMaxExtent;
  bool limitsRight = p.mask == AttentionMask::Causal ||
                     (p.mask == AttentionMask::Window && p.right < kMaxExtent);
  double right = p.mask == AttentionMask::Window ? double(p.right) : 0;
  double ends =
      limitsRight ? clampedSum(rows, shift + right + 1, all) : rows * all;
  double begins =
      limitsLeft ? clampedSum(rows, shift - double(p.left), all) : 0;
  return ends - begins;
}

double visiblePairs(const AttentionProblem &p) {
  return visiblePairs(p, p.usualQueries(), p.usualKeys()) * double(p.heads) *
         double(p.batch);
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

/// The alignment that accesses to Q, K, V and O have in common, but at least
/// the width of an element of Q, because each element is aligned to its own
/// width in any case.
static int commonAlignment(const AttentionProblem &p) {
  int64_t promise = std::max<int64_t>(p.align, bytesOf(p.dtype));
  return alignmentOf(promise, {{p.headDim, p.q, p.dtype},
                               {p.headDim, p.k, p.kv},
                               {p.valueDim, p.v, p.kv},
                               {p.valueDim, p.o, p.out}});
}

AttentionSignature signatureOf(const AttentionProblem &p) {
  AttentionSignature signature;
  signature.q = p.dtype;
  signature.kv = p.kv;
  signature.out = p.out;
  signature.headDim = static_cast<int>(p.headDim);
  signature.valueDim = static_cast<int>(p.valueDim);
  signature.mask = p.mask;
  signature.queryLengths = p.queryLengths;
  signature.keyLengths = p.keyLengths;
  signature.pages = p.pages;
  signature.softcap = p.softcap != 0;
  signature.sinks = p.sinks;
  signature.alibi = p.alibi;
  signature.lse = p.lse;
  signature.scales = p.scales != Scales::None;
  signature.align = commonAlignment(p);
  return signature;
}

llvm::StringRef enumeratorText(AttentionMask mask) {
  using enum AttentionMask;
  static constexpr EnumName<AttentionMask> kNames[] = {
      {None, "kiln::AttentionMask::None"},
      {Causal, "kiln::AttentionMask::Causal"},
      {Window, "kiln::AttentionMask::Window"}};
  return nameIn(kNames, mask, {});
}

llvm::StringRef enumeratorText(AttentionLengths lengths) {
  using enum AttentionLengths;
  static constexpr EnumName<AttentionLengths> kNames[] = {
      {Uniform, "kiln::AttentionLengths::Uniform"},
      {Packed, "kiln::AttentionLengths::Packed"},
      {Used, "kiln::AttentionLengths::Used"}};
  return nameIn(kNames, lengths, {});
}

llvm::StringRef enumeratorText(AttentionPages pages) {
  using enum AttentionPages;
  static constexpr EnumName<AttentionPages> kNames[] = {
      {None, "kiln::AttentionPages::None"},
      {Table, "kiln::AttentionPages::Table"},
      {List, "kiln::AttentionPages::List"}};
  return nameIn(kNames, pages, {});
}

using Signature = AttentionSignature;
static constexpr SignatureFields kSignatureFields(
    SignatureField{"q", "q", &Signature::q, true, kTypeNames},
    SignatureField{"kv", "kv", &Signature::kv, true, kTypeNames},
    SignatureField{"out", "out", &Signature::out, true, kOutNames},
    SignatureField{"d", "headDim", &Signature::headDim, true, {}, kMaxHeadDim},
    SignatureField{
        "dv", "valueDim", &Signature::valueDim, true, {}, kMaxHeadDim},
    SignatureField{"mask", "mask", &Signature::mask, false, kMaskNames},
    SignatureField{"qlen", "queryLengths", &Signature::queryLengths, false,
                   kQueryLengthNames},
    SignatureField{"kvlen", "keyLengths", &Signature::keyLengths, false,
                   kLengthNames},
    SignatureField{"pages", "pages", &Signature::pages, false, kPageNames},
    SignatureField{"softcap", "softcap", &Signature::softcap},
    SignatureField{"sinks", "sinks", &Signature::sinks},
    SignatureField{"alibi", "alibi", &Signature::alibi},
    SignatureField{"lse", "lse", &Signature::lse},
    SignatureField{"scales", "scales", &Signature::scales},
    SignatureField{"align", "align", &Signature::align, false, {}, 16});

Values toValues(const AttentionSignature &signature) {
  static const Schema &schema =
      *new Schema(kSignatureFields.schema("attention"));
  return kSignatureFields.toValues(signature, schema);
}

AttentionSignature readAttentionSignature(const Values &values) {
  return kSignatureFields.fromValues(values);
}

std::string initializerText(const AttentionSignature &signature) {
  return kSignatureFields.initializer(signature);
}

} // namespace kiln
