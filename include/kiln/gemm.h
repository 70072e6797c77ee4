//===- gemm.h - products of matrices --------------------------------------===//
//
// The struct of kiln_gemm. A plain product needs kiln_gemm_args alone. Four
// structs that it may point to say more: scales (fp8, int8), a packed weight
// (W4A16, W8A16), a quantised result, and groups of rows (grouped GEMM, MoE).
// Included by kiln.h, whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_GEMM_H
#define KILN_GEMM_H

#include "kiln/prepack.h"
#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How products are formed. Sums are fp32 unless a value says otherwise.
typedef int32_t kiln_compute;
enum kiln_compute_value {
  KILN_COMPUTE_NATIVE = 0, ///< the inputs as they are: exact fp32 for fp32
  KILN_COMPUTE_TF32 = 10,  ///< fp32 inputs rounded to 10 mantissa bits
  /// Products of fp8 are summed in the tensor core alone, which keeps some 13
  /// bits: sums of 4096 products of one sign are off by up to 7 %. Otherwise
  /// they go on to fp32 sums every 128 products.
  KILN_COMPUTE_FAST_FP8 = 20
};

/// Storage of A and B in D[m, n] = A[m, k] B[k, n]. First letter: A is
/// row-major [m, k] (N) or stored [k, m] (T). Second letter: B is stored [k, n]
/// (N) or [n, k] (T; the weight of a linear layer). D is row-major [m, n].
typedef int32_t kiln_layout;
enum kiln_layout_value {
  KILN_LAYOUT_NN = 0,
  KILN_LAYOUT_NT = 10,
  KILN_LAYOUT_TN = 20,
  KILN_LAYOUT_TT = 30
};

//===----------------------------------------------------------------------===//
// Parts that a plain product does without
//===----------------------------------------------------------------------===//

/// Scales of fp8 and int8 inputs, fp32, and zero points of A.
///
/// A has one scale for all (per-tensor), one for each row of op(A) (per-token),
/// or one for each block of 1 x 128, 128 along k. B has one scale for all, one
/// for each column of op(B) (per-channel), or one for each block of 128 x 128.
/// The last block of a side may be partial. One of the two strides of block
/// scales is 1, and the other one is any that leaves room; both 0: rows are
/// packed. Block scales of A and B come together, for fp8 whose compute is
/// KILN_COMPUTE_NATIVE.
///
/// int8 times int8 may have zero points z of A: the product is the sum of
/// (A - z) B, exactly, before scales. Results have to fit int32, as they do for
/// z from -128 to 127. Not available with groups.
typedef struct kiln_gemm_scales {
  uint32_t struct_size;
  uint32_t reserved0;
  kiln_scale a, b;
  /// Type: int32, which is the default. One zero point for all, or one for each
  /// row of op(A).
  kiln_scale a_zeros;
  /// With zero points of A: the sum over k of each column of op(B), int32 in
  /// device memory, packed. There are n for each matrix of B; where B's batch
  /// stride is 0, n in all. Null without zero points.
  const int32_t *column_sums_b;
  uint64_t reserved[4];
} kiln_gemm_scales;

/// A weight that kiln_prepack packed (prepack.h): B of a W4A16 or W8A16
/// product. A is bf16 or fp16, b's type int4, int8, e4m3 or e2m1, and the
/// layout KILN_LAYOUT_NT. `b.data` is the packed weight, aligned to 16 bytes as
/// the scales and zero points are; b's leading dimension is ignored, and its
/// batch stride is 0. A batch is available with groups only: its matrices
/// follow each other without gaps.
typedef struct kiln_gemm_packed_b {
  uint32_t struct_size;
  kiln_weight_order order; ///< required
  /// The packed scales, required: one for each row, or for each block of 1 x
  /// group_size. fp16 (the default), bf16 or fp32; with e2m1 weights e8m0 (the
  /// default).
  kiln_scale scale;
  /// The packed zero points of int4, a byte for each scale: int8, which is the
  /// default, with the granularity and blocks of `scale`. Absent where there
  /// are none.
  kiln_scale zeros;
  uint64_t reserved[4];
} kiln_gemm_packed_b;

