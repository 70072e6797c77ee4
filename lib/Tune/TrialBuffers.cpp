//===- TrialBuffers.cpp - operands of a trial in memory of its own --------===//
#include "Tune/TrialBuffers.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace kiln {

static constexpr uint64_t kAlignment = 256;
/// Copies beyond which emptying the cache is cheaper than more of them.
static constexpr uint64_t kMaxCopies = 64;
/// The copies' data exceed the L2 by this factor, or the cache is flushed.
static constexpr int64_t kColdFactor = 3;
/// What TrialFindings may take.
static constexpr uint64_t kFindingsBytes = 256;
static_assert(sizeof(TrialFindings) <= kFindingsBytes);

static uint64_t alignUp(uint64_t bytes) {
  return llvm::alignTo(bytes, kAlignment);
}

/// What kilnFillNormal can fill.
static bool isFloating(DType type) {
  return type == DType::FP64 || type == DType::FP32 || type == DType::FP16 ||
         type == DType::BF16;
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

llvm::Error TrialBuffers::checkTable() const {
  for (const OperandSpec &operand : operandTable.operands)
    if (operand.bytes() != 0 && !isFloating(operand.type))
      return makeError(ErrorCode::Unsupported,
                       "{}: trials cannot fill operand {} of {}-bit integers "
                       "or narrow floats",
                       family->name(), operand.name, bitsOf(operand.type));
  if (operandTable.output < 0 || output().bytes() == 0)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: the problem has no output to try", family->name());
  return llvm::Error::success();
}

/// Places the operands in a copy.
void TrialBuffers::layOutCopy() {
  for (const OperandSpec &operand : operandTable.operands) {
    Slot slot;
    slot.begin = copyBytes;
    slot.bytes = static_cast<uint64_t>(operand.bytes());
    if (slot.bytes != 0) {
      slot.data = slot.begin + kRedZoneBytes +
                  static_cast<uint64_t>(operand.misalignment);
      // Vectors of 16 bytes may be read to their end.
      slot.end =
          alignUp(llvm::alignTo(slot.data + slot.bytes, 16) + kRedZoneBytes);
      dataBytes += slot.bytes;
      copyBytes = slot.end;
    }
    slots.push_back(slot);
  }
}

/// Shares the cap out: one copy and what validation needs, the reference, then
/// as many copies as make a sample cold.
llvm::Error TrialBuffers::layOut(const TrialBufferOptions &options) {
  layOutCopy();
  uint64_t outputBytes = outputSlot().end - outputSlot().begin;
  uint64_t rowBytes = static_cast<uint64_t>(output().cols) * 2 * sizeof(double);
  uint64_t fixed = copyBytes + outputBytes * (isOutputRead() ? 2 : 1) +
                   kFindingsBytes + 2 * kAlignment;
  if (fixed + rowBytes > options.capBytes)
    return makeError(ErrorCode::DeviceOutOfMemory,
                     "{}: trials need {} bytes of device memory, {} are "
                     "allowed",
                     problem->text(), fixed + rowBytes, options.capBytes);
  uint64_t left = options.capBytes - fixed;
  // All rows if they leave as much for copies, else slabs.
  uint64_t rowsThatFit = std::max<uint64_t>(left / 2 / rowBytes, 1);
  slabRows = std::min<int64_t>(static_cast<int64_t>(rowsThatFit), outputRows());
  uint64_t referenceBytes = alignUp(static_cast<uint64_t>(slabRows) * rowBytes);
  left -= std::min(left, referenceBytes);
  if (options.forTiming) {
    auto l2Bytes = static_cast<uint64_t>(options.l2Bytes);
    flushBytes = std::min(2 * l2Bytes, left / 2) / kAlignment * kAlignment;
    uint64_t wanted = llvm::divideCeil(kColdFactor * l2Bytes, dataBytes);
    wanted = std::max<uint64_t>(wanted, 1);
    uint64_t room = 1 + (left - flushBytes) / copyBytes;
    copyCount = static_cast<unsigned>(std::min({wanted, kMaxCopies, room}));
    flushNeeded = copyCount < wanted && flushBytes != 0;
  }
  savedAt = copyBytes * copyCount;
  pristineAt = savedAt + outputBytes;
  referenceAt = pristineAt + (isOutputRead() ? outputBytes : 0);
  flushAt = referenceAt + referenceBytes;
  findingsAt = flushAt + flushBytes;
  totalBytes = findingsAt + kFindingsBytes;
  return llvm::Error::success();
}

llvm::Expected<TrialBuffers>
TrialBuffers::create(const Driver &driver, const TrialTools &tools,
                     const KernelFamily &family, const Problem &problem,
                     const TrialBufferOptions &options, DeviceMemory arena,
                     CudaStream stream) {
  TrialBuffers buffers(driver, tools, family, problem);
  if (llvm::Error error = buffers.checkTable())
    return error;
  if (llvm::Error error = buffers.layOut(options))
    return error;
  if (arena.bytes() < buffers.totalBytes) {
    arena = DeviceMemory(); // first, so that both never exist at once
    auto fresh = DeviceMemory::allocate(driver, buffers.totalBytes);
    if (!fresh)
      return addContext(fresh.takeError(), "scratch memory of trials");
    arena = std::move(*fresh);
  }
  buffers.arena = std::move(arena);
  if (llvm::Error error = buffers.prepare(stream))
    return error;
  const DeviceAddress base = buffers.arena.address();
  for (unsigned copy = 1; copy < buffers.copyCount; ++copy)
    if (llvm::Error error =
            copyOnDevice(driver, base + copy * buffers.copyBytes, base,
                         buffers.copyBytes, stream))
      return error;
  if (buffers.isOutputRead())
    if (llvm::Error error = copyOnDevice(
            driver, base + buffers.pristineAt,
            base + buffers.outputSlot().begin,
            buffers.outputSlot().end - buffers.outputSlot().begin, stream))
      return error;
  return buffers;
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Arguments TrialBuffers::arguments(unsigned copy) const {
  Arguments arguments = family->defaultArguments(*problem);
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].bytes != 0)
      arguments.operands[i].address =
          arena.address() + copy * copyBytes + slots[i].data;
  return arguments;
}

