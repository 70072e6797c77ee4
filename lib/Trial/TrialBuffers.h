//===- TrialBuffers.h - operands of a trial in their own memory -----------===//
//
// Everything follows from the operand table. Memory is one allocation with
// these parts:
//
//   copy 0 | copy 1 | ... | saved outputs | reference | flush | findings
//
// A copy holds an area for each operand: a red zone, the operand as far past a
// 256-byte boundary as its problem says, another red zone. All memory except
// inputs is filled with poison (see poisonOf), so that unwritten elements and
// reads outside of operands give wrong results.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Kernel/Family.h"
#include "Trial/TrialRunner.h"
#include "Trial/TrialTools.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

/// Cold operands rotate over copies whose data exceed the L2 by this factor, or
/// the cache is flushed. Under a cyclic sweep the L2 does not drop its oldest
/// lines first but keeps a part of them: over eight times its size, reductions
/// on an H200 still found a seventh of their data there and seemed to beat the
/// DRAM's peak.
inline constexpr int64_t kColdFactor = 32;

/// The content of red zones and unwritten outputs: NaN in every floating type.
inline constexpr unsigned kTrialPoison = 0xffffffffu;
inline constexpr uint64_t kRedZoneBytes = 4096;

/// The poison of an operand of \p type, four times a byte that no right result
/// has. For int8 that is -128, because kernels clamp to +-127.
constexpr unsigned poisonOf(DType type) {
  return type == DType::INT8 ? 0x80808080u : kTrialPoison;
}

/// The results of the checks of one validation, in device memory, for each
/// output in the order of TrialBuffers::outputs(). Counts start at 0.
struct TrialFindings {
  static constexpr int kMaxOutputs = Arguments::kMaxOperands;
  CompareResult compare[kMaxOutputs];
  /// Bytes that differ from run to run.
  unsigned long long differing[kMaxOutputs] = {};
  unsigned long long outside = 0; ///< bytes changed outside of operands
};

/// A written operand and the data of its comparison.
struct TrialOutput {
  int operand = 0;  ///< its index in the table
  int64_t rows = 0; ///< over all planes and batches
  /// The number of rows that the reference's memory holds at once.
  int64_t referenceRows = 0;
  /// Offsets in the memory: the output of the last run, the content before any
  /// run (for operands that are read as well), and the reference's values.
  uint64_t savedAt = 0, pristineAt = 0, referenceAt = 0;
};

struct TrialBufferOptions {
  uint64_t capBytes = 0; ///< the limit of all memory
  /// The part of the limit that is left for workspaces if the problem fits all
  /// the same.
  uint64_t spareBytes = 0;
  TrialData data = TrialData::Usual;
  PlantedValue planted; ///< in an operand of reals
  /// Copies to rotate over and a buffer to flush with; false: one copy.
  bool forTiming = true;
  int64_t l2Bytes = 0;
  /// Operands with an alignment of their own (OperandSpec::alignment) instead
  /// of the problem's promise begin at multiples of 256 bytes: a library that
  /// runs on the same buffers may need more than Kiln.
  bool alignsTables = false;
  MemoryPool *pool = nullptr; ///< the source of the memory; null: the driver's
                              ///< allocation
  ByteGaugePtr gauge = nullptr; ///< counts the driver's allocation
};

/// The operands of one problem. Work is enqueued on the given stream, without
/// waiting. Not thread-safe.
class TrialBuffers {
public:
  /// Allocates and enqueues the initialisation of every copy, with the same
  /// data in each. \p driver, \p tools, \p family and \p problem must outlive
  /// it. Errors: DeviceOutOfMemory when not even one copy fits the cap,
  /// Unsupported for a type that the tools cannot initialise.
  static llvm::Expected<TrialBuffers>
  create(const Driver &driver, const TrialTools &tools,
         const KernelFamily &family, const Problem &problem,
         const TrialBufferOptions &options, CudaStream stream);

  /// Arguments that point into copy \p copy.
  Arguments arguments(unsigned copy) const;
  /// Arguments for the reference: like those of copy 0, but an output that is
  /// also read has its content from before any run.
  Arguments referenceArguments() const;

  unsigned copies() const { return copyCount; }
  /// Whether the copies do not exceed the L2, so that flush() is needed before
  /// a sample.
  bool needsFlush() const { return flushNeeded; }
  /// Writes a buffer of its own to empty the L2; does nothing if there was no
  /// room for it.
  llvm::Error flush(CudaStream stream) const;

  /// Fills copy 0 again: inputs, poison and red zones.
  llvm::Error prepare(CudaStream stream) const;
  /// Fills copy 0 with other data of the same kind; results that were computed
  /// from it become invalid.
  llvm::Error renew(CudaStream stream);
  /// Fills the outputs of copy 0 again, red zones included.
  llvm::Error prepareOutputs(CudaStream stream) const;
  llvm::Error saveOutputs(CudaStream stream) const;

