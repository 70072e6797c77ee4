//===- AttentionFamily.cpp ------------------------------------------------===//
//
// AttentionOperands.cpp has the operands of trials and their tolerances.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionFamily.h"

#include "Families/Families.h"
#include "Families/HeadTensor.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"
#include "attention/AttentionRanges.h"

#include <algorithm>

namespace kiln {

namespace {

class AttentionFamily final : public KernelFamily {
public:
  AttentionFamily() {
    addTemplate(makeSm90AttentionTemplate());
    addTemplate(makeSm90MlaTemplate());
    addTemplate(makeDecodeAttentionTemplate());
    addTemplate(makeMmaAttentionTemplate());
    addTemplate(makeNaiveAttentionTemplate());
  }

  llvm::StringRef name() const override { return "attention"; }
  const Schema &problemSchema() const override {
    return attentionProblemSchema();
  }
  const CallReader *call() const override { return &kAttentionCall; }

  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    AttentionProblem p = read(problem);
    return p.queries == 0 || p.batch == 0;
  }

  OperandTable operands(const Problem &problem) const override {
    return attentionOperands(read(problem));
  }

  /// Strides count by the divisors of those that are given: extents do not.
  int64_t signaturePeriod() const override { return 1; }

  llvm::StringRef example() const override {
    return "sq=4096 sk=4096 heads=32 kvheads=8 d=128 dtype=bf16 mask=causal";
  }

  /// Decoding reads K and V for a handful of queries.
  Peer peer(const Problem &problem) const override {
    constexpr double kMemoryBound = 64; // operations a byte
    return flops(problem) < kMemoryBound * compulsoryBytes(problem)
               ? Peer::Stream
               : Peer::None;
  }

  PoolDraws poolDraws(const Values &described) const override;

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeAttentionReference(problem, device);
  }

