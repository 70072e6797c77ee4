//===- TrialBuffers.h - operands of a trial in memory of its own ----------===//
//
// From the operand table alone. Memory is one allocation, cut up so:
//
//   copy 0 | copy 1 | ... | saved output | reference | flush | findings
//
// A copy holds a slot for each operand: a red zone, the operand as far past a
// 256-byte boundary as its problem says, another red zone. All that is not
// input is filled with 0xff bytes, NaN in every floating type, so that an
// element that is not written and a read that matters show as wrong results.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Kernel/Family.h"
#include "Tune/TrialTools.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

/// What red zones and unwritten outputs hold.
inline constexpr unsigned kTrialPoison = 0xffffffffu;
inline constexpr uint64_t kRedZoneBytes = 4096;

/// Results of the checks of one validation, in device memory. Both start at 0
/// but `compare` as its type says.
struct TrialFindings {
  CompareResult compare;
  unsigned long long outside = 0;   ///< bytes changed outside of operands
  unsigned long long differing = 0; ///< bytes that differ from run to run
};

struct TrialBufferOptions {
  uint64_t capBytes = 0; ///< what all of it may take
  /// Copies to rotate over and a buffer to flush with; false: one copy.
  bool forTiming = true;
  int64_t l2Bytes = 0;
};

/// The operands of one problem. Work is enqueued on the stream given; nothing
/// waits. Not thread-safe.
class TrialBuffers {
public:
  /// Allocates and enqueues the initialisation of every copy, with the same
  /// data in each. \p arena is memory of an earlier problem, taken over where
  /// it suffices. \p driver, \p tools, \p family and \p problem must outlive
  /// it. Errors: DeviceOutOfMemory when not even one copy fits the cap,
  /// Unsupported for a type that nothing can initialise.
  static llvm::Expected<TrialBuffers>
  create(const Driver &driver, const TrialTools &tools,
         const KernelFamily &family, const Problem &problem,
         const TrialBufferOptions &options, DeviceMemory arena,
         CudaStream stream);

  /// Arguments that point into copy \p copy.
  Arguments arguments(unsigned copy) const;
  /// Arguments for the reference: as copy 0, but what the output also reads is
  /// as it was before any run.
  Arguments referenceArguments() const;

  unsigned copies() const { return copyCount; }
  /// The copies do not exceed the L2: flush() before a sample.
  bool needsFlush() const { return flushNeeded; }
  /// Streams through a buffer of its own; nothing where there was no room.
  llvm::Error flush(CudaStream stream) const;

  /// Fills copy 0 anew: inputs, poison and red zones.
  llvm::Error prepare(CudaStream stream) const;
  /// Fills the output of copy 0 anew, red zones included.
  llvm::Error prepareOutput(CudaStream stream) const;
  llvm::Error saveOutput(CudaStream stream) const;

  /// Adds to findings().outside what changed in the red zones of copy 0 and
  /// between the rows of its output.
  llvm::Error checkBounds(CudaStream stream) const;
  /// Adds to findings().differing where the output is not what was saved.
  llvm::Error compareWithSaved(CudaStream stream) const;
  llvm::Error resetFindings(CudaStream stream) const;
  /// Where TrialFindings lie on the device.
  DeviceAddress findings() const { return arena.address() + findingsAt; }

  const OperandTable &table() const { return operandTable; }
  const OperandSpec &output() const {
    return operandTable.operands[operandTable.output];
  }
  /// Rows of the output over all batches.
  int64_t outputRows() const { return output().rows * output().batch; }
  /// Rows that the reference's memory holds at once.
  int64_t referenceRows() const { return slabRows; }
  DeviceAddress referenceValues() const {
    return arena.address() + referenceAt;
  }
  DeviceAddress referenceBounds() const;
  /// Where copy 0's output begins.
  DeviceAddress outputAddress() const {
    return arena.address() + outputSlot().data;
  }
  /// Address of element \p index, row * cols + column, of the saved output.
  DeviceAddress savedElement(uint64_t index) const;

  /// Hands the memory on; the object is of no use then.
  DeviceMemory takeArena() { return std::move(arena); }
  /// Leaves the memory to its context.
  void leak() { arena.leak(); }

private:
  struct Slot {
    uint64_t begin = 0; ///< in the copy, a multiple of 256
    uint64_t data = 0;  ///< of the operand, in the copy
    uint64_t bytes = 0; ///< of the operand; 0: not present
    uint64_t end = 0;   ///< in the copy, behind the red zone
  };

  TrialBuffers(const Driver &driver, const TrialTools &tools,
               const KernelFamily &family, const Problem &problem)
      : driver(&driver), tools(&tools), family(&family), problem(&problem),
        operandTable(family.operands(problem)) {}
  llvm::Error checkTable() const;
  void layOutCopy();
  llvm::Error layOut(const TrialBufferOptions &options);
  llvm::Error fillSlot(size_t operand, uint64_t copyAt,
                       CudaStream stream) const;
  llvm::Error checkZone(DeviceAddress begin, uint64_t bytes, uint64_t zones,
                        uint64_t pitch, CudaStream stream) const;
  llvm::Error checkPadding(CudaStream stream) const;
  const Slot &outputSlot() const { return slots[operandTable.output]; }
  bool isOutputRead() const { return output().role == OperandRole::InOut; }

  const Driver *driver;
  const TrialTools *tools;
  const KernelFamily *family;
  const Problem *problem;
  OperandTable operandTable;
  DeviceMemory arena;
  llvm::SmallVector<Slot, 8> slots;
  uint64_t copyBytes = 0, dataBytes = 0;
  unsigned copyCount = 1;
  bool flushNeeded = false;
  int64_t slabRows = 0;
  // Offsets in the arena.
  uint64_t savedAt = 0, pristineAt = 0, referenceAt = 0, flushAt = 0;
  uint64_t flushBytes = 0, findingsAt = 0, totalBytes = 0;
};

} // namespace kiln
