//===- allreduce.h - sums over the GPUs of a host -------------------------===//
//
// The struct of kiln_allreduce: the sum of small matrices over the ranks of a
// group, for tensor parallelism, with the residual add and the RMSNorm that
// follow it. Included by kiln.h, whose head states the rules that all of it
// follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ALLREDUCE_H
#define KILN_ALLREDUCE_H

#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The most ranks of a group.
#define KILN_ALLREDUCE_MOST_RANKS 8

/// The first word of exchange memory after a call whose exchange_bytes is not
/// that of earlier calls.
#define KILN_ALLREDUCE_BYTES_DIFFER 256

/// h = x of rank 0 + x of rank 1 + ... [+ residual] on every rank of a group,
/// each of which makes the same call with its own x. Without weight y is h;
/// with it y = h / sqrt(mean(h^2) + epsilon) * weight of each row, and h is
/// stored to residual_out where there is a residual.
///
/// Sums are fp32, in the order of ranks, and h is rounded once to x's type.
/// Every rank gets the same bits if residual and weight have the same on every
/// rank. A NaN may become another NaN.
///
/// x, y, residual and residual_out are rows x cols, weight has cols values; all
/// have x's type: bf16, fp16 or fp32. Shapes, vectors and optional operands are
/// as the head of rows.h says. y may be x, and residual_out may be residual.
///
/// Exchange memory. Each rank has device memory that all ranks of the group
/// write: `exchange` has the addresses, in the order of ranks, as this process
/// knows them. The caller makes it, of exchange_bytes, aligned to 256 bytes:
/// cuMemAlloc on each rank, and cuIpcGetMemHandle and cuIpcOpenMemHandle, or
/// exportable memory of cuMemCreate, for the others. Before the first call it
/// is set to zero on all ranks, and then all ranks wait for each other.
/// kiln_allreduce_exchange_bytes() tells how much lets a call move all of its
/// rows at once. Less works: rows are then taken in several rounds. One
/// exchange memory serves calls of any shape and type that follow each other:
/// on each rank they are ordered by a stream, and all ranks make the same calls
/// in the same order. Calls may be captured, and graphs replayed, as long as
/// that holds. All of these calls have the same exchange_bytes, whatever their
/// rows, because the places of data follow from it.
///
/// Groups. Ranks that wait in two exchange memories, each for another one, are
/// missing for each other. So calls with different exchange memories that may
/// be in flight on a GPU at once begin in the same order on all ranks, for
/// example in one stream.
///
/// Waiting. The kernel waits on the GPU for the inputs of all ranks. A rank
/// that does not come within 2 seconds is an error, and nothing hangs: within 4
/// seconds the first word (uint32) of the exchange memory of each rank becomes
/// 1 + a rank that is missing, y and residual_out of this call and of all later
/// ones are not defined, and later calls wait for nothing. So the host reads
/// that word where it synchronises. It is KILN_ALLREDUCE_BYTES_DIFFER after a
/// call with other exchange_bytes. A debugger or a profiler that stops a
/// kernel, or launches it again, makes its rank miss the others.
///
/// To go on after an error, all ranks synchronise and then wait for each other,
/// since a rank whose kernels have not ended may still write to its peers. Then
/// they set their memory to zero, and wait for each other again. Memory is
/// freed in the same way: not before all ranks have synchronised.
///
/// Kernels have to be there before the first call, because compilations, and
/// trials in the mode tune, take longer than ranks may be apart: each rank
/// prepares all rows that it will have (kiln_prepare with a range), then all
/// ranks wait for each other. An engine of KILN_DETERMINISM_FROZEN_CHOICE makes
/// no trials.
///
/// Choices. All ranks have to run the same kernel. A problem has one config,
/// which follows from cols, so that is so in every mode and whatever trials
/// measured. Which rank a call is for is not a part of the problem. Trials, and
/// launches with kiln_arguments, which have no exchange memory (kiln_run,
/// kiln_plan_launch), run alone: the rank's own x stands for those of its
/// peers. kiln_plan_launch_call takes this struct.
///
/// Ranges of a problem (kiln_range) are of "rows". epsilon must be set: zero
/// means zero. kiln_allreduce_args_init() gives it as 1e-5.
typedef struct kiln_allreduce_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t rows, cols;
  int32_t ranks;  ///< 2 to KILN_ALLREDUCE_MOST_RANKS
  int32_t rank;   ///< of this call
  double epsilon; ///< not negative
  kiln_operand x;
  kiln_operand y;
  kiln_operand weight; ///< cols values
  kiln_operand residual;
  kiln_operand residual_out; ///< with residual and weight, and only then
  /// `ranks` device addresses, in host memory; null where the problem is only
  /// described.
  void *const *exchange;
  /// The bytes of each rank's memory: the same on all ranks, and in all calls
  /// until the memory is set to zero again.
  uint64_t exchange_bytes;
  uint32_t flags; ///< kiln_call_flag
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_allreduce_args;

/// Slots of an all-reduce in kiln_arguments.operands. Its scalar is epsilon.
enum kiln_allreduce_slot {
  KILN_ALLREDUCE_X = 0,
  KILN_ALLREDUCE_Y = 1,
  KILN_ALLREDUCE_WEIGHT = 2,
  KILN_ALLREDUCE_RESIDUAL = 3,
  KILN_ALLREDUCE_RESIDUAL_OUT = 4,
  KILN_ALLREDUCE_SLOT_COUNT = 5
};

#ifdef __cplusplus
} // extern "C"
#endif

/// Arguments with an epsilon of 1e-5, and two ranks; other fields are 0.
static inline kiln_allreduce_args kiln_allreduce_args_init(void) {
  kiln_allreduce_args args = KILN_INIT(kiln_allreduce_args);
  args.ranks = 2;
  args.epsilon = 1e-5;
  return args;
}

/// The bytes of exchange memory of each rank with which calls of up to \p rows
/// rows of \p row_bytes bytes each move all rows at once.
static inline uint64_t
kiln_allreduce_exchange_bytes(int32_t ranks, int64_t rows, int64_t row_bytes) {
  const uint64_t head = 8192, vector = 16;
  return head + 2 * (uint64_t)ranks * (uint64_t)rows *
                    (((uint64_t)row_bytes + vector - 1) / vector * vector);
}

#endif // KILN_ALLREDUCE_H