  double flops(const Problem &problem) const override {
    AttentionProblem p = read(problem);
    return 2 * double(p.headDim + p.valueDim) * visiblePairs(p);
  }
  double compulsoryBytes(const Problem &problem) const override;
  double DeviceModel::*peakRate(const Problem &problem,
                                const DeviceModel &device) const override {
    return peakRateOf(device,
                      rateTypeOf(read(problem).dtype, ComputeMode::Native));
  }

private:
  static AttentionProblem read(const Problem &problem) {
    return readAttentionProblem(problem.values.array().data());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The rules of a problem
//===----------------------------------------------------------------------===//

/// "dtype=bf16": a field as messages name it.
static std::string given(const Values &values, int field) {
  return (values.schema().fields()[field].key + "=" + values.valueText(field))
      .str();
}

static llvm::Error checkTypes(const Values &values, const AttentionProblem &p) {
  if (p.kv != p.dtype && p.kv != DType::E4M3)
    return makeError(ErrorCode::Unsupported,
                     "attention: {} is neither dtype nor e4m3",
                     given(values, AttentionField::Kv));
  if (p.dtype != DType::E4M3 && p.out != p.dtype)
    return makeError(ErrorCode::Unsupported,
                     "attention: {} differs from dtype, which only e4m3 allows",
                     given(values, AttentionField::Out));
  if (p.scales != AttentionProblem::Scales::None && p.kv != DType::E4M3)
    return makeError(ErrorCode::Unsupported, "attention: {} needs kv=e4m3",
                     given(values, AttentionField::Scales));
  if (p.heads % p.kvHeads != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "attention: heads={} is no multiple of kvheads={}",
                     p.heads, p.kvHeads);
  return llvm::Error::success();
}

static llvm::Error checkScalars(const AttentionProblem &p) {
  if (p.scale < 0)
    return makeError(ErrorCode::Unsupported,
                     "attention: scale={} is negative, negate Q instead",
                     p.scale);
  if (p.softcap < 0)
    return makeError(ErrorCode::InvalidArgument,
                     "attention: softcap={} is negative", p.softcap);
  if (auto error = checkScalar("attention", "scale", p.scale))
    return error;
  if (auto error = checkScalar("attention", "softcap", p.softcap))
    return error;
  // Kernels compute with the quotient scale / softcap, times 2 log2(e) at most.
  constexpr double kLeast = 0x1p-126, kMost = 0x1p125;
  const double quotient = p.softcap != 0 ? p.scale / p.softcap : 1;
  const bool hasRoom =
      kLeast <= quotient && quotient <= kMost && p.softcap <= kMost;
  // Kernels divide slopes by the last factor of the scores.
  constexpr double kLeastUnit = 0x1p-64;
  const double unit = p.softcap != 0 ? p.softcap : p.scale;
  if (hasRoom && p.alibi && unit < kLeastUnit)
    return makeError(ErrorCode::InvalidArgument,
                     "attention: fp32 has no room for the slopes of alibi "
                     "beside {}={}, below 2^-64",
                     p.softcap != 0 ? "softcap" : "scale", unit);
  if (hasRoom)
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument,
                   "attention: fp32 has no room for softcap={} with scale={}",
                   p.softcap, p.scale);
}

static llvm::Error checkPages(const AttentionProblem &p) {
  if (!p.isPaged())
    return llvm::Error::success();
  if (p.pageSize == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "attention: page=0, pages of K and V need their tokens");
  if (p.hasPackedKeys())
    return makeError(ErrorCode::Unsupported,
                     "attention: kvlen=packed with pages, give kvlen=used");
  int64_t needed = p.pagesOfSequence();
  // A list may be shorter where sequences are.
  if (p.pages == AttentionPages::List)
    needed = p.keyLengths == AttentionLengths::Used ? 0 : needed * p.batch;
  if (p.pageTableCols < needed)
    return makeError(ErrorCode::InvalidArgument,
                     "attention: tablecols={} is below the {} pages of sk={}",
                     p.pageTableCols, needed, p.keys);
  return llvm::Error::success();
}

/// A page is not a sequence: a table whose pages all have one address is
/// refused.
static llvm::Error checkShared(const AttentionProblem &p) {
  if (!p.isPaged() || (p.k.batch != 0 && p.v.batch != 0))
    return llvm::Error::success();
  return makeError(
      ErrorCode::InvalidArgument,
      "attention: {}={} with pages, let rows of the table be equal",
      p.k.batch == 0 ? "bsk" : "bsv", kSharedStride);
}

/// Kernels count rows, pages and entries of tables in 32 bits.
static llvm::Error checkCounts(const AttentionProblem &p) {
  auto check = [](llvm::StringRef key, bool isUsed,
                  int64_t count) -> llvm::Error {
    if (!isUsed || count <= kMaxExtent)
      return llvm::Error::success();
    return makeError(ErrorCode::InvalidArgument,
                     "attention: {}={} is more than {}", key, count,
                     kMaxExtent);
  };
  if (auto error = check("totalq", p.hasPackedQueries(), p.totalQueries))
    return error;
  if (auto error = check("totalk", p.hasPackedKeys(), p.totalKeys))
    return error;
  if (auto error = check("poolpages", p.isPaged(), p.pageCount))
    return error;
  return check("tablecols", p.isPaged(), p.pageTableCols);
}

static llvm::SmallVector<HeadTensor, 4> tensorsOf(const AttentionProblem &p) {
  int64_t queryRows = p.queryRows(), keyRows = p.keyRows();
  int64_t keyBatch = p.isPaged() ? p.pageCount : p.batch;
  return {{AttentionField::LdQ, p.headDim, p.q, queryRows, p.heads, p.batch,
           !p.hasPackedQueries()},
          {AttentionField::LdK, p.headDim, p.k, keyRows, p.kvHeads, keyBatch,
           !p.hasPackedKeys()},
          {AttentionField::LdV, p.valueDim, p.v, keyRows, p.kvHeads, keyBatch,
           !p.hasPackedKeys()},
          {AttentionField::LdO, p.valueDim, p.o, queryRows, p.heads, p.batch,
           !p.hasPackedQueries()}};
}

static llvm::Error checkMemory(const AttentionProblem &p) {
  // Every address is a multiple of its own element in any case.
  if (auto error = checkAlign("attention", p.align, bytesOf(p.kv)))
    return error;
  for (const HeadTensor &tensor : tensorsOf(p))
    if (auto error = checkTensor(attentionProblemSchema(), tensor))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

/// Resets the bounds of other masks than a window. A window without bounds is
/// no mask, and one that ends at the query is causal.
static void simplifyMask(Values &values) {
  using F = AttentionField;
  if (values[F::Mask] != int64_t(AttentionMask::Window)) {
    values.set(F::Left, kMaxExtent);
    values.set(F::Right, kMaxExtent);
    return;
  }
  if (values[F::Left] != kMaxExtent)
    return;
  if (values[F::Right] == kMaxExtent)
    values.set(F::Mask, int64_t(AttentionMask::None));
  else if (values[F::Right] == 0) {
    values.set(F::Mask, int64_t(AttentionMask::Causal));
    values.set(F::Right, kMaxExtent);
  }
}

/// Values that equal a derived default, or are never read, become the default.
static void resetDefaults(const AttentionProblem &p, Values &values) {
  using F = AttentionField;
  auto reset = [&](int field, bool isDefault) {
    if (isDefault)
      values.set(field, 0);
  };
  reset(F::KvHeads, p.kvHeads == p.heads);
  reset(F::Dv, p.valueDim == p.headDim);
  reset(F::Kv, p.kv == p.dtype);
  reset(F::Out, p.out == (p.dtype == DType::E4M3 ? DType::BF16 : p.dtype));
  reset(F::SkHint,
        p.keyLengths == AttentionLengths::Uniform || p.typicalKeys == p.keys);
  reset(F::Scale, p.scale == defaultScale(p.headDim));
  int64_t pages = p.pagesOfSequence();
  reset(F::Page, !p.isPaged());
  reset(F::PoolPages, !p.isPaged() || p.pageCount == p.batch * pages);
  reset(F::TableCols,
        !p.isPaged() ||
            p.pageTableCols ==
                (p.pages == AttentionPages::List ? p.batch * pages : pages));
  reset(F::TotalQ,
        !p.hasPackedQueries() || p.totalQueries == p.batch * p.queries);
  reset(F::TotalK, !p.hasPackedKeys() || p.totalKeys == p.batch * p.keys);
}

llvm::Expected<Problem> AttentionFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  AttentionProblem p = readAttentionProblem(values.array().data());
  if (auto error = checkTypes(values, p))
    return error;
  if (auto error = checkScalars(p))
    return error;
  if (auto error = checkPages(p))
    return error;
  if (auto error = checkShared(p))
    return error;
  if (auto error = checkCounts(p))
    return error;
  if (p.latent && p.valueDim > p.headDim)
    return makeError(ErrorCode::InvalidArgument,
                     "attention: latent=1, but dv={} is above d={}, of which V "
                     "is a part",
                     p.valueDim, p.headDim);
  if (auto error = checkMemory(p))
    return error;
  simplifyMask(values);
  resetDefaults(p, values);
  for (const HeadTensor &tensor : tensorsOf(p))
    resetStrides(tensor, values);
  if (p.latent) // the rows are those of K
    for (int field :
         {AttentionField::LdV, AttentionField::HsV, AttentionField::BsV})
      values.set(field, 0);
  Values signature =
      toValues(signatureOf(readAttentionProblem(values.array().data())));
  return Problem{std::move(values), std::move(signature)};
}

/// Half of the draws decode one query, and a quarter has no keys before its
/// queries. MLA has one head of keys.
PoolDraws AttentionFamily::poolDraws(const Values &described) const {
  using F = AttentionField;
  const AttentionProblem p = readAttentionProblem(described.array().data());
  constexpr int64_t kMostKvHeads = 32, kMostGroup = 16, kMostBatch = 512;
  constexpr int64_t kLeastPage = 16, kMostPage = 256;
  constexpr int64_t kWideHead = 256, kMostLatentHeads = 128;
  const bool isLatent = p.latent || p.headDim > kWideHead;
  PoolDraws draws;
  draws.layer = {{.field = F::KvHeads, .high = isLatent ? 1 : kMostKvHeads},
                 {.field = F::Heads,
                  .high = isLatent ? kMostLatentHeads : kMostGroup,
                  .factorOf = F::KvHeads}};
  if (p.isPaged())
    draws.layer.push_back({.field = F::Page,
                           .low = kLeastPage,
                           .high = kMostPage,
                           .step = kLeastPage});
  constexpr unsigned kPrefills = 50, kWithContext = 75;
  draws.extents = {{.field = F::Sq, .high = kMostDrawn, .percent = kPrefills},
                   {.field = F::Sk,
                    .high = kMostDrawn,
                    .percent = kWithContext,
                    .addendTo = F::Sq},
                   {.field = F::Batch, .high = kMostBatch}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// Q, O and the LSE once, and once the keys and values that any query sees.
double AttentionFamily::compulsoryBytes(const Problem &problem) const {
  AttentionProblem p = read(problem);
  int64_t queries = p.usualQueries(), keys = p.usualKeys();
  AttentionReach reach = reachOf(p.mask, int(p.left), int(p.right));
  AttentionRange seen =
      keysOfAny(reach, {0, int(queries)}, int(queries), int(keys));
  auto keyRows = [&](const HeadStrides &strides) {
    double rows = double(strides.batch == 0 ? 1 : p.batch) * seen.size();
    // Pages, too, may be shared.
    return p.isPaged()
               ? std::min(rows, double(p.pageCount) * double(p.pageSize))
               : rows;
  };
  double queryRows = double(p.batch) * double(p.heads) * double(queries);
  double queryBytes =
      double(p.headDim * bytesOf(p.dtype) + p.valueDim * bytesOf(p.out)) +
      (p.lse ? bytesOf(DType::FP32) : 0);
  double keyElements = keyRows(p.k) * double(p.headDim);
  if (!p.latent)
    keyElements += keyRows(p.v) * double(p.valueDim);
  return queryRows * queryBytes +
         keyElements * double(p.kvHeads) * bytesOf(p.kv);
}

std::unique_ptr<KernelFamily> makeAttentionFamily() {
  return std::make_unique<AttentionFamily>();
}

} // namespace kiln
