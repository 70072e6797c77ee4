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
  uint32_t sharedBytes = 0;
  for (const TrialOutput &output : buffers.outputs())
    sharedBytes = std::max(
        sharedBytes,
        validator.bindReference(output, 0, 1).steps[0].kernel.sharedBytes);
  auto kernel = loader.load(**artifact, unit.digest().hex(), sharedBytes,
                            KernelLifetime::Users);
  if (!kernel)
    return addContext(kernel.takeError(), "the reference");
  validator.kernel = std::move(*kernel);
  return validator;
}

LaunchSpec TrialValidator::bindReference(const TrialOutput &output,
                                         int64_t begin, int64_t end) const {
  LaunchSpec spec;
  reference->bind(buffers->referenceArguments(),
                  {.operand = output.operand,
                   .rowBegin = begin,
                   .rowEnd = end,
                   .values = buffers->referenceValues(output),
                   .bounds = buffers->referenceBounds(output)},
                  spec);
  return spec;
}

llvm::Error TrialValidator::computeReference(const TrialOutput &output,
                                             int64_t begin, int64_t end,
                                             CudaStream stream) {
  LaunchSpec spec = bindReference(output, begin, end);
  CudaFunction function = kernel->function();
  return addContext(launch(*driver, spec, function, stream), "the reference");
}

llvm::Error TrialValidator::compareRows(size_t number, int64_t begin,
                                        int64_t end, CudaStream stream) {
  const TrialOutput &output = buffers->outputs()[number];
  const OperandSpec &spec = buffers->specOf(output);
  CompareToleranceParams params;
  params.d = reinterpret_cast<const void *>(buffers->addressOf(output));
  params.type = spec.type;
  params.m = spec.rows;
  params.n = spec.cols;
  params.ldd = spec.leadingDimension;
  params.strideD = spec.batchStride;
  params.rowBegin = begin;
  params.rowEnd = end;
  params.reference =
      reinterpret_cast<const double *>(buffers->referenceValues(output));
  params.bound =
      reinterpret_cast<const double *>(buffers->referenceBounds(output));
  params.relEps = spec.tolerance.relative;
  params.absScale = spec.tolerance.scaled;
  params.absolute = spec.tolerance.absolute;
  params.result = reinterpret_cast<CompareResult *>(
      buffers->findings() + offsetof(TrialFindings, compare) +
      number * sizeof(CompareResult));
  return tools->compare(params, stream);
}

/// Compares all rows of all outputs, with the reference that is there or one
/// computed slab by slab.
llvm::Error TrialValidator::compareOutputs(CudaStream stream,
                                           std::chrono::milliseconds limit) {
  for (size_t number = 0; number < buffers->outputs().size(); ++number) {
    const TrialOutput &output = buffers->outputs()[number];
    int64_t slab = output.referenceRows;
    for (int64_t begin = 0; begin < output.rows; begin += slab) {
      int64_t end = std::min(begin + slab, output.rows);
      if (!isReferenceThere)
        if (llvm::Error error = computeReference(output, begin, end, stream))
          return error;
      if (llvm::Error error = compareRows(number, begin, end, stream))
        return error;
      // One by one, so that the limit is that of a slab.
      if (llvm::Error error = waitWithLimit(*driver, stream, limit))
        return error;
    }
  }
  isReferenceThere = buffers->holdsReference();
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
  if (llvm::Error error = buffers->saveOutputs(stream))
    return error;
  if (llvm::Error error = waitWithLimit(*driver, stream, limit))
    return error;
  if (llvm::Error error = compareOutputs(stream, limit))
    return error;
  if (llvm::Error error = buffers->prepareOutputs(stream))
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

/// Names the output where there is more than one: "y: ".
std::string TrialValidator::prefixOf(const TrialOutput &output) const {
  if (buffers->outputs().size() == 1)
    return "";
  return fmt::format("{}: ", buffers->specOf(output).name);
}

/// What the comparison with the reference says of one output.
llvm::Error TrialValidator::judgeOutput(const TrialOutput &output,
                                        const CompareResult &compare,
                                        TrialVerdict &verdict) const {
  const OperandSpec &spec = buffers->specOf(output);
  auto elements = static_cast<uint64_t>(output.rows * spec.cols);
  if (compare.checked != elements)
    return makeError(ErrorCode::Internal,
                     "a validation compared {} elements of {} of {}",
                     compare.checked, elements, spec.name);
  verdict.maxErrorRatio = std::max(verdict.maxErrorRatio, compare.maxRatio);
  if (compare.mismatches == 0 || verdict.status != TrialStatus::Ok)
    return llvm::Error::success();
  auto columns = static_cast<uint64_t>(spec.cols);
  uint8_t element[sizeof(double)] = {};
  auto bytes = static_cast<uint64_t>(bytesOf(spec.type));
  if (llvm::Error error =
          copyToHost(*driver, element,
                     buffers->savedElement(output, compare.firstBad), bytes))
    return error;
  uint8_t poison = poisonOf(spec.type) & 0xff;
  bool isPoison = spec.role == OperandRole::Out &&
                  std::all_of(element, element + bytes,
                              [&](uint8_t byte) { return byte == poison; });
  verdict.status = isPoison ? TrialStatus::NotWritten : TrialStatus::Wrong;
  verdict.message =
      fmt::format("{}{} of {} elements are {}, the first in row {}, column {}",
                  prefixOf(output), compare.mismatches, elements,
                  isPoison ? "not written" : "wrong",
                  compare.firstBad / columns, compare.firstBad % columns);
  if (!isPoison)
    verdict.message +=
        fmt::format(", at most {:.3g} times the tolerance", compare.maxRatio);
  return llvm::Error::success();
}

llvm::Expected<TrialVerdict>
TrialValidator::judge(const TrialFindings &findings) const {
  llvm::ArrayRef<TrialOutput> outputs = buffers->outputs();
  TrialVerdict verdict;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (llvm::Error error =
            judgeOutput(outputs[i], findings.compare[i], verdict))
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
