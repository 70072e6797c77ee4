//===- RopeFamily.cpp -----------------------------------------------------===//
//
// RopeOperands.cpp has the operands of trials and their tolerances.
//
//===----------------------------------------------------------------------===//
#include "Families/Rope/RopeFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"

#include <algorithm>

namespace kiln {

namespace {

class RopeFamily final : public KernelFamily {
public:
  RopeFamily() { addTemplate(makeHeadRopeTemplate()); }

  llvm::StringRef name() const override { return "rope"; }
  const Schema &problemSchema() const override { return ropeProblemSchema(); }
  const CallReader *call() const override { return &kRopeCall; }

  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    return read(problem).tokens == 0;
  }

  OperandTable operands(const Problem &problem) const override {
    return ropeOperands(read(problem));
  }

  /// Strides count by the divisors of those that are given: extents do not.
  int64_t signaturePeriod() const override { return 1; }

  llvm::StringRef example() const override {
    return "tokens=2048 heads=32 kvheads=8 d=128 rotary=128 dtype=bf16 "
           "kcache=1 vcache=1 slots=array page=16";
  }
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeRopeReference(readRopeSignature(problem.signature), device);
  }

  /// Two products and a sum for each rotated element.
  double flops(const Problem &problem) const override {
    const RopeProblem p = read(problem);
    const int64_t heads = p.heads + (p.hasK() ? p.kvHeads : 0);
    return 3 * double(p.tokens) * double(heads) * double(p.rotaryDim);
  }
  double compulsoryBytes(const Problem &problem) const override;

private:
  static RopeProblem read(const Problem &problem) {
    return readRopeProblem(problem.values.array().data());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The rules of a problem
//===----------------------------------------------------------------------===//

template <class... Args>
static llvm::Error refuse(fmt::format_string<Args...> text, Args &&...args) {
  return makeError(ErrorCode::InvalidArgument, "rope: {}",
                   fmt::format(text, std::forward<Args>(args)...));
}

static llvm::Error checkHeads(const RopeProblem &p) {
  if (!p.hasQ() && !p.hasK() && !p.vCache)
    return refuse("heads=0 and neither kout, kcache nor vcache: there is "
                  "nothing to do");
  if (p.kvHeads == 0 && (p.hasK() || p.vCache))
    return refuse("kvheads=0, but K or V has an output");
  if (p.qNorm && !p.hasQ())
    return refuse("qnorm=1, but heads=0: there is no Q");
  if (p.kNorm && !p.hasK())
    return refuse("knorm=1, but there is no K: neither kout nor kcache");
  if (p.epsilon < 0)
    return refuse("eps={} is below 0", p.epsilon);
  return checkScalar("rope", "eps", p.epsilon);
}

static llvm::Error checkRotation(const RopeProblem &p) {
  if (p.rotaryDim % 2 != 0)
    return refuse("rotary={} is odd: elements are rotated in pairs",
                  p.rotaryDim);
  if (p.rotaryOffset + p.rotaryDim > p.headDim)
    return refuse("rotary={} elements from offset={} on do not fit into d={}",
                  p.rotaryDim, p.rotaryOffset, p.headDim);
  if (p.table != DType::FP32 && p.table != p.dtype)
    return makeError(ErrorCode::Unsupported,
                     "rope: the table is neither fp32 nor of the type of q");
  return llvm::Error::success();
}

static llvm::Error checkCaches(const RopeProblem &p) {
  if (p.hasCache() != (p.slots != RopeSlots::None))
    return refuse("{}", p.hasCache()
                            ? "there are caches, but slots=none: tokens find "
                              "no row of them"
                            : "there are slots, but neither kcache nor vcache");
  if (p.hasCache() && p.pageSize < 1)
    return refuse("page={}: a page of the caches has one token at least",
                  p.pageSize);
  if (p.sequences && p.slots != RopeSlots::Table)
    return refuse("seqs=1 needs slots=table");
  if (p.cache != p.dtype && p.cache != DType::E4M3)
    return makeError(ErrorCode::Unsupported,
                     "rope: kv is neither dtype nor e4m3");
  if (p.scales != ScaleKind::None && !(p.hasCache() && p.cache == DType::E4M3))
    return makeError(ErrorCode::Unsupported,
                     "rope: scales need a cache with kv=e4m3");
  // Rows of caches are counted in 64 bits, with room for strides.
  constexpr double kMostRows = double(int64_t(1) << 40);
  if (double(p.pageSize) * double(p.pageCount) > kMostRows)
    return refuse("{} pages of {} tokens exceed the address space", p.pageCount,
                  p.pageSize);
  return llvm::Error::success();
}

/// Resets values that nothing reads, and those that equal their default.
static void resetUnused(const RopeProblem &p, Values &values) {
  using F = RopeField;
  auto reset = [&](std::initializer_list<int> fields) {
    for (int field : fields)
      values.set(field, ropeProblemSchema().fields()[field].defaultValue);
  };
  if (!p.hasK() && !p.vCache)
    reset({F::KvHeads});
  if (p.valueDim == p.headDim || !p.vCache)
    reset({F::Dv});
  if (p.rotaryDim == 0)
    reset({F::Offset, F::Style, F::Table, F::TableRows});
  if (!p.qNorm && !p.kNorm)
    reset({F::Unit, F::Epsilon});
  if (!p.hasCache())
    reset({F::Kv, F::Page, F::PoolPages});
  if (p.cache == p.dtype)
    reset({F::Kv});
  if (p.slots != RopeSlots::Table)
    reset({F::PageRows, F::PageCols});
  if (!p.hasPositions() && p.slots == RopeSlots::None)
    reset({F::Index});
}

/// Resets the strides of tensors that do not exist, and those that are
/// defaults.
static void resetAllStrides(const RopeProblem &p, Values &values) {
  using F = RopeField;
  for (int field = F::LdQ; field < F::Align; ++field)
    values.set(field, 0);
  for (const HeadTensor &tensor : tensorsOf(p))
    resetStrides(tensor, values);
}

llvm::Expected<Problem> RopeFamily::canonicalise(Values values) const {
  if (auto error = values.check())
    return error;
  const RopeProblem p = readRopeProblem(values.array().data());
  for (auto *check : {checkHeads, checkRotation, checkCaches})
    if (auto error = check(p))
      return error;
  if (auto error = checkAlign(name(), p.align, bytesOf(p.dtype)))
    return error;
  for (const HeadTensor &tensor : tensorsOf(p))
    if (auto error = checkTensor(problemSchema(), tensor))
      return error;
  resetUnused(p, values);
  resetAllStrides(p, values);
  Values signature =
      toValues(signatureOf(readRopeProblem(values.array().data())));
  return Problem{std::move(values), std::move(signature)};
}

/// Heads of models; batches of decoding and chunks of prefills.
PoolDraws RopeFamily::poolDraws(const Values &described) const {
  using F = RopeField;
  const RopeProblem p = readRopeProblem(described.array().data());
  constexpr int64_t kMostKvHeads = 32, kMostGroup = 16;
  constexpr int64_t kLeastPage = 16, kMostPage = 256;
  PoolDraws draws;
  if (p.hasCache())
    draws.layer.push_back({.field = F::Page,
                           .low = kLeastPage,
                           .high = kMostPage,
                           .step = kLeastPage});
  if (p.hasK() || p.vCache)
    draws.layer.push_back({.field = F::KvHeads, .high = kMostKvHeads});
  if (p.hasQ())
    draws.layer.push_back(
        {.field = F::Heads,
         .high = kMostGroup,
         .factorOf = p.hasK() || p.vCache ? int(F::KvHeads) : -1});
  draws.extents = {{.field = F::Tokens, .high = kMostDrawn}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// Heads are read and written once, and a row of the table for each token.
double RopeFamily::compulsoryBytes(const Problem &problem) const {
  const RopeProblem p = read(problem);
  const double element = bytesOf(p.dtype), cached = bytesOf(p.cache);
  const double q = double(p.heads * p.headDim);
  const double k = p.hasK() ? double(p.kvHeads * p.headDim) : 0;
  const double v = p.vCache ? double(p.kvHeads * p.valueDim) : 0;
  return double(p.tokens) *
         ((2 * q + k + v) * element + (p.kOut ? k * element : 0) +
          (p.kCache ? k * cached : 0) + v * cached +
          double(p.rotaryDim) * bytesOf(p.table));
}

std::unique_ptr<KernelFamily> makeRopeFamily() {
  return std::make_unique<RopeFamily>();
}

} // namespace kiln