  /// Adds bytes that changed in the red zones of copy 0, and between the rows
  /// of its outputs, to findings().outside.
  llvm::Error checkBounds(CudaStream stream) const;
  /// Like checkBounds(), for \p bytes bytes that should hold \p pattern.
  llvm::Error checkZone(DeviceAddress begin, uint64_t bytes, unsigned pattern,
                        CudaStream stream) const;
  /// Adds bytes of outputs that differ from the saved ones to
  /// findings().differing.
  llvm::Error compareWithSaved(CudaStream stream) const;
  llvm::Error resetFindings(CudaStream stream) const;
  /// The address of TrialFindings on the device.
  DeviceAddress findings() const { return arena.address() + findingsAt; }

  const OperandTable &table() const { return operandTable; }
  /// The written operands, in the table's order; at least one.
  llvm::ArrayRef<TrialOutput> outputs() const { return writtenOperands; }
  const OperandSpec &specOf(const TrialOutput &output) const {
    return operandTable.operands[static_cast<size_t>(output.operand)];
  }
  /// Whether the reference's memory holds all rows of all outputs; otherwise it
  /// holds one slab of one output at a time.
  bool holdsReference() const { return referenceFits; }
  DeviceAddress referenceValues(const TrialOutput &output) const {
    return arena.address() + output.referenceAt;
  }
  DeviceAddress referenceBounds(const TrialOutput &output) const;
  /// The address of copy 0's operand.
  DeviceAddress addressOf(const TrialOutput &output) const {
    return arena.address() + areaOf(output).data;
  }
  /// The address of its content from before any run; 0: it was poison.
  DeviceAddress pristineOf(const TrialOutput &output) const {
    const Area &area = areaOf(output);
    return isRead(output)
               ? arena.address() + output.pristineAt + area.data - area.begin
               : 0;
  }
  /// The address of the saved element \p index, row * cols + column.
  DeviceAddress savedElement(const TrialOutput &output, uint64_t index) const;

  /// The size of the memory.
  uint64_t bytes() const { return arena.bytes(); }
  /// Leaves the memory to its context.
  void leak() { arena.leak(); }

private:
  struct Area {
    uint64_t begin = 0; ///< in the copy, a multiple of 256
    uint64_t data = 0;  ///< of the operand, in the copy
    uint64_t bytes = 0; ///< of the operand; 0: not present
    uint64_t end = 0;   ///< in the copy, behind the red zone

    uint64_t allBytes() const { return end - begin; }
  };

  TrialBuffers(const Driver &driver, const TrialTools &tools,
               const KernelFamily &family, const Problem &problem,
               TrialData data, const PlantedValue &planted)
      : driver(&driver), tools(&tools), family(&family), problem(&problem),
        data(data), planted(planted), operandTable(family.operands(problem)) {}
  llvm::Error checkTable() const;
  void layOutCopy(bool alignsTables);
  uint64_t layOutOutputs();
  uint64_t layOutReference(uint64_t left);
  llvm::Error layOut(const TrialBufferOptions &options);
  llvm::Error fillArea(size_t operand, uint64_t copyAt,
                       CudaStream stream) const;
  llvm::Error fillIntegers(size_t operand, DeviceAddress at,
                           CudaStream stream) const;
  llvm::Error plant(DeviceAddress at, CudaStream stream) const;
  llvm::Error checkGaps(const TrialOutput &output, CudaStream stream) const;
  llvm::Error savePristine(CudaStream stream) const;
  uint64_t seedOf(size_t operand) const {
    return operand + 1 + renewals * areas.size();
  }
  const Area &areaOf(const TrialOutput &output) const {
    return areas[static_cast<size_t>(output.operand)];
  }
  bool isRead(const TrialOutput &output) const {
    return specOf(output).role == OperandRole::InOut;
  }
  uint64_t largestReferenceRow() const;

  const Driver *driver;
  const TrialTools *tools;
  const KernelFamily *family;
  const Problem *problem;
  TrialData data;
  PlantedValue planted;
  OperandTable operandTable;
  DeviceMemory arena;
  llvm::SmallVector<Area, 8> areas;
  llvm::SmallVector<TrialOutput, 2> writtenOperands;
  uint64_t copyBytes = 0, dataBytes = 0;
  unsigned copyCount = 1;
  uint64_t renewals = 0; ///< calls of renew()
  bool flushNeeded = false, referenceFits = false;
  // Offsets in the arena.
  uint64_t flushAt = 0;
  uint64_t flushBytes = 0, findingsAt = 0, totalBytes = 0;
};

} // namespace kiln