/// A D of e4m3. The result of the epilogue is rounded to A's type (bf16 where
/// that has one byte) and multiplied by the fp32 reciprocal of its scale; it
/// saturates at +-448 and keeps NaN. One scale for all is read. A scale for
/// each row (per-token), or for each block of 1 x 128 of D, is written: the
/// greatest magnitude there over 448, 1 for zeros. C, bias and residual have
/// the type that the result is rounded to. Not available for an fp32 A, with a
/// scatter or with masked groups.
typedef struct kiln_gemm_quantized_d {
  uint32_t struct_size;
  uint32_t reserved0;
  kiln_scale scale; ///< required; fp32
  uint64_t reserved[4];
} kiln_gemm_quantized_d;

/// Where the rows of groups are.
typedef int32_t kiln_group_kind;
enum kiln_group_kind_value {
  /// A, D and a residual are one matrix of m rows each, without a batch stride.
  /// Group g ends before row sizes[g]. It begins where the group before ends,
  /// or at the next multiple of `align`; the first group begins at row 0. m is
  /// the largest number of rows. Rows outside of every group have to exist,
  /// count for no result and are not written. (Offsets with a leading 0, batch
  /// + 1 of them, are given as sizes = offsets + 1.)
  KILN_GROUPS_ENDS = 10,
  /// A, D and a residual are batch matrices of `room` rows each, of which group
  /// g has the first sizes[g]. m, which is not 0, is the expected size of a
  /// group. The rest of a matrix has to exist, counts for no result and is not
  /// written.
  KILN_GROUPS_MASKED = 20
};

/// Where rows of groups with ends are read and written, and their weights.
enum kiln_group_flag {
  /// Row r of the product is row index[r] / divisor of A and of its scales.
  /// With a divisor of top_k, A is the tokens, and an index counts their
  /// choices.
  KILN_ROWS_GATHER = 1,
  /// Row r of the product is row index[r] of D. No residual.
  KILN_ROWS_SCATTER = 2,
  /// Row r of the epilogue's result is multiplied by weights[index[r]], without
  /// an index by weights[r].
  KILN_ROWS_WEIGHTS = 4
};

/// Groups of rows of a GEMM (grouped GEMM, MoE): batch groups, at most 1024. B
/// is batch matrices with their scales and biases, and each is multiplied by
/// its own group of rows, whose size the kernel reads from device memory:
/// experts and their tokens. C, tf32 and zero points of A are not available
/// then, and rows of A lie along k (KILN_LAYOUT_NT or KILN_LAYOUT_NN).
///
/// Sizes may be 0. Negative sizes count as 0, and sizes beyond m or `room` as m
/// or `room`. Ends that fall leave undefined rows of D. An index outside of 0
/// to m - 1 is no row: it is read as zeros, and nothing is written. Whatever
/// sizes and indices say, no launch reads or writes outside of its operands.
/// With an index these are (m - 1) / divisor + 1 rows of a gathered A, m rows
/// of a scattered D, and m weights. A row or weight has to exist only if the
/// index of a row in a group names it; other elements of index may be anything.
typedef struct kiln_gemm_groups {
  uint32_t struct_size;
  kiln_group_kind kind; ///< required
  const int32_t *sizes; ///< device memory, one of each group
  int64_t room;         ///< masked only; 0: m
  int64_t align;        ///< ends only, at most 4096; 0: 1
  /// Device memory, m of them; null without a gather or a scatter.
  const int32_t *index;
  int64_t divisor;      ///< of a gather; 0: 1
  const float *weights; ///< device memory, m of them; null without the flag
  uint32_t flags;       ///< kiln_group_flag
  uint32_t reserved0;
  uint64_t reserved[4];
} kiln_gemm_groups;

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

