//===- gather.h - rows by index -------------------------------------------===//
//
// The struct of kiln_gather: embeddings and their shards of a vocabulary, the
// last row of each sequence, copies of blocks of a KV cache. Included by
// kiln.h, whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_GATHER_H
#define KILN_GATHER_H

#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kiln_gather_flag {
  /// indices and targets are int64 instead of int32.
  KILN_GATHER_INT64 = 1,
  // A problem that is described before its memory exists has the array although
  // the address is null. A call does not need these flags.
  KILN_GATHER_HAS_INDICES = 2,
  KILN_GATHER_HAS_TARGETS = 4
};

/// y[targets[i]] = scale * x[indices[i] / divisor - first] for i from 0 to
/// rows - 1, each row cols elements.
///
/// Without indices indices[i] is i, without targets targets[i] is i: a gather
/// has indices, a scatter targets, a copy of blocks both. One of them is
/// required. An index that is below 0, or whose row does not lie in x (from 0
/// to x_rows - 1 after the division and the subtraction), gives a row of zeros.
/// So a shard of a vocabulary, whose first token is `first`, gives its part of
/// a sum over shards. A target outside of [0, y_rows) is not written. Rows of y
/// that are no target are left as they are. Where two targets are equal, a
/// mixture of both rows stays.
///
/// A batch repeats all of it with the same indices, for a KV cache with a
/// matrix for each layer of the model. batch_stride of x and y are as in a
/// GEMM.
///
/// Types. x is bf16, fp16, fp32, e4m3 or int8; y has x's type, or bf16, fp16 or
/// fp32 for the first four. With x's type and a scale of 1 bits are only moved,
/// so NaN keeps its payload. Else x is converted to fp32, multiplied and
/// rounded once, as the head of rows.h says.
///
/// y may be x exactly (the blocks of one pool) where there are targets and
/// x_rows is y_rows, as long as no index is a target. Else nothing that is
/// written overlaps an operand.
///
/// CUDA graphs. Grid and kernel follow from the struct alone: between replays
/// indices and targets may change.
///
/// Ranges of a problem (kiln_range) are of "rows" or "batch". Choices depend
/// neither on x_rows, y_rows and first, nor on a scale other than 1: each may
/// change from call to call. If batch, rows or cols is 0, the call succeeds and
/// launches nothing. scale must be set: zero is refused.
/// kiln_gather_args_init() gives batch, divisor and scale as 1.
typedef struct kiln_gather_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t batch;
  int64_t rows, cols;
  int64_t x_rows;  ///< rows that x has: required
  int64_t y_rows;  ///< rows that y has; 0: rows. Only with targets.
  int64_t first;   ///< index of x's first row, not negative
  int64_t divisor; ///< 1 or more: choices of a token share its row
  double scale;
  kiln_operand x;
  kiln_operand y;
  const void *indices; ///< [rows], device memory, aligned to its elements
  const void *targets; ///< [rows]
  uint32_t flags;      ///< kiln_gather_flag, kiln_call_flag
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_gather_args;

/// Slots of a gather in kiln_arguments.operands. Its scalar is scale, unless
/// the problem was described with a scale of 1 and moves bits.
enum kiln_gather_slot {
  KILN_GATHER_X = 0,
  KILN_GATHER_Y = 1,
  KILN_GATHER_INDICES = 2,
  KILN_GATHER_TARGETS = 3,
  KILN_GATHER_SLOT_COUNT = 4
};

#ifdef __cplusplus
} // extern "C"
#endif

/// Arguments of one batch: batch, divisor and scale are 1, other fields 0.
static inline kiln_gather_args kiln_gather_args_init(void) {
  kiln_gather_args args = KILN_INIT(kiln_gather_args);
  args.batch = 1;
  args.divisor = 1;
  args.scale = 1;
  return args;
}

#endif // KILN_GATHER_H
