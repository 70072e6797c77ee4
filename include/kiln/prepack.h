//===- prepack.h - weights of checkpoints, packed -------------------------===//
//
// Packs a quantised weight W[n, k] of a checkpoint into the order in which
// Kiln's products read it (gemm.h, kiln_gemm_packed_b). That is done once, when
// a model is loaded: the result belongs to the caller, and the weight of the
// checkpoint may be freed. Included by kiln.h, whose head states the rules that
// all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_PREPACK_H
#define KILN_PREPACK_H

#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How checkpoints store their weights. g is `group_size`, or k if that is 0.
/// Words are 32 bits with eight elements of 4 bits, element 0 in the lowest
/// bits. Counts are rounded up; the rest of the last word is ignored.
typedef int32_t kiln_weight_source;
enum kiln_weight_source_value {
  /// Words [k/8, n] along k; zeros [k/g, n/8] along n, each stored less 1;
  /// scales [k/g, n]. Checkpoints with an order of activations (g_idx) are to
  /// be sorted by group before.
  KILN_WEIGHTS_GPTQ = 10,
  /// The same, with zeros stored as they are.
  KILN_WEIGHTS_GPTQ_V2 = 20,
  /// Words [k, n/8] along n, each with columns 0, 2, 4, 6, 1, 3, 5, 7 of eight;
  /// zeros [k/g, n/8] likewise; scales [k/g, n].
  KILN_WEIGHTS_AWQ = 30,
  /// "pack-quantized" of 4 bits: words [n, k/8] along k; zeros [n/8, k/g] along
  /// n; scales [n, k/g].
  KILN_WEIGHTS_COMPRESSED_TENSORS = 40,
  KILN_WEIGHTS_INT8 = 50, ///< int8 [n, k]; scales [n, k/g]
  KILN_WEIGHTS_E4M3 = 60, ///< e4m3 [n, k]; scales [n, k/g]
  /// e2m1, bytes [n, k/32, 16] with two elements, the first in the lower half;
  /// scales e8m0 [n, k/32].
  KILN_WEIGHTS_MXFP4 = 70
};

/// Orders of packed weights. A number stands for its order, version included,
/// for ever: keep it with the packed weight.
typedef int32_t kiln_weight_order;
enum kiln_weight_order_value {
  /// Blocks of 64 rows and 64 k; of 16 rows and 64 k (4 bits) or 32 k (8 bits)
  /// each lane of a warp has 16 bytes. docs/gemm.md has all of it.
  KILN_ORDER_K64R16 = 1
};

/// Flags of kiln_prepack_args, beside kiln_call_flag.
enum kiln_prepack_flag {
  /// There are zero points. Without them, codes of integers of 4 bits stand for
  /// their value less 8. Codes of int8, e4m3 and e2m1 have no zero points.
  KILN_PREPACK_HAS_ZEROS = 1
};

/// packed, packed_scales, packed_zeros = weights, scales, zeros, bit for bit.
/// All operands are without gaps (leading_dim and batch_stride are ignored or
/// 0), and each address is a multiple of 16 (in kiln_prepack_host of one
/// element). Types may stay KILN_DTYPE_NONE. Scales and packed scales are fp16
/// (the default), bf16 or fp32, as the type of `scales` says, or with
/// KILN_WEIGHTS_MXFP4 e8m0. Weights, zeros and `packed` count as int8. Operands
/// that are written overlap no other operand.
typedef struct kiln_prepack_args {
  uint32_t struct_size;
  uint32_t flags; ///< kiln_prepack_flag and kiln_call_flag
  int64_t n, k;   ///< outputs and inputs of the layer
  kiln_weight_source source;
  /// Steps of k that share a scale: 32, 64, 128, or 0: all (mxfp4: 0 or 32).
  int32_t group_size;
  kiln_operand weights, scales, zeros;
  kiln_operand packed, packed_scales, packed_zeros;
  kiln_determinism determinism;
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_prepack_args;

/// Slots of kiln_prepack in kiln_arguments.operands.
enum kiln_prepack_slot {
  KILN_PREPACK_WEIGHTS = 0,
  KILN_PREPACK_SCALES = 1,
  KILN_PREPACK_ZEROS = 2,
  KILN_PREPACK_PACKED = 3,
  KILN_PREPACK_PACKED_SCALES = 4,
  KILN_PREPACK_PACKED_ZEROS = 5,
  KILN_PREPACK_SLOT_COUNT = 6
};

/// The memory that a packed weight needs. n and k are padded to multiples of 64
/// with codes that stand for 0; a row has `groups` scales, which cover the
/// padded k.
typedef struct kiln_prepack_layout {
  uint32_t struct_size;
  kiln_weight_order order;
  uint64_t weight_bytes, scale_bytes;
  uint64_t zero_bytes; ///< a byte for each scale; 0: there are no zeros
  int64_t groups;
  uint64_t reserved[4];
} kiln_prepack_layout;

/// Tells how large the results of \p args are. The addresses in it are ignored.
/// Waits for nothing, needs no engine, driver or GPU, and keeps nothing of its
/// arguments.
/// Errors: KILN_INVALID_ARGUMENT, without a message.
KILN_API kiln_status kiln_prepack_query(
    const kiln_prepack_args *args, kiln_prepack_layout *layout) KILN_NOEXCEPT;

/// Packs a weight in host memory, on the calling thread, with the same bits as
/// kiln_prepack (launch.h): some nanoseconds an element.
/// Waits for nothing; needs no engine, driver or GPU. The operands belong to
/// the caller and are not used after the call.
/// Errors: KILN_INVALID_ARGUMENT, without a message.
KILN_API kiln_status kiln_prepack_host(const kiln_prepack_args *args)
    KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_PREPACK_H
