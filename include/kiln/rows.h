//===- rows.h - problems over the rows of a matrix ------------------------===//
//
// Structs of the memory-bound families, which read a matrix once: elementwise
// chains, reductions, softmax, normalisation, quantisation, transposition.
// Included by kiln.h, whose head states the rules that all of it follows.
//
// Rules that hold for all of them
//   Shapes     x is a row-major matrix of rows x cols whose type is required:
//              bf16, fp16 or fp32 unless the struct says more. Other operands
//              have x's type by default. Arithmetic is fp32; a result is
//              rounded to its type once. Any size from 0 to 2^31 - 1, any
//              leading dimension that is not less than a row (rows times it at
//              most 2^56) and any address that is aligned to its element works.
//              batch_stride is 0. If rows or cols is 0, a call succeeds and
//              launches nothing, unless its struct says otherwise.
//   Vectors    Values per column or per row are packed; the leading_dim of a
//              vector is ignored.
//   Optional   An optional operand is present when its `type` is set, whatever
//              its address is, so that a problem which is only described can
//              have it. If its type is KILN_DTYPE_NONE it is absent, and in a
//              call its `data` must be null.
//   Overlap    An operand that is written may overlap no other operand, except
//              for the one that the struct names, exactly: with the same
//              address and leading dimension, and elements of the same width.
//   Quantised  An e4m3 result saturates at +-448 and keeps NaN; an int8 result
//              is clamped to +-127 and rounded to the nearest even. With a
//              y_scale the kernel computes a scale for each row (per-token,
//              KILN_GRANULARITY_ROW), or for each 128 columns of a row
//              (KILN_GRANULARITY_BLOCK with blocks of 1 x 128, of which the
//              last one of a row may be partial): the greatest magnitude there
//              over 448 (e4m3) or 127 (int8), 1 for zeros. The results there
//              are multiplied by the fp32 reciprocal of their scale. The scale,
//              an exact quotient, is stored to y_scale.data; y times the scale
//              gives them back. With a NaN among them the scale is NaN: all of
//              them are NaN then in e4m3, 0 in int8. y_scale has the type fp32
//              or KILN_DTYPE_NONE. Scales of rows are packed. Block scales lie
//              as kiln_gemm reads the scales of A: one of the two strides is 1,
//              the other one is any that leaves room; both 0: rows of scales
//              are packed.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ROWS_H
#define KILN_ROWS_H

#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// y = pointwise(x), rows x cols; with no link a copy, or a cast. y may be x.
///
/// Types of x and y: as in the head, and e4m3, both ways without scales.
/// Operands of links have x's type; matrices among them share one leading_dim.
/// A chain has one KILN_POINTWISE_SCALE at most.
///
/// With a y_scale the result is quantised to y's type, e4m3 or int8. Then x has
/// a type of the head, and no link reads a value for each row.
typedef struct kiln_elementwise_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t rows, cols;
  kiln_operand x;
  kiln_operand y;
  const kiln_pointwise *pointwise; ///< applied first to last; null: none
  uint32_t pointwise_count;        ///< at most KILN_MAX_POINTWISE
  uint32_t flags;                  ///< kiln_call_flag
  uint64_t reserved[8];
  kiln_scale y_scale; ///< of a quantised y, whose scales are written
} kiln_elementwise_args;

/// Slots of an elementwise problem in kiln_arguments.operands. Its scalar is
/// the factor of KILN_POINTWISE_SCALE.
enum kiln_elementwise_slot {
  KILN_ELEMENTWISE_X = 0,
  KILN_ELEMENTWISE_Y = 1,
  /// + i: operand of the chain's link i; links that are KILN_POINTWISE_NONE are
  /// not counted.
  KILN_ELEMENTWISE_POINTWISE = 2,
  /// Scales of y.
  KILN_ELEMENTWISE_SCALES = KILN_ELEMENTWISE_POINTWISE + KILN_MAX_POINTWISE,
  KILN_ELEMENTWISE_SLOT_COUNT = KILN_ELEMENTWISE_SCALES + 1
};

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// How many values become one.
typedef int32_t kiln_reduction;
enum kiln_reduction_value {
  KILN_REDUCTION_NONE = 0, ///< not a reduction: it has to be named
  KILN_REDUCTION_SUM = 10,
  KILN_REDUCTION_MAX = 20, ///< NaN if a value is
  KILN_REDUCTION_MEAN = 30,
  KILN_REDUCTION_SUM_SQUARES = 40
};

/// Which values become one.
typedef int32_t kiln_axis;
enum kiln_axis_value {
  KILN_AXIS_COLUMNS = 0, ///< the values of a row: y holds one for each row
  KILN_AXIS_ALL = 10     ///< all: y holds one value
};

