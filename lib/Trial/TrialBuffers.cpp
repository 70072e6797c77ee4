//===- TrialBuffers.cpp - operands of a trial in their own memory ---------===//
#include "Trial/TrialBuffers.h"

#include "Kernel/OperandLayout.h"
#include "Kernel/TypeName.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace kiln {

static constexpr uint64_t kAlignment = 256;
/// Copies beyond which emptying the cache is cheaper than more of them.
static constexpr uint64_t kMaxCopies = 64;
/// Even a copy larger than L2 leaves its tail there, so one is not enough.
static constexpr uint64_t kLeastCopies = 2;
/// The space for TrialFindings.
static constexpr uint64_t kFindingsBytes = 2048;
static_assert(sizeof(TrialFindings) <= kFindingsBytes);

static uint64_t alignUp(uint64_t bytes) {
  return llvm::alignTo(bytes, kAlignment);
}

/// Whether the trial tools can fill \p operand and, if it is written, compare
/// it.
static bool isKnown(const OperandSpec &operand) {
  constexpr DType kReals[] = {DType::FP64, DType::FP32, DType::FP16,
                              DType::BF16, DType::E4M3, DType::E5M2,
                              DType::INT8};
  return isIndexType(operand.type) || llvm::is_contained(kReals, operand.type);
}

/// Whether \p operand has integers without a stated meaning.
static bool isUnsaid(const OperandSpec &operand) {
  return isIndexType(operand.type) && operand.role != OperandRole::Out &&
         (operand.usual.integers.kind == IntegerData::None ||
          operand.outliers.integers.kind == IntegerData::None);
}