Arguments TrialBuffers::referenceArguments() const {
  Arguments arguments = this->arguments(0);
  if (isOutputRead())
    arguments.operands[operandTable.output].address =
        arena.address() + pristineAt + outputSlot().data - outputSlot().begin;
  return arguments;
}

DeviceAddress TrialBuffers::referenceBounds() const {
  return referenceValues() + static_cast<uint64_t>(slabRows) *
                                 static_cast<uint64_t>(output().cols) *
                                 sizeof(double);
}

DeviceAddress TrialBuffers::savedElement(uint64_t index) const {
  const OperandSpec &spec = output();
  int64_t row = static_cast<int64_t>(index) / spec.cols;
  int64_t column = static_cast<int64_t>(index) % spec.cols;
  int64_t element = row / spec.rows * spec.batchStride +
                    row % spec.rows * spec.leadingDimension + column;
  return arena.address() + savedAt + outputSlot().data - outputSlot().begin +
         static_cast<uint64_t>(element * bytesOf(spec.type));
}

//===----------------------------------------------------------------------===//
// Filling and checking
//===----------------------------------------------------------------------===//

llvm::Error TrialBuffers::fillSlot(size_t operand, uint64_t copyAt,
                                   CudaStream stream) const {
  const OperandSpec &spec = operandTable.operands[operand];
  const Slot &slot = slots[operand];
  if (slot.bytes == 0)
    return llvm::Error::success();
  DeviceAddress base = arena.address() + copyAt;
  FillPatternParams poison;
  poison.data = reinterpret_cast<void *>(base + slot.begin);
  poison.bytes = static_cast<long long>(slot.end - slot.begin);
  poison.pattern = kTrialPoison;
  if (llvm::Error error = tools->fillPattern(poison, stream))
    return error;
  if (spec.role == OperandRole::Out)
    return llvm::Error::success();
  if (spec.init == OperandInit::Zero)
    return fillAsync(*driver, base + slot.data, 0, slot.bytes, stream);
  FillNormalParams normal;
  normal.data = reinterpret_cast<void *>(base + slot.data);
  normal.count = static_cast<long long>(slot.bytes) / bytesOf(spec.type);
  normal.seed = operand + 1;
  normal.type = spec.type;
  normal.mantissaBits = spec.mantissaBits;
  return tools->fillNormal(normal, stream);
}