/// y = op(x) along an axis. y is packed. Nothing to reduce (no columns, or no
/// rows with KILN_AXIS_ALL) is invalid: the result would have no value.
typedef struct kiln_reduce_args {
  uint32_t struct_size;
  kiln_reduction op;
  kiln_axis axis;
  kiln_determinism determinism;
  int64_t rows, cols;
  kiln_operand x;
  kiln_operand y;
  uint32_t flags; ///< kiln_call_flag
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_reduce_args;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// How a mask, which is added, covers a matrix.
typedef int32_t kiln_mask;
enum kiln_mask_value {
  KILN_MASK_NONE = 0,
  KILN_MASK_MATRIX = 10, ///< rows x cols
  KILN_MASK_ROW = 20     ///< cols values, the same for every row
};

/// y = exp(s - max(s)) / sum(exp(s - max(s))) for each row of
/// s = scale * x + mask. y may be x. A row whose values are all minus infinity
/// gives NaN.
///
/// scale must be set: zero means zero. kiln_softmax_args_init() gives it as 1.
/// A scale of 0 without a mask is KILN_INVALID_ARGUMENT: the struct was zeroed
/// and not initialised.
typedef struct kiln_softmax_args {
  uint32_t struct_size;
  kiln_mask mask_kind;
  int64_t rows, cols;
  double scale;
  kiln_operand x;
  kiln_operand y;
  kiln_operand mask; ///< ignored without a mask_kind; its type may stay
                     ///< KILN_DTYPE_NONE: x's, the only one allowed
  kiln_determinism determinism;
  uint32_t flags; ///< kiln_call_flag
  uint64_t reserved[8];
} kiln_softmax_args;

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

/// RMSNorm (kiln_rms_norm), y = h / sqrt(mean(h^2) + epsilon) * weight + bias,
/// or LayerNorm (kiln_layer_norm),
/// y = (h - mean(h)) / sqrt(var(h) + epsilon) * weight + bias, of each row h.
/// Weight and bias are optional, and have x's type. var is the biased variance.
///
/// h is x; with a residual it is x + residual rounded to x's type, and that is
/// stored to residual_out as well. residual and residual_out are matrices of
/// x's type and shape and come together. y may be x; residual_out may be
/// residual.
///
/// y's type is as in the head, or e4m3 or int8 with a y_scale.
///
/// epsilon must be set: zero means zero. kiln_norm_args_init() gives it as
/// 1e-5.
typedef struct kiln_norm_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t rows, cols;
  double epsilon; ///< not negative
  kiln_operand x;
  kiln_operand y;
  kiln_operand weight; ///< cols values
  kiln_operand bias;   ///< cols values
  kiln_operand residual;
  kiln_operand residual_out;
  kiln_scale y_scale; ///< of an e4m3 or int8 y, whose scales are written
  uint32_t flags;     ///< kiln_call_flag
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_norm_args;

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

/// y = round(x * (1 / its scale)), with scales as in the head. y's type (e4m3
/// or int8) and y_scale are required.
typedef struct kiln_quantize_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t rows, cols;
  kiln_operand x;
  kiln_operand y;
  kiln_scale y_scale; ///< written
  uint32_t flags;     ///< kiln_call_flag
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_quantize_args;

/// Slots of reductions, softmax, norms and quantisations in
/// kiln_arguments.operands. Their scalar is epsilon or softmax's scale.
enum kiln_row_slot {
  KILN_ROW_X = 0,
  KILN_ROW_Y = 1,
  KILN_ROW_WEIGHT = 2,
  KILN_ROW_BIAS = 3,
  KILN_ROW_RESIDUAL = 4,
  KILN_ROW_RESIDUAL_OUT = 5,
  KILN_ROW_MASK = 6,
  KILN_ROW_SCALES = 7, ///< of y
  KILN_ROW_SLOT_COUNT = 8
};

//===----------------------------------------------------------------------===//
// Transposition
//===----------------------------------------------------------------------===//

/// y[c, r] = x[r, c]: x is rows x cols, y is cols x rows of x's type. Types: as
/// in the head, e4m3 and int8.
typedef struct kiln_transpose_args {
  uint32_t struct_size;
  uint32_t flags;     ///< kiln_call_flag
  int64_t rows, cols; ///< of x
  kiln_operand x;
  kiln_operand y;
  kiln_determinism determinism;
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_transpose_args;

/// Slots of a transposition in kiln_arguments.operands.
enum kiln_transpose_slot {
  KILN_TRANSPOSE_X = 0,
  KILN_TRANSPOSE_Y = 1,
  KILN_TRANSPOSE_SLOT_COUNT = 2
};

#ifdef __cplusplus
} // extern "C"
#endif

//===----------------------------------------------------------------------===//
// Initialisers, where a zero is not the default
//===----------------------------------------------------------------------===//

/// Arguments of a softmax without a mask: scale is 1, the other fields are 0.
static inline kiln_softmax_args kiln_softmax_args_init(void) {
  kiln_softmax_args args = KILN_INIT(kiln_softmax_args);
  args.scale = 1.0;
  return args;
}

/// Arguments of a norm: epsilon is 1e-5, the other fields are 0.
static inline kiln_norm_args kiln_norm_args_init(void) {
  kiln_norm_args args = KILN_INIT(kiln_norm_args);
  args.epsilon = 1e-5;
  return args;
}

#endif // KILN_ROWS_H
