//===- StepInputs.h - what a step reads besides weights and caches --------===//
//
// Token ids, positions, lengths, the page table and the sampler's parameters,
// in device memory at fixed addresses, so that captured graphs find them. The
// host writes a pinned mirror of them. A decoding step feeds itself: it writes
// the next ids and increases positions and lengths, and advance() does the same
// to the mirror, whose ids are pending then. Only what differs from the device
// is copied: a step that goes on with the sequences of the last one needs no
// copy, and no token on the host.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_STEPINPUTS_H
#define KILN_EXAMPLES_LLAMA_STEPINPUTS_H

#include "Gpu.h"
#include "Scheduler.h"

#include <cstdint>

namespace llama {

/// The room of the arrays.
struct StepRoom {
  int64_t tokens = 0;    ///< of a step
  int64_t sequences = 0; ///< of a step
  int64_t columns = 0;   ///< pages of a sequence
};

/// The arrays, in device memory or in the mirror.
struct StepArrays {
  int32_t *count; ///< [1]: tokens of sequences; the rows behind are padding
  int32_t *tokens, *positions, *sequences; ///< [tokens]; sequences: the row of
                                           ///< the page table of each token
  int32_t *lengths;                        ///< [sequences]
  int32_t *queryOffsets;                   ///< [sequences + 1], of prefills
  int32_t *sampleRows, *samplePositions;   ///< [sequences]
  float *temperature, *topP;
  int32_t *topK;
  uint64_t *seeds;
  int32_t *pageTable; ///< [sequences][columns]
};

/// Not thread-safe.
class StepInputs {
public:
  StepInputs(const Gpu &gpu, const StepRoom &room);

  const StepRoom &room() const { return size; }
  const StepArrays &device() const { return onDevice; }

  /// Writes decodes as sequences 0 to decodes - 1, padded to \p bucket, and
  /// enqueues the copy of what differs.
  void setDecodes(const Step &step, int64_t bucket);
  /// Writes a step with prefills: tokens of decodes, then of prefills.
  void setMixed(const Step &step);
  /// Notes what a decoding step of \p bucket sequences does to the arrays.
  void advance(int64_t bucket);

private:
  static StepArrays arraysAt(char *base, const StepRoom &room, uint64_t *bytes);
  void setSequence(int64_t row, const ScheduledSequence &sequence);
  void pad(int64_t row);
  void setPages(int64_t row, View<PageId> pages);
  void put(int32_t &field, int32_t value);
  void enqueueCopies();

  const Gpu &gpu;
  StepRoom size;
  uint64_t smallBytes = 0; ///< all but the page table
  PinnedMemory pinned;
  DeviceMemory memory;
  StepArrays mirror{}, onDevice{};
  bool hasChanged = true;
  int64_t firstRow = 0, endRow = 0; ///< rows of the page table that changed
  Event copied;
  bool isCopying = false;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_STEPINPUTS_H
