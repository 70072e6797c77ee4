//===- rows.h - problems over the rows of a matrix ------------------------===//
//
// Structs of the families that stream a matrix through once: elementwise
// chains, reductions, softmax, normalisation, quantisation, transposition.
// Included by kiln.h, whose head states the rules that all of it follows.
//
// What holds for all of them
//   x is a row-major matrix of rows x cols whose type is required: bf16, fp16
//   or fp32 unless the struct says more. Other operands have x's type by
//   default. Arithmetic is fp32; a result is rounded to its type once. Any size
//   from 0 to 2^31 - 1, any leading dimension that is not less than a row (rows
//   times it at most 2^56) and any address that is aligned to its element
//   works. batch_stride is a slot: 0. If rows or cols is 0, a call succeeds and
//   launches nothing, unless its struct says else.
//
//   Vectors of values per column or per row are packed; their leading_dim is
//   ignored.
//
//   An optional operand is present when its `type` is set, whatever its address
//   is, so that a problem which is only described can have it. If its type is
//   KILN_DTYPE_NONE it is absent, and in a call its `data` must be null.
//
//   What is written may be nothing that is read or written otherwise, except
//   for the operand that the struct names, exactly: with the same address and
//   leading dimension, and elements of the same width.
//
//   An e4m3 result saturates at +-448 and keeps NaN, an int8 result is clamped
//   to +-127 and rounded to the nearest even. With y.scale, each row is
//   multiplied by the fp32 reciprocal of a scale that the kernel computes: the
//   greatest magnitude in the row over 448 (e4m3) or 127 (int8), 1 for a row of
//   zeros. The scale, an exact quotient, is stored to y.scale->data, from which
//   y times the scale gives the row back. A row with a NaN has the scale NaN:
//   an e4m3 row is NaN then, an int8 row 0. The kiln_scale's granularity is
//   KILN_GRANULARITY_ROW, its type fp32 or KILN_DTYPE_NONE, its strides and
//   blocks are 0: packed.
//
//   `determinism`, `max_sms`, `rows_device` and `rows_hint` mean what
//   `determinism`, `max_sms`, `m_device` and `m_hint` of kiln_gemm_args do.
//   Slots.
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
/// Types of x and y: those of the head, and e4m3, both ways without scales.
/// Operands of links have x's type; those that are matrices share one
/// leading_dim. A chain has one KILN_POINTWISE_SCALE at most.
typedef struct kiln_elementwise_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t rows, cols;
  kiln_operand x;
  kiln_operand y;
  const kiln_pointwise *pointwise; ///< applied first to last; null: none
  uint32_t pointwise_count;        ///< at most KILN_MAX_POINTWISE
  uint32_t flags;                  ///< kiln_call_flag
  int32_t max_sms;
  uint32_t reserved0;
  const int32_t *rows_device;
  int64_t rows_hint;
  uint64_t reserved[8];
} kiln_elementwise_args;

/// Slots of an elementwise problem in kiln_arguments.operands. Its scalar is
/// the factor of KILN_POINTWISE_SCALE.
enum kiln_elementwise_slot {
  KILN_ELEMENTWISE_X = 0,
  KILN_ELEMENTWISE_Y = 1,
  /// + i: operand of the chain's link i; links that are KILN_POINTWISE_NONE are
  /// not counted.
  KILN_ELEMENTWISE_POINTWISE = 2,
  KILN_ELEMENTWISE_SLOT_COUNT = KILN_ELEMENTWISE_POINTWISE + KILN_MAX_POINTWISE
};

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// What becomes of many values.
typedef int32_t kiln_reduction;
enum kiln_reduction_value {
  KILN_REDUCTION_NONE = 0, ///< not a reduction: it has to be named
  KILN_REDUCTION_SUM = 10,
  KILN_REDUCTION_MAX = 20, ///< NaN if one is
  KILN_REDUCTION_MEAN = 30,
  KILN_REDUCTION_SUM_SQUARES = 40
};

/// Which values make one.
typedef int32_t kiln_axis;
enum kiln_axis_value {
  KILN_AXIS_COLUMNS = 0, ///< those of a row: y holds a value for each row
  KILN_AXIS_ALL = 10     ///< all: y holds one value
};

/// y = op(x) along an axis. y is packed. Nothing to reduce (no columns, or no
/// rows with KILN_AXIS_ALL) is invalid: no value would serve everyone.
typedef struct kiln_reduce_args {
  uint32_t struct_size;
  kiln_reduction op;
  kiln_axis axis;
  kiln_determinism determinism;
  int64_t rows, cols;
  kiln_operand x;
  kiln_operand y;
  uint32_t flags; ///< kiln_call_flag
  int32_t max_sms;
  const int32_t *rows_device;
  int64_t rows_hint;
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
/// s = scale * x + mask. y may be x. A row of which all are minus infinity
/// gives NaN.
///
/// scale must be set: zero means zero. kiln_softmax_args_init() gives it as 1.
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
  int32_t max_sms;
  uint32_t reserved0;
  const int32_t *rows_device;
  int64_t rows_hint;
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
/// y's type is one of the head's, or e4m3 or int8 with a y.scale.
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
  uint32_t flags; ///< kiln_call_flag
  int32_t max_sms;
  const int32_t *rows_device;
  int64_t rows_hint;
  uint64_t reserved[8];
} kiln_norm_args;

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

/// y = round(x * (1 / scale of its row)), the scales as the head says. y's type
/// (e4m3 or int8) and its scale are required.
typedef struct kiln_quantize_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t rows, cols;
  kiln_operand x;
  kiln_operand y;
  uint32_t flags; ///< kiln_call_flag
  int32_t max_sms;
  const int32_t *rows_device;
  int64_t rows_hint;
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

/// y[c, r] = x[r, c]: x is rows x cols, y is cols x rows of x's type. Types:
/// those of the head, e4m3 and int8.
typedef struct kiln_transpose_args {
  uint32_t struct_size;
  uint32_t flags;     ///< kiln_call_flag
  int64_t rows, cols; ///< of x
  kiln_operand x;
  kiln_operand y;
  kiln_determinism determinism;
  int32_t max_sms;
  const int32_t *rows_device;
  int64_t rows_hint;
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

/// Arguments of a softmax without a mask: scale is 1, all else is zero.
static inline kiln_softmax_args kiln_softmax_args_init(void) {
  kiln_softmax_args args = KILN_INIT(kiln_softmax_args);
  args.scale = 1.0;
  return args;
}

/// Arguments of a norm: epsilon is 1e-5, all else is zero.
static inline kiln_norm_args kiln_norm_args_init(void) {
  kiln_norm_args args = KILN_INIT(kiln_norm_args);
  args.epsilon = 1e-5;
  return args;
}

/// Scales of one per row at \p data, for what a kernel quantises.
static inline kiln_scale kiln_row_scales_init(void *data) {
  kiln_scale scale = KILN_INIT(kiln_scale);
  scale.data = data;
  scale.granularity = KILN_GRANULARITY_ROW;
  return scale;
}

#endif // KILN_ROWS_H