/// Bytes of values and bounds of one row.
static uint64_t referenceRowBytes(const OperandSpec &spec) {
  return static_cast<uint64_t>(spec.cols) * 2 * sizeof(double);
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

llvm::Error TrialBuffers::checkTable() const {
  for (const OperandSpec &operand : operandTable.operands) {
    if (operand.bytes() == 0)
      continue;
    if (!isKnown(operand))
      return makeError(ErrorCode::Unsupported,
                       "{}: trials can neither fill nor compare operand {} of "
                       "type {}; bf16, fp16, fp32, fp64, e4m3, e5m2, int8, "
                       "int32 and int64 work",
                       family->name(), operand.name, nameOf(operand.type));
    if (isUnsaid(operand))
      return makeError(
          ErrorCode::Unsupported,
          "{}: operand {} does not state the meaning of its integers",
          family->name(), operand.name);
    if (operand.isWritten() && !gridOf(layoutOf(operand)).isApart())
      return makeError(ErrorCode::Unsupported,
                       "{}: trials cannot guard operand {}, whose rows overlap",
                       family->name(), operand.name);
  }
  auto hasOutput = [](const OperandSpec &operand) {
    return operand.isWritten() && operand.bytes() != 0;
  };
  if (llvm::none_of(operandTable.operands, hasOutput))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: the problem has no output to try", family->name());
  return llvm::Error::success();
}

/// Places the operands in a copy.
void TrialBuffers::layOutCopy(bool alignsTables) {
  for (const OperandSpec &operand : operandTable.operands) {
    Area area;
    area.begin = copyBytes;
    area.bytes = static_cast<uint64_t>(operand.bytes());
    if (area.bytes != 0) {
      area.data = area.begin + kRedZoneBytes;
      if (!alignsTables || operand.alignment == 0)
        area.data += static_cast<uint64_t>(operand.misalignment);
      // Vectors of 16 bytes may be read to their end.
      area.end =
          alignUp(llvm::alignTo(area.data + area.bytes, 16) + kRedZoneBytes);
      dataBytes += static_cast<uint64_t>(occupiedBytes(operand));
      copyBytes = area.end;
    }
    areas.push_back(area);
  }
}

/// Places each output's content before and after a run, from offset 0 on;
/// returns the bytes of all.
uint64_t TrialBuffers::layOutOutputs() {
  uint64_t at = 0;
  for (size_t i = 0; i < areas.size(); ++i) {
    const OperandSpec &spec = operandTable.operands[i];
    if (!spec.isWritten() || areas[i].bytes == 0)
      continue;
    TrialOutput output;
    output.operand = static_cast<int>(i);
    output.rows = layoutOf(spec).rowCount();
    output.savedAt = at;
    at += areas[i].allBytes();
    if (isRead(output)) {
      output.pristineAt = at;
      at += areas[i].allBytes();
    }
    writtenOperands.push_back(output);
  }
  return at;
}

uint64_t TrialBuffers::largestReferenceRow() const {
  uint64_t largest = 0;
  for (const TrialOutput &output : outputs())
    largest = std::max(largest, referenceRowBytes(specOf(output)));
  return largest;
}

/// Places the reference, from offset 0 on, in at most half of \p left unless
/// one row takes more: all rows of all outputs side by side, or one region for
/// a slab of any. Returns its bytes.
uint64_t TrialBuffers::layOutReference(uint64_t left) {
  uint64_t all = 0;
  for (TrialOutput &output : writtenOperands) {
    output.referenceRows = output.rows;
    output.referenceAt = all;
    all += alignUp(static_cast<uint64_t>(output.rows) *
                   referenceRowBytes(specOf(output)));
  }
  referenceFits = all <= left / 2;
  if (referenceFits)
    return all;
  uint64_t region = std::max(left / 2, largestReferenceRow());
  for (TrialOutput &output : writtenOperands) {
    auto fitting =
        static_cast<int64_t>(region / referenceRowBytes(specOf(output)));
    output.referenceRows = std::min(fitting, output.rows);
    output.referenceAt = 0;
  }
  return alignUp(region);
}

/// Divides the limit: one copy and the memory of validation, the reference,
/// then as many copies as make a sample cold.
llvm::Error TrialBuffers::layOut(const TrialBufferOptions &options) {
  layOutCopy(options.alignsTables);
  uint64_t outputBytes = layOutOutputs();
  uint64_t fixed = copyBytes + outputBytes + kFindingsBytes + 2 * kAlignment;
  const uint64_t least = fixed + largestReferenceRow();
  if (least > options.capBytes)
    return makeError(ErrorCode::DeviceOutOfMemory,
                     "{}: trials need {} bytes of device memory, {} are "
                     "allowed",
                     problem->text(), least, options.capBytes);
  uint64_t usable = options.capBytes - options.spareBytes;
  if (least > usable)
    usable = options.capBytes;
  uint64_t left = usable - fixed;
  uint64_t referenceBytes = layOutReference(left);
  left -= std::min(left, referenceBytes);
  if (options.forTiming) {
    auto l2Bytes = static_cast<uint64_t>(options.l2Bytes);
    flushBytes = std::min(2 * l2Bytes, left / 2) / kAlignment * kAlignment;
    uint64_t wanted = llvm::divideCeil(kColdFactor * l2Bytes, dataBytes);
    wanted = std::max(wanted, kLeastCopies);
    uint64_t room = 1 + (left - flushBytes) / copyBytes;
    copyCount = static_cast<unsigned>(std::min({wanted, kMaxCopies, room}));
    flushNeeded = copyCount < wanted && flushBytes != 0;
  }
  uint64_t savedAt = copyBytes * copyCount;
  uint64_t referenceAt = savedAt + outputBytes;
  for (TrialOutput &output : writtenOperands) {
    output.savedAt += savedAt;
    output.pristineAt += savedAt;
    output.referenceAt += referenceAt;
  }
  flushAt = referenceAt + referenceBytes;
  findingsAt = flushAt + flushBytes;
  totalBytes = findingsAt + kFindingsBytes;
  return llvm::Error::success();
}

llvm::Expected<TrialBuffers>
TrialBuffers::create(const Driver &driver, const TrialTools &tools,
                     const KernelFamily &family, const Problem &problem,
                     const TrialBufferOptions &options, CudaStream stream) {
  TrialBuffers buffers(driver, tools, family, problem, options.data,
                       options.planted);
  if (llvm::Error error = buffers.checkTable())
    return error;
  if (llvm::Error error = buffers.layOut(options))
    return error;
  auto arena = options.pool ? options.pool->allocate(buffers.totalBytes, stream)
                            : DeviceMemory::allocate(driver, buffers.totalBytes,
                                                     options.gauge);
  if (!arena)
    return addContext(arena.takeError(), "scratch memory of trials");
  buffers.arena = std::move(*arena);
  if (llvm::Error error = buffers.prepare(stream))
    return error;
  const DeviceAddress base = buffers.arena.address();
  for (unsigned copy = 1; copy < buffers.copyCount; ++copy)
    if (llvm::Error error =
            copyOnDevice(driver, base + copy * buffers.copyBytes, base,
                         buffers.copyBytes, stream))
      return error;
  if (llvm::Error error = buffers.savePristine(stream))
    return error;
  return buffers;
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Arguments TrialBuffers::arguments(unsigned copy) const {
  Arguments arguments = family->defaultArguments(*problem);
  for (size_t i = 0; i < areas.size(); ++i)
    if (areas[i].bytes != 0)
      arguments.operands[i].address =
          arena.address() + copy * copyBytes + areas[i].data;
  return arguments;
}

Arguments TrialBuffers::referenceArguments() const {
  Arguments arguments = this->arguments(0);
  for (const TrialOutput &output : outputs())
    if (isRead(output))
      arguments.operands[output.operand].address = pristineOf(output);
  return arguments;
}

DeviceAddress TrialBuffers::referenceBounds(const TrialOutput &output) const {
  return referenceValues(output) +
         static_cast<uint64_t>(output.referenceRows) *
             static_cast<uint64_t>(specOf(output).cols) * sizeof(double);
}

DeviceAddress TrialBuffers::savedElement(const TrialOutput &output,
                                         uint64_t index) const {
  const OperandSpec &spec = specOf(output);
  const Area &area = areaOf(output);
  int64_t row = static_cast<int64_t>(index) / spec.cols;
  int64_t column = static_cast<int64_t>(index) % spec.cols;
  int64_t element = layoutOf(spec).offsetOf(row) + column;
  return arena.address() + output.savedAt + area.data - area.begin +
         static_cast<uint64_t>(element * bytesOf(spec.type));
}

//===----------------------------------------------------------------------===//
// Filling and checking
//===----------------------------------------------------------------------===//

llvm::Error TrialBuffers::fillArea(size_t operand, uint64_t copyAt,
                                   CudaStream stream) const {
  const OperandSpec &spec = operandTable.operands[operand];
  const Area &area = areas[operand];
  if (area.bytes == 0)
    return llvm::Error::success();
  DeviceAddress base = arena.address() + copyAt;
  FillPatternParams poison;
  poison.data = reinterpret_cast<void *>(base + area.begin);
  poison.bytes = static_cast<long long>(area.allBytes());
  poison.pattern = poisonOf(spec.type);
  if (llvm::Error error = tools->fillPattern(poison, stream))
    return error;
  if (spec.role == OperandRole::Out)
    return llvm::Error::success();
  if (isIndexType(spec.type))
    return fillIntegers(operand, base + area.data, stream);
  const OperandInit &init = spec.init(data);
  FillNormalParams normal;
  normal.data = reinterpret_cast<void *>(base + area.data);
  normal.count = static_cast<long long>(area.bytes) / bytesOf(spec.type);
  normal.seed = seedOf(operand);
  normal.type = spec.type;
  normal.mean = static_cast<float>(init.mean);
  normal.deviation = static_cast<float>(init.deviation);
  normal.isLogarithmic = init.isLogarithmic;
  normal.mantissaBits = init.mantissaBits;
  normal.outlierPeriod = init.outlierPeriod;
  normal.outlier = static_cast<float>(init.outlier);
  normal.minusInfinityPeriod = init.minusInfinityPeriod;
  normal.rowPeriod = init.rowPeriod;
  normal.rowLength = spec.leadingDimension ? spec.leadingDimension : spec.cols;
  normal.rowValue = static_cast<float>(init.rowValue);
  if (llvm::Error error = tools->fillNormal(normal, stream))
    return error;
  return planted.operand == static_cast<int>(operand)
             ? plant(base + area.data, stream)
             : llvm::Error::success();
}

/// Puts the planted value into its operand, which begins \p at.
llvm::Error TrialBuffers::plant(DeviceAddress at, CudaStream stream) const {
  const OperandSpec &spec =
      operandTable.operands[static_cast<size_t>(planted.operand)];
  const int64_t element = layoutOf(spec).offsetOf(planted.row) + planted.column;
  FillNormalParams params;
  params.data = reinterpret_cast<void *>(
      at + static_cast<uint64_t>(element * bytesOf(spec.type)));
  params.count = planted.count;
  params.type = spec.type;
  params.mean = planted.value;
  params.deviation = 0;
  params.rowLength = 1;
  return tools->fillNormal(params, stream);
}

/// Gaps between rows keep the poison, which is not a valid length or index.
llvm::Error TrialBuffers::fillIntegers(size_t operand, DeviceAddress at,
                                       CudaStream stream) const {
  const OperandSpec &spec = operandTable.operands[operand];
  FillIntegersParams params;
  params.data = reinterpret_cast<void *>(at);
  params.type = spec.type;
  params.layout = layoutOf(spec).distinct();
  params.values.init = spec.init(data).integers;
  params.values.differ = data == TrialData::Outliers;
  params.values.count = params.layout.rowCount() * params.layout.cols;
  params.values.seed = seedOf(operand);
  return tools->fillIntegers(params, stream);
}

llvm::Error TrialBuffers::prepare(CudaStream stream) const {
  for (size_t i = 0; i < areas.size(); ++i)
    if (llvm::Error error = fillArea(i, 0, stream))
      return error;
  return llvm::Error::success();
}

/// Saves the content of outputs from before any run, if they are read.
llvm::Error TrialBuffers::savePristine(CudaStream stream) const {
  const DeviceAddress base = arena.address();
  for (const TrialOutput &output : outputs()) {
    if (!isRead(output))
      continue;
    const Area &area = areaOf(output);
    if (llvm::Error error =
            copyOnDevice(*driver, base + output.pristineAt, base + area.begin,
                         area.allBytes(), stream))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error TrialBuffers::renew(CudaStream stream) {
  ++renewals;
  if (llvm::Error error = prepare(stream))
    return error;
  return savePristine(stream);
}

llvm::Error TrialBuffers::prepareOutputs(CudaStream stream) const {
  for (const TrialOutput &output : outputs())
    if (llvm::Error error =
            fillArea(static_cast<size_t>(output.operand), 0, stream))
      return error;
  return llvm::Error::success();
}

llvm::Error TrialBuffers::saveOutputs(CudaStream stream) const {
  for (const TrialOutput &output : outputs())
    if (llvm::Error error =
            copyOnDevice(*driver, arena.address() + output.savedAt,
                         arena.address() + areaOf(output).begin,
                         areaOf(output).allBytes(), stream))
      return error;
  return llvm::Error::success();
}

llvm::Error TrialBuffers::checkZone(DeviceAddress begin, uint64_t bytes,
                                    unsigned pattern, CudaStream stream) const {
  CheckRedZoneParams params;
  params.data = reinterpret_cast<const void *>(begin);
  params.bytes = static_cast<long long>(bytes);
  params.pattern = pattern;
  params.differing = reinterpret_cast<unsigned long long *>(
      findings() + offsetof(TrialFindings, outside));
  return tools->checkRedZone(params, stream);
}

llvm::Error TrialBuffers::checkBounds(CudaStream stream) const {
  DeviceAddress base = arena.address();
  for (size_t i = 0; i < areas.size(); ++i) {
    const Area &area = areas[i];
    if (area.bytes == 0)
      continue;
    unsigned pattern = poisonOf(operandTable.operands[i].type);
    uint64_t behind = area.data + area.bytes;
    if (llvm::Error error = checkZone(base + area.begin, area.data - area.begin,
                                      pattern, stream))
      return error;
    if (llvm::Error error =
            checkZone(base + behind, area.end - behind, pattern, stream))
      return error;
  }
  for (const TrialOutput &output : outputs()) {
    // The gaps between rows of an output that is read hold data.
    if (isRead(output))
      continue;
    if (llvm::Error error = checkGaps(output, stream))
      return error;
  }
  return llvm::Error::success();
}

/// Checks the gaps between the rows, planes and batches of an output.
llvm::Error TrialBuffers::checkGaps(const TrialOutput &output,
                                    CudaStream stream) const {
  const OperandSpec &spec = specOf(output);
  if (occupiedBytes(spec) == spec.bytes())
    return llvm::Error::success();
  CheckGapsParams params;
  params.data = reinterpret_cast<const void *>(addressOf(output));
  params.type = spec.type;
  params.grid = gridOf(layoutOf(spec));
  params.pattern = poisonOf(spec.type);
  params.differing = reinterpret_cast<unsigned long long *>(
      findings() + offsetof(TrialFindings, outside));
  return tools->checkGaps(params, stream);
}

llvm::Error TrialBuffers::compareWithSaved(CudaStream stream) const {
  for (size_t i = 0; i < writtenOperands.size(); ++i) {
    const TrialOutput &output = writtenOperands[i];
    const Area &area = areaOf(output);
    CountDifferencesParams params;
    params.left =
        reinterpret_cast<const void *>(arena.address() + output.savedAt);
    params.right = reinterpret_cast<const void *>(arena.address() + area.begin);
    params.bytes = static_cast<long long>(area.allBytes());
    params.differing = reinterpret_cast<unsigned long long *>(
        findings() + offsetof(TrialFindings, differing) +
        i * sizeof(TrialFindings::differing[0]));
    if (llvm::Error error = tools->countDifferences(params, stream))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error TrialBuffers::resetFindings(CudaStream stream) const {
  static constexpr TrialFindings kNone;
  return copyToDeviceAsync(*driver, findings(), &kNone, sizeof(kNone), stream);
}

llvm::Error TrialBuffers::flush(CudaStream stream) const {
  FlushL2Params params;
  params.data = reinterpret_cast<void *>(arena.address() + flushAt);
  params.bytes = static_cast<long long>(flushBytes);
  return tools->flushL2(params, stream);
}

} // namespace kiln