llvm::Error TrialBuffers::prepare(CudaStream stream) const {
  for (size_t i = 0; i < slots.size(); ++i)
    if (llvm::Error error = fillSlot(i, 0, stream))
      return error;
  return llvm::Error::success();
}

llvm::Error TrialBuffers::prepareOutput(CudaStream stream) const {
  return fillSlot(static_cast<size_t>(operandTable.output), 0, stream);
}

llvm::Error TrialBuffers::saveOutput(CudaStream stream) const {
  return copyOnDevice(*driver, arena.address() + savedAt,
                      arena.address() + outputSlot().begin,
                      outputSlot().end - outputSlot().begin, stream);
}

llvm::Error TrialBuffers::checkZone(DeviceAddress begin, uint64_t bytes,
                                    uint64_t zones, uint64_t pitch,
                                    CudaStream stream) const {
  CheckRedZoneParams params;
  params.data = reinterpret_cast<const void *>(begin);
  params.bytes = static_cast<long long>(bytes);
  params.zones = static_cast<long long>(zones);
  params.pitch = static_cast<long long>(pitch);
  params.pattern = kTrialPoison;
  params.differing = reinterpret_cast<unsigned long long *>(
      findings() + offsetof(TrialFindings, outside));
  return tools->checkRedZone(params, stream);
}

llvm::Error TrialBuffers::checkBounds(CudaStream stream) const {
  DeviceAddress base = arena.address();
  for (const Slot &slot : slots) {
    if (slot.bytes == 0)
      continue;
    uint64_t behind = slot.data + slot.bytes;
    if (llvm::Error error =
            checkZone(base + slot.begin, slot.data - slot.begin, 1, 0, stream))
      return error;
    if (llvm::Error error =
            checkZone(base + behind, slot.end - behind, 1, 0, stream))
      return error;
  }
  // Between the rows of an output that is read lies data.
  return isOutputRead() ? llvm::Error::success() : checkPadding(stream);
}

/// What lies behind each row of the output, and between its batches.
llvm::Error TrialBuffers::checkPadding(CudaStream stream) const {
  const OperandSpec &spec = output();
  auto elementBytes = static_cast<uint64_t>(bytesOf(spec.type));
  auto rows = static_cast<uint64_t>(spec.rows);
  auto batch = static_cast<uint64_t>(spec.batch);
  uint64_t rowBytes = static_cast<uint64_t>(spec.cols) * elementBytes;
  uint64_t pitch = static_cast<uint64_t>(spec.leadingDimension) * elementBytes;
  uint64_t batchPitch = static_cast<uint64_t>(spec.batchStride) * elementBytes;
  DeviceAddress data = arena.address() + outputSlot().data;
  if (batchPitch == rows * pitch) // one row after the other
    return checkZone(data + rowBytes, pitch - rowBytes, rows * batch - 1, pitch,
                     stream);
  for (uint64_t i = 0; pitch > rowBytes && i < batch; ++i)
    if (llvm::Error error =
            checkZone(data + i * batchPitch + rowBytes, pitch - rowBytes,
                      rows - 1, pitch, stream))
      return error;
  uint64_t batchBytes = (rows - 1) * pitch + rowBytes;
  if (batch < 2 || batchPitch <= batchBytes)
    return llvm::Error::success();
  return checkZone(data + batchBytes, batchPitch - batchBytes, batch - 1,
                   batchPitch, stream);
}

llvm::Error TrialBuffers::compareWithSaved(CudaStream stream) const {
  CountDifferencesParams params;
  params.left = reinterpret_cast<const void *>(arena.address() + savedAt);
  params.right =
      reinterpret_cast<const void *>(arena.address() + outputSlot().begin);
  params.bytes = static_cast<long long>(outputSlot().end - outputSlot().begin);
  params.differing = reinterpret_cast<unsigned long long *>(
      findings() + offsetof(TrialFindings, differing));
  return tools->countDifferences(params, stream);
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
