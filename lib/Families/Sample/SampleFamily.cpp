//===- SampleFamily.cpp ---------------------------------------------------===//
//
// SampleOperands.cpp has the operands of trials and their data.
//
//===----------------------------------------------------------------------===//
#include "Families/Sample/SampleFamily.h"

#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Support/Error.h"

namespace kiln {

namespace {

class SampleFamily final : public KernelFamily {
public:
  SampleFamily() {
    addTemplate(makeSpreadSampleTemplate());
    addTemplate(makeClusterSampleTemplate());
    addTemplate(makeBlockSampleTemplate());
  }

  llvm::StringRef name() const override { return "sample"; }
  const Schema &problemSchema() const override { return sampleProblemSchema(); }
  const CallReader *call() const override { return &kSampleCall; }

  llvm::Expected<Problem> canonicalise(Values values) const override;

  bool isEmpty(const Problem &problem) const override {
    return read(problem).rows == 0;
  }

  OperandTable operands(const Problem &problem) const override {
    return sampleOperands(read(problem));
  }

  /// The number of rows is in no signature.
  int64_t signaturePeriod() const override { return 1; }

  llvm::StringRef example() const override {
    return "rows=64 vocab=128256 dtype=bf16 temperature=1 topk=1 topp=1";
  }
  llvm::ArrayRef<llvm::StringRef> combinations() const override;
  PoolDraws poolDraws(const Values &described) const override;
  Peer peer(const Problem &) const override { return Peer::Stream; }

  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return makeSampleReference(problem, device);
  }

  double flops(const Problem &) const override { return 0; }

private:
  static SampleProblem read(const Problem &problem) {
    return readSampleProblem(problem.values.array().data());
  }
};

} // namespace

llvm::ArrayRef<llvm::StringRef> SampleFamily::combinations() const {
  static constexpr llvm::StringRef kTexts[] = {
      "advance=1 lengths=1",
      "temperature=1 topk=1 topp=1 joint=1",
      "repetition=1 frequency=1 presence=1",
  };
  return kTexts;
}

/// Vocabularies of models, and batches of decoding.
PoolDraws SampleFamily::poolDraws(const Values &described) const {
  using F = SampleField;
  constexpr int64_t kLeastVocab = 1024, kMostVocab = 262144, kMostRows = 1024;
  const int64_t step =
      elementsOfVector(readSampleProblem(described.array().data()).dtype);
  PoolDraws draws;
  draws.layer = {{.field = F::Vocab,
                  .low = kLeastVocab,
                  .high = kMostVocab,
                  .step = step}};
  draws.extents = {{.field = F::Rows, .high = kMostRows}};
  return draws;
}

//===----------------------------------------------------------------------===//
// Canonical form
//===----------------------------------------------------------------------===//

static llvm::Error checkScalars(const SampleProblem &p) {
  if (p.scale == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "sample: scale=0 makes all logits equal");
  if (auto error = checkScalar("sample", "scale", p.scale))
    return error;
  if (p.softcap < 0)
    return makeError(ErrorCode::InvalidArgument,
                     "sample: softcap={} is negative", p.softcap);
  if (auto error = checkScalar("sample", "softcap", p.softcap))
    return error;
  // Kernels multiply by its reciprocal.
  constexpr double kLeast = 0x1p-126, kMost = 0x1p126;
  if (p.softcap != 0 && (p.softcap < kLeast || p.softcap > kMost))
    return makeError(ErrorCode::InvalidArgument,
                     "sample: fp32 has no reciprocal of softcap={}", p.softcap);
  return llvm::Error::success();
}

llvm::Expected<Problem> SampleFamily::canonicalise(Values values) const {
  using F = SampleField;
  if (auto error = values.check())
    return error;
  SampleProblem p = readSampleProblem(values.array().data());
  if (auto error = checkScalars(p))
    return error;
  if (p.lengths && !p.advances)
    return makeError(ErrorCode::InvalidArgument,
                     "sample: lengths=1 needs advance=1: nothing else is done "
                     "with lengths");
  if (p.topCount > p.vocab)
    return makeError(ErrorCode::InvalidArgument,
                     "sample: top={} is above vocab={}", p.topCount, p.vocab);
  if (auto error = checkAlign(name(), p.align, bytesOf(p.dtype)))
    return error;
  if (auto error = checkMatrix(name(), "ldx", p.rows, p.vocab, p.ld))
    return error;
  // Values that equal a derived default, or are never read, become the default.
  if (p.ld == p.vocab)
    values.set(F::LdX, 0);
  if (!p.hasPenalties() || p.historyCount == usualHistory(p.rows))
    values.set(F::History, 0);
  values.set(F::TopK, p.topK);
  values.set(F::TopP, p.topP);
  values.set(F::MinP, p.minP);
  values.set(F::Joint, p.isJoint);
  return Problem{std::move(values), toValues(signatureOf(p))};
}

std::unique_ptr<KernelFamily> makeSampleFamily() {
  return std::make_unique<SampleFamily>();
}

} // namespace kiln
