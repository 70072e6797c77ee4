//===- TrialValidator.cpp - is what a candidate computes right? -----------===//
#include "Tune/TrialValidator.h"

#include "Driver/Launcher.h"
#include "Tune/Sampling.h"

#include <algorithm>

namespace kiln {

llvm::Expected<TrialValidator>
TrialValidator::create(const Driver &driver, const TrialTools &tools,
                       TrialBuffers &buffers, const KernelFamily &family,
                       const Problem &problem, const DeviceModel &device,
                       ArtifactStore &artifacts, KernelLoader &loader) {
  TrialValidator validator(driver, tools, buffers);
  validator.reference = family.reference(problem, device);
  const TranslationUnit &unit = validator.reference->translationUnit();
  auto artifact = artifacts.get(unit);
  if (!artifact)
    return addContext(artifact.takeError(), "the reference");
  LaunchSpec spec;
  validator.reference->bind(buffers.referenceArguments(), 0, 1,
                            buffers.referenceValues(),
                            buffers.referenceBounds(), spec);
  auto kernel =
      loader.load(**artifact, unit.digest().hex(),
                  spec.steps[0].kernel.sharedBytes, KernelLifetime::Users);
  if (!kernel)
    return addContext(kernel.takeError(), "the reference");
  validator.kernel = std::move(*kernel);
  return validator;
}

llvm::Error TrialValidator::computeReference(int64_t begin, int64_t end,
                                             CudaStream stream) {
  LaunchSpec spec;
  reference->bind(buffers->referenceArguments(), begin, end,
                  buffers->referenceValues(), buffers->referenceBounds(), spec);
  CudaFunction function = kernel->function();
  return addContext(launch(*driver, spec, function, stream), "the reference");
}

llvm::Error TrialValidator::compareRows(int64_t begin, int64_t end,
                                        CudaStream stream) {
  const OperandSpec &output = buffers->output();
  const Tolerance &tolerance = buffers->table().tolerance;
  CompareToleranceParams params;
  params.d = reinterpret_cast<const void *>(buffers->outputAddress());
  params.type = output.type;
  params.m = output.rows;
  params.n = output.cols;
  params.ldd = output.leadingDimension;
  params.strideD = output.batchStride;
  params.rowBegin = begin;
  params.rowEnd = end;
  params.reference =
      reinterpret_cast<const double *>(buffers->referenceValues());
  params.bound = reinterpret_cast<const double *>(buffers->referenceBounds());
  params.relEps = tolerance.relative;
  params.absScale = tolerance.scaled;
  params.result = reinterpret_cast<CompareResult *>(
      buffers->findings() + offsetof(TrialFindings, compare));
  return tools->compare(params, stream);
}

/// Compares all rows, with the reference that is there or one computed slab by
/// slab.
llvm::Error TrialValidator::compareSlabs(CudaStream stream,
                                         std::chrono::milliseconds limit) {
  int64_t rows = buffers->outputRows(), slab = buffers->referenceRows();
  for (int64_t begin = 0; begin < rows; begin += slab) {
    int64_t end = std::min(begin + slab, rows);
    if (!isReferenceThere)
      if (llvm::Error error = computeReference(begin, end, stream))
        return error;
    if (llvm::Error error = compareRows(begin, end, stream))
      return error;
    // One by one, so that the limit is that of a slab.
    if (llvm::Error error = waitWithLimit(*driver, stream, limit))
      return error;
  }
  isReferenceThere = slab >= rows;
  return llvm::Error::success();
}

llvm::Expected<TrialVerdict>
TrialValidator::validate(Run run, CudaStream stream,
                         std::chrono::milliseconds limit) {
  Arguments arguments = buffers->arguments(0);
  // Everything is filled anew: an earlier candidate may have written anywhere.
  if (llvm::Error error = buffers->prepare(stream))
    return error;
  if (llvm::Error error = buffers->resetFindings(stream))
    return error;
  if (llvm::Error error = run(arguments))
    return error;
  if (llvm::Error error = buffers->checkBounds(stream))
    return error;
  if (llvm::Error error = buffers->saveOutput(stream))
    return error;
  if (llvm::Error error = waitWithLimit(*driver, stream, limit))
    return error;
  if (llvm::Error error = compareSlabs(stream, limit))
    return error;
  if (llvm::Error error = buffers->prepareOutput(stream))
    return error;
  if (llvm::Error error = run(arguments))
    return error;
  if (llvm::Error error = buffers->checkBounds(stream))
    return error;
  if (llvm::Error error = buffers->compareWithSaved(stream))
    return error;
  if (llvm::Error error = waitWithLimit(*driver, stream, limit))
    return error;
  TrialFindings findings;
  if (llvm::Error error =
          copyToHost(*driver, &findings, buffers->findings(), sizeof(findings)))
    return error;
  // Who writes elsewhere may have written there.
  isReferenceThere &= findings.outside == 0;
  return judge(findings);
}

llvm::Expected<TrialVerdict>
TrialValidator::judge(const TrialFindings &findings) const {
  const CompareResult &compare = findings.compare;
  const OperandSpec &output = buffers->output();
  auto elements = static_cast<uint64_t>(buffers->outputRows() * output.cols);
  if (compare.checked != elements)
    return makeError(ErrorCode::Internal,
                     "a validation compared {} elements of {}", compare.checked,
                     elements);
  TrialVerdict verdict;
  verdict.maxErrorRatio = compare.maxRatio;
  if (findings.outside != 0) {
    verdict.status = TrialStatus::OutOfBounds;
    verdict.message = fmt::format("{} bytes outside of the operands changed",
                                  findings.outside);
    return verdict;
  }
  if (compare.mismatches != 0) {
    auto columns = static_cast<uint64_t>(output.cols);
    uint8_t element[sizeof(double)] = {};
    auto bytes = static_cast<uint64_t>(bytesOf(output.type));
    if (llvm::Error error = copyToHost(
            *driver, element, buffers->savedElement(compare.firstBad), bytes))
      return error;
    bool isPoison = output.role == OperandRole::Out &&
                    std::all_of(element, element + bytes,
                                [](uint8_t byte) { return byte == 0xff; });
    verdict.status = isPoison ? TrialStatus::NotWritten : TrialStatus::Wrong;
    verdict.message = fmt::format(
        "{} of {} elements are {}, the first in row {}, column {}",
        compare.mismatches, elements, isPoison ? "not written" : "wrong",
        compare.firstBad / columns, compare.firstBad % columns);
    if (!isPoison)
      verdict.message +=
          fmt::format(", at most {:.3g} times the tolerance", compare.maxRatio);
    return verdict;
  }
  if (findings.differing != 0) {
    verdict.status = TrialStatus::Wrong;
    verdict.message = fmt::format("{} bytes of the output differ from run to "
                                  "run",
                                  findings.differing);
  }
  return verdict;
}

} // namespace kiln
