//===- TrialValidator.cpp - compares candidates with the reference --------===//
#include "Trial/TrialValidator.h"

#include "Driver/Launcher.h"
#include "Kernel/OperandLayout.h"
#include "Trial/Sampling.h"

#include <algorithm>

namespace kiln {

/// The part of a problem of \p flops operations that the reference computes in
/// some times \p seconds. It does two fused multiply-adds in double precision
/// for each one of the problem (the value and its bound), and reaches a third
/// to two thirds of the peak rate.
static double shareOfWork(double flops, const DeviceModel &device,
                          double seconds) {
  constexpr double kHzPerMHz = 1e6;
  const double rate = device.simdFp64FlopsPerClock *
                      static_cast<double>(device.smCount) * device.smClockMHz *
                      kHzPerMHz;
  const double work = 2 * flops;
  return rate > 0 && work > 0 ? std::min(1.0, seconds * rate / work) : 1.0;
}

llvm::Expected<TrialValidator> TrialValidator::create(
    const Driver &driver, const TrialTools &tools, TrialBuffers &buffers,
    const KernelFamily &family, const Problem &problem,
    const DeviceModel &device, ArtifactStore &artifacts, KernelLoader &loader,
    KernelLifetime lifetime, std::chrono::duration<double> slab) {
  TrialValidator validator(driver, tools, buffers);
  validator.reference = family.reference(problem, device);
  validator.cutSlabs(shareOfWork(family.flops(problem), device, slab.count()));
  const TranslationUnit &unit = validator.reference->translationUnit();
  auto artifact = artifacts.get(unit);
  if (!artifact)
    return addContext(artifact.takeError(), "the reference");
  uint32_t sharedBytes = 0;
  for (const TrialOutput &output : buffers.outputs())
    sharedBytes = std::max(
        sharedBytes,
        validator.bindReference(output, 0, 1).steps[0].kernel.sharedBytes);
  auto kernel =
      loader.load(**artifact, unit.digest().hex(), sharedBytes, lifetime);
  if (!kernel)
    return addContext(kernel.takeError(), "the reference");
  validator.kernel = std::move(*kernel);
  return validator;
}

/// Cuts all rows into slabs of \p share of an output's rows each.
void TrialValidator::cutSlabs(double share) {
  constexpr double kLeastRows = 64; // the rows of a tile of the reference
  for (size_t number = 0; number < buffers->outputs().size(); ++number) {
    const TrialOutput &output = buffers->outputs()[number];
    const double worth =
        std::max(static_cast<double>(output.rows) * share, kLeastRows);
    const int64_t rows =
        std::min(output.referenceRows, static_cast<int64_t>(worth));
    for (int64_t begin = 0; begin < output.rows; begin += rows)
      slabs.push_back({number, begin, std::min(begin + rows, output.rows)});
  }
}

LaunchSpec TrialValidator::bindReference(const TrialOutput &output,
                                         int64_t begin, int64_t end) const {
  LaunchSpec spec;
  reference->bind(
      buffers->referenceArguments(),
      {.operand = output.operand,
       .rowBegin = begin,
       .rowEnd = end,
       .values = buffers->referenceValues(output) + slabOffset(output, begin),
       .bounds = buffers->referenceBounds(output) + slabOffset(output, begin)},
      spec);
  return spec;
}

/// The offset of the slab that begins with row \p begin: behind the earlier
/// ones if all have room.
uint64_t TrialValidator::slabOffset(const TrialOutput &output,
                                    int64_t begin) const {
  return buffers->holdsReference()
             ? static_cast<uint64_t>(begin * buffers->specOf(output).cols) *
                   sizeof(double)
             : 0;
}

llvm::Error TrialValidator::computeSlab(const Slab &slab, CudaStream stream) {
  LaunchSpec spec =
      bindReference(buffers->outputs()[slab.output], slab.begin, slab.end);
  CudaFunction function = kernel->function();
  return addContext(launch(*driver, spec, function, stream), "the reference");
}

llvm::Error TrialValidator::compareSlab(const Slab &slab, CudaStream stream) {
  const TrialOutput &output = buffers->outputs()[slab.output];
  const OperandSpec &spec = buffers->specOf(output);
  CompareToleranceParams params;
  params.d = reinterpret_cast<const void *>(buffers->addressOf(output));
  params.before = reinterpret_cast<const void *>(buffers->pristineOf(output));
  params.pattern = poisonOf(spec.type);
  params.type = spec.type;
  params.layout = layoutOf(spec);
  params.rowBegin = slab.begin;
  params.rowEnd = slab.end;
  params.reference = reinterpret_cast<const double *>(
      buffers->referenceValues(output) + slabOffset(output, slab.begin));
  params.bound = reinterpret_cast<const double *>(
      buffers->referenceBounds(output) + slabOffset(output, slab.begin));
  params.relEps = spec.tolerance.relative;
  params.absScale = spec.tolerance.scaled;
  params.absolute = spec.tolerance.absolute;
  params.result = reinterpret_cast<CompareResult *>(
      buffers->findings() + offsetof(TrialFindings, compare) +
      slab.output * sizeof(CompareResult));
  return tools->compare(params, stream);
}

/// Whether \p slabsLeft more slabs would take longer than there is time.
bool TrialValidator::isTooLate(size_t slabsLeft,
                               const ValidationTime &time) const {
  if (time.cancel && *time.cancel)
    return true;
  const Clock::time_point now = trialTime(time.pace);
  return now > time.deadline && now + slabsLeft * slabTime > time.latest;
}

/// Computes the missing slabs of a kept reference; false if there was no time
/// for all of them.
llvm::Expected<bool>
TrialValidator::completeReference(CudaStream stream,
                                  const ValidationTime &time) {
  for (bool isFirst = true; slabsThere < slabs.size(); ++slabsThere) {
    if (!isFirst && isTooLate(slabs.size() - slabsThere, time))
      return false;
    isFirst = false;
    TrialPiece piece(time.pace);
    if (!piece.mayRun())
      return false;
    const Clock::time_point begin = Clock::now();
    if (llvm::Error error = computeSlab(slabs[slabsThere], stream))
      return error;
    // Slabs are awaited one by one, so that the limit is that of a slab.
    if (llvm::Error error = waitWithLimit(*driver, stream, time.hangLimit))
      return error;
    slabTime = Clock::now() - begin;
  }
  return true;
}

/// Compares all rows of all outputs, and computes the reference if it is not
/// kept; false if there was no time for that.
llvm::Expected<bool>
TrialValidator::compareOutputs(CudaStream stream, const ValidationTime &time) {
  const bool isKept = buffers->holdsReference();
  for (size_t i = 0; i < slabs.size(); ++i) {
    if (i != 0 && !isKept && isTooLate(slabs.size() - i, time))
      return false;
    TrialPiece piece(time.pace);
    if (!piece.mayRun())
      return false;
    const Clock::time_point begin = Clock::now();
    if (!isKept)
      if (llvm::Error error = computeSlab(slabs[i], stream))
        return error;
    if (llvm::Error error = compareSlab(slabs[i], stream))
      return error;
    if (llvm::Error error = waitWithLimit(*driver, stream, time.hangLimit))
      return error;
    if (!isKept)
      slabTime = Clock::now() - begin;
  }
  return true;
}

static TrialVerdict unfinished() {
  TrialVerdict verdict;
  verdict.status = TrialStatus::Timeout;
  verdict.message = "not validated within the time limit";
  return verdict;
}

/// Does the first run of a candidate, over poisoned outputs.
llvm::Error TrialValidator::runFirst(Run run, CudaStream stream) {
  if (llvm::Error error = buffers->resetFindings(stream))
    return error;
  if (llvm::Error error = run(buffers->arguments(0)))
    return error;
  if (llvm::Error error = buffers->checkBounds(stream))
    return error;
  return buffers->saveOutputs(stream);
}

/// Does the second run, which has to give the same bits.
llvm::Error TrialValidator::runAgain(Run run, CudaStream stream) {
  if (llvm::Error error = buffers->prepareOutputs(stream))
    return error;
  if (llvm::Error error = run(buffers->arguments(0)))
    return error;
  if (llvm::Error error = buffers->checkBounds(stream))
    return error;
  return buffers->compareWithSaved(stream);
}

llvm::Expected<TrialVerdict>
TrialValidator::validate(Run run, CudaStream stream,
                         const ValidationTime &time) {
  const std::chrono::milliseconds limit = time.hangLimit;
  // Everything is filled again: an earlier candidate may have written anywhere.
  {
    TrialPiece piece(time.pace);
    if (!piece.mayRun())
      return unfinished();
    if (llvm::Error error = buffers->prepare(stream))
      return error;
    if (time.pace)
      if (llvm::Error error = waitWithLimit(*driver, stream, limit))
        return error;
  }
  if (buffers->holdsReference()) {
    auto isComplete = completeReference(stream, time);
    if (!isComplete)
      return isComplete.takeError();
    if (!*isComplete)
      return unfinished();
  }
  {
    TrialPiece piece(time.pace);
    if (!piece.mayRun())
      return unfinished();
    if (llvm::Error error = runFirst(run, stream))
      return error;
    if (llvm::Error error = waitWithLimit(*driver, stream, limit))
      return error;
  }
  auto isCompared = compareOutputs(stream, time);
  if (!isCompared)
    return isCompared.takeError();
  if (!*isCompared)
    return unfinished();
  TrialPiece piece(time.pace);
  if (!piece.mayRun())
    return unfinished();
  if (llvm::Error error = runAgain(run, stream))
    return error;
  TrialFindings findings;
  if (llvm::Error error = readWithLimit(*driver, &findings, buffers->findings(),
                                        sizeof(findings), stream, limit))
    return error;
  // A candidate that writes elsewhere may have overwritten the reference.
  if (findings.outside != 0)
    slabsThere = 0;
  return judge(findings, stream, limit);
}

/// Names the output if there is more than one: "y: ".
std::string TrialValidator::prefixOf(const TrialOutput &output) const {
  if (buffers->outputs().size() == 1)
    return "";
  return fmt::format("{}: ", buffers->specOf(output).name);
}

/// The place of element \p index, row * cols + column: "row 3, column 5". Rows
/// are counted through batches or, if there are planes, within one plane.
static std::string placeText(const OperandSpec &spec, uint64_t index) {
  const auto cols = static_cast<uint64_t>(spec.cols);
  const uint64_t row = index / cols;
  if (spec.planes <= 1)
    return fmt::format("row {}, column {}", row, index % cols);
  const auto rows = static_cast<uint64_t>(spec.rows),
             planes = static_cast<uint64_t>(spec.planes);
  std::string text = fmt::format("row {}, column {} of plane {}", row % rows,
                                 index % cols, row / rows % planes);
  if (spec.batch > 1)
    text += fmt::format(" of batch {}", row / rows / planes);
  return text;
}

/// Takes the verdict of one output from its comparison with the reference.
llvm::Error TrialValidator::judgeOutput(const TrialOutput &output,
                                        const CompareResult &compare,
                                        CudaStream stream,
                                        std::chrono::milliseconds limit,
                                        TrialVerdict &verdict) const {
  const OperandSpec &spec = buffers->specOf(output);
  auto elements = static_cast<uint64_t>(output.rows * spec.cols);
  if (compare.checked != elements)
    return makeError(ErrorCode::Internal,
                     "a validation compared {} elements of {} of {}",
                     compare.checked, elements, spec.name);
  verdict.maxErrorRatio = std::max(verdict.maxErrorRatio, compare.maxRatio);
  if (verdict.status != TrialStatus::Ok)
    return llvm::Error::success();
  if (compare.mismatches == 0 && compare.disturbed != 0) {
    verdict.status = TrialStatus::Wrong;
    verdict.message = fmt::format(
        "{}{} elements that are not defined were written, the first in {}",
        prefixOf(output), compare.disturbed,
        placeText(spec, compare.firstDisturbed));
  }
  if (compare.mismatches == 0)
    return llvm::Error::success();
  uint8_t element[sizeof(double)] = {};
  auto bytes = static_cast<uint64_t>(bytesOf(spec.type));
  if (llvm::Error error = readWithLimit(
          *driver, element, buffers->savedElement(output, compare.firstBad),
          bytes, stream, limit))
    return error;
  uint8_t poison = poisonOf(spec.type) & 0xff;
  bool isPoison = spec.role == OperandRole::Out &&
                  std::all_of(element, element + bytes,
                              [&](uint8_t byte) { return byte == poison; });
  verdict.status = isPoison ? TrialStatus::NotWritten : TrialStatus::Wrong;
  verdict.message = fmt::format("{}{} of {} elements are {}, the first in {}",
                                prefixOf(output), compare.mismatches, elements,
                                isPoison ? "not written" : "wrong",
                                placeText(spec, compare.firstBad));
  if (!isPoison)
    verdict.message +=
        fmt::format(", at most {:.3g} times the tolerance", compare.maxRatio);
  return llvm::Error::success();
}

llvm::Expected<TrialVerdict>
TrialValidator::judge(const TrialFindings &findings, CudaStream stream,
                      std::chrono::milliseconds limit) const {
  llvm::ArrayRef<TrialOutput> outputs = buffers->outputs();
  TrialVerdict verdict;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (llvm::Error error = judgeOutput(outputs[i], findings.compare[i], stream,
                                        limit, verdict))
      return error;
  if (findings.outside != 0) {
    verdict.status = TrialStatus::OutOfBounds;
    verdict.message = fmt::format("{} bytes outside of the operands changed",
                                  findings.outside);
    return verdict;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (findings.differing[i] == 0 || verdict.status != TrialStatus::Ok)
      continue;
    verdict.status = TrialStatus::Wrong;
    verdict.message =
        fmt::format("{}{} bytes of the output differ from run to run",
                    prefixOf(outputs[i]), findings.differing[i]);
  }
  return verdict;
}

} // namespace kiln