/// D = epilogue(alpha * op(A) op(B) + beta * C), for each matrix of a batch.
///
/// Describes a problem (kiln_problem) and, with its addresses, is one call
/// (kiln_gemm). Any size >= 0, leading dimension and element-aligned address
/// works; a negative size is invalid. If m, n or batch is 0, the call succeeds
/// and launches nothing; if k is 0, the product is 0. D may be C exactly (same
/// address, leading dimension and, with batch > 1, stride); it may overlap no
/// other operand and C in no other way.
///
/// The epilogue is a pointwise chain. It may hold one KILN_POINTWISE_SWIGLU or
/// KILN_POINTWISE_SWIGLU_CLAMPED: the rows of a gate and of an up projection
/// alternate in a weight stored [n, k]. n, which is even then, stays the width
/// of the product: operands of links before it have n columns, and D and the
/// operands of links behind it have n / 2. C is not available with it.
///
/// alpha and batch must be set: zero means zero. kiln_gemm_args_init() gives
/// both as 1. KILN_INIT() does not: with alpha set and batch forgotten, the
/// call succeeds and computes nothing. A struct whose batch, alpha and beta are
/// all 0, without device addresses for alpha and beta, is
/// KILN_INVALID_ARGUMENT: it was zeroed and not initialised.
typedef struct kiln_gemm_args {
  uint32_t struct_size;
  kiln_layout layout;
  int64_t m, n, k;
  /// 1 for a single product, which has to be set. 0 is an empty batch: the call
  /// succeeds and launches nothing.
  int64_t batch;
  double alpha;
  /// With 0, and no beta_device, C is never read and `c` is ignored.
  double beta;
  /// Device addresses of one fp32 each, read when the kernel runs; they replace
  /// alpha and beta. With a beta_device, C is given and has to be readable.
  const float *alpha_device;
  const float *beta_device;
  kiln_operand a; ///< its type is required
  kiln_operand b; ///< type: A's by default
  kiln_operand c; ///< type: D's, the only one allowed
  kiln_operand d; ///< type: A's by default, or bf16 where that has one byte;
                  ///< fp32 works too, fp16 where A has one byte, and e4m3
                  ///< with quantized_d
  const kiln_pointwise *pointwise; ///< the epilogue, first to last; null: none
  uint32_t pointwise_count;        ///< at most KILN_MAX_POINTWISE; one bias,
                                   ///< residual and swiglu at most
  kiln_compute compute;
  kiln_determinism determinism;
  uint32_t flags;                           ///< kiln_call_flag
  const kiln_gemm_scales *scales;           ///< null: none
  const kiln_gemm_packed_b *packed_b;       ///< null: B is rows of elements
  const kiln_gemm_quantized_d *quantized_d; ///< null: D is not quantised
  const kiln_gemm_groups *groups;           ///< null: every matrix has m rows
  uint64_t reserved[8];
} kiln_gemm_args;

/// Slots of a GEMM's addresses in kiln_arguments.operands.
enum kiln_gemm_slot {
  KILN_GEMM_A = 0,
  KILN_GEMM_B = 1,
  KILN_GEMM_C = 2,
  KILN_GEMM_D = 3,
  /// The addresses alpha_device and beta_device. They are needed where the
  /// problem was described with them, and replace the value elsewhere.
  KILN_GEMM_ALPHA = 4,
  KILN_GEMM_BETA = 5,
  KILN_GEMM_ZERO_B = 7, ///< zero points of packed weights
  KILN_GEMM_SCALE_A = 8,
  KILN_GEMM_SCALE_B = 9,
  KILN_GEMM_SCALE_D = 11,
  KILN_GEMM_GROUP_SIZES = 12, ///< of kiln_gemm_groups
  KILN_GEMM_ROW_INDEX = 13,   ///< of kiln_gemm_groups
  KILN_GEMM_ROW_WEIGHTS = 14,
  KILN_GEMM_ZERO_A = 15, ///< zero points of A
  /// + i: operand of the chain's link i; links that are KILN_POINTWISE_NONE are
  /// not counted.
  KILN_GEMM_POINTWISE = 16,
  /// column_sums_b, which goes with zero points of A.
  KILN_GEMM_COLUMN_SUMS_B = KILN_GEMM_POINTWISE + KILN_MAX_POINTWISE,
  KILN_GEMM_SLOT_COUNT
};

#ifdef __cplusplus
} // extern "C"
#endif

/// Arguments of a single product: batch and alpha are 1, the other fields are
/// 0.
static inline kiln_gemm_args kiln_gemm_args_init(void) {
  kiln_gemm_args args = KILN_INIT(kiln_gemm_args);
  args.batch = 1;
  args.alpha = 1.0;
  return args;
}

#endif // KILN_GEMM_H
