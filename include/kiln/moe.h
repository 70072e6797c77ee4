//===- moe.h - the router and the sum of MoE layers -----------------------===//
//
// The structs of kiln_route, which chooses experts from router logits and sorts
// the choices by expert for grouped products (kiln_gemm_groups), and of
// kiln_combine, which adds up the rows of a token's choices behind them.
// Included by kiln.h, whose head states the rules that all of it follows.
//
// A layer of experts is: the router's product, kiln_route, a grouped product
// with KILN_ROWS_GATHER (divisor top_k), a grouped product with
// KILN_ROWS_SCATTER and KILN_ROWS_WEIGHTS, kiln_combine. Nothing of it waits
// for the host, so that a CUDA graph serves every routing. Choice j of token t
// is number t * top_k + j throughout.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_MOE_H
#define KILN_MOE_H

#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Route
//===----------------------------------------------------------------------===//

/// The most experts that a router chooses from.
#define KILN_ROUTE_MAX_EXPERTS 1024
/// The most experts of a token.
#define KILN_ROUTE_MAX_TOP_K 32
/// The most groups of experts.
#define KILN_ROUTE_MAX_GROUPS 32

/// How a router's logits become scores.
typedef int32_t kiln_router_score;
enum kiln_router_score_value {
  KILN_SCORE_SOFTMAX = 0, ///< exp(x) over the sum of all experts' exp(x)
  KILN_SCORE_SIGMOID = 10 ///< 1 / (1 + exp(-x))
};

enum kiln_route_flag {
  /// Weights of a token are divided by the sum of the chosen experts' scores +
  /// 1e-20. With the softmax that is the softmax over the chosen experts alone
  /// (gpt-oss, Mixtral), unless a choice_bias or groups choose experts whose
  /// scores are 0 in fp32.
  KILN_ROUTE_RENORMALIZE = 1,
  /// A group counts as its greatest choice value (DeepSeek-V2) instead of the
  /// sum of its two greatest (DeepSeek-V3).
  KILN_ROUTE_GROUP_MAX = 2,
  // For a problem that is described before its memory exists: it has the array
  // although the address is null. A call does not need these flags.
  KILN_ROUTE_HAS_LOGIT_BIAS = 0x10,
  KILN_ROUTE_HAS_CHOICE_BIAS = 0x20,
  KILN_ROUTE_HAS_TOKEN_COUNT = 0x40,
  KILN_ROUTE_HAS_CHOSEN = 0x80,
  KILN_ROUTE_HAS_SIZES = 0x100
};

/// The top_k experts of each token with their weights, and all choices sorted
/// by expert. All arithmetic is fp32. A token takes these steps:
///
/// 1. x = logits + logit_bias, and the score of each expert from x.
/// 2. The choice value of an expert is score + choice_bias. Without a
///    choice_bias, unless groups count as a sum, it is x, which orders experts
///    as their scores do.
/// 3. With groups, expert e is in group e * groups / experts (rounded down).
///    The top_groups groups of the greatest value stay, and experts of other
///    groups are never chosen.
/// 4. The top_k experts of the greatest choice value are chosen, the greatest
///    first.
/// 5. The weight of a choice is the expert's score, without choice_bias, then
///    renormalised if the flag says so, then times `scale`.
///
/// Among equals the lowest expert, or group, is chosen; -0 equals 0. A NaN
/// comes behind every number, so a token always has top_k different experts.
/// Weights keep NaN: with the softmax a NaN, plus infinity, or nothing but
/// minus infinity among a token's x makes all of its weights NaN.
///
/// The sort. Experts first_expert to first_expert + local_experts - 1 are local
/// (expert parallelism), and each is a group of rows. Rows of a group are the
/// choices of its expert, in ascending order: as a stable sort of all choices
/// by expert gives them, whatever kernel computes it. Group g of `ends` is
/// expert first_expert + g and begins where the group before ends, or at the
/// next multiple of `align`, as KILN_GROUPS_ENDS has it. Elements of index that
/// are in no group are left as they are.
///
/// A choice has no row if its expert is not local, or its token is not before
/// token_count. Its weight is 0. kiln_combine does not read the row of a choice
/// of weight 0, so it gets its weights.
///
/// Nothing that is written overlaps an operand. Ranges of a problem
/// (kiln_range) are of "tokens". Choices of kernels depend neither on
/// first_expert nor on the value of `scale`. If tokens is 0, ends and sizes are
/// written as 0, and operands without elements may be null.
/// kiln_route_args_init() gives scale as 1; it must not be 0.
typedef struct kiln_route_args {
  uint32_t struct_size;
  uint32_t flags;      ///< kiln_route_flag, kiln_call_flag
  int64_t tokens;      ///< at most 2^20
  int64_t experts;     ///< 1 to KILN_ROUTE_MAX_EXPERTS
  int64_t top_k;       ///< 1 to KILN_ROUTE_MAX_TOP_K, at most experts
  kiln_operand logits; ///< [tokens][experts]: bf16, fp16 or fp32
  kiln_router_score score;
  kiln_determinism determinism;
  /// 0, or as many as top_groups: none. Otherwise at most
  /// KILN_ROUTE_MAX_GROUPS, a divisor of experts,
  /// with two experts or more unless KILN_ROUTE_GROUP_MAX is set. top_groups is
  /// at most groups, and its groups have top_k experts or more.
  int64_t groups, top_groups;
  int64_t first_expert;  ///< the first local expert
  int64_t local_experts; ///< 0: all from first_expert on
  int64_t align;         ///< of a group's first row, at most 4096; 0: 1
  double scale;          ///< a factor of all weights (routed_scaling_factor)
  // In device memory, each one optional.
  const float *logit_bias;    ///< [experts]
  const float *choice_bias;   ///< [experts], e_score_correction_bias
  const int32_t *token_count; ///< [1]: tokens from it on have no rows
  // Written.
  /// The choice of each row: tokens * top_k elements, with `align` above 1
  /// local_experts * (align - 1) more. Their number is m of the products, for
  /// which A has `tokens` rows, and D and weights have tokens * top_k.
  int32_t *index;
  int32_t *ends;   ///< [local_experts]: the row behind each group
  float *weights;  ///< [tokens][top_k], fp32
  int32_t *chosen; ///< [tokens][top_k], optional: the expert of each choice,
                   ///< local or not; -1 from token_count on
  int32_t *sizes;  ///< [local_experts], optional: the rows of each group
  uint64_t reserved[8];
} kiln_route_args;

/// Slots of a route in kiln_arguments.operands. Its scalar is scale.
enum kiln_route_slot {
  KILN_ROUTE_LOGITS = 0,
  KILN_ROUTE_LOGIT_BIAS = 1,
  KILN_ROUTE_CHOICE_BIAS = 2,
  KILN_ROUTE_TOKEN_COUNT = 3,
  KILN_ROUTE_INDEX = 4,
  KILN_ROUTE_ENDS = 5,
  KILN_ROUTE_WEIGHTS = 6,
  KILN_ROUTE_CHOSEN = 7,
  KILN_ROUTE_SIZES = 8,
  KILN_ROUTE_SLOT_COUNT = 9
};

//===----------------------------------------------------------------------===//
// Combine
//===----------------------------------------------------------------------===//

enum kiln_combine_flag {
  /// Rows of x are multiplied by weights. Without it they are weighted already
  /// (KILN_ROWS_WEIGHTS), and weights only tell which rows are there.
  KILN_COMBINE_APPLY_WEIGHTS = 1,
  /// The problem has weights although the address is null, as a problem that is
  /// described before its memory exists. A call does not need it.
  KILN_COMBINE_HAS_WEIGHTS = 2
};

/// The sum of the rows of each token's choices, with what follows it in a
/// layer:
///
///   h[t] = sum over j, in this order, of x[t * top_k + j]
///          + shared[t] + residual[t]
///   y[t] = h[t], or with a norm_weight h / sqrt(mean(h^2) + epsilon) *
///          norm_weight, as kiln_rms_norm computes it from h
///
/// The sum is fp32 and is rounded to x's type once, where it is stored or
/// normalised. With weights, a row of x whose weight is 0 (a choice that has no
/// row, see kiln_route_args) is not read and counts as 0.
///
/// shared (the result of shared experts), residual and norm_weight are
/// optional: present when their `type` is set, which is x's. With residual and
/// norm_weight, h is stored to residual_out; otherwise there is no
/// residual_out. residual_out may be residual exactly, and so may y without a
/// norm_weight. Nothing else that is written overlaps an operand.
///
/// Ranges of a problem (kiln_range) are of "tokens". If tokens or cols is 0,
/// the call succeeds and launches nothing. kiln_combine_args_init() gives
/// epsilon as 1e-5, which only a norm reads.
typedef struct kiln_combine_args {
  uint32_t struct_size;
  uint32_t flags; ///< kiln_combine_flag, kiln_call_flag
  int64_t tokens, cols;
  int64_t top_k;             ///< 1 to KILN_ROUTE_MAX_TOP_K
  double epsilon;            ///< not negative
  kiln_operand x;            ///< [tokens * top_k][cols]: bf16, fp16 or fp32
  kiln_operand y;            ///< [tokens][cols], x's type
  kiln_operand shared;       ///< [tokens][cols]
  kiln_operand residual;     ///< [tokens][cols]
  kiln_operand residual_out; ///< [tokens][cols]
  kiln_operand norm_weight;  ///< [cols]
  const float *weights;      ///< [tokens][top_k], fp32, optional
  kiln_determinism determinism;
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_combine_args;

/// Slots of a combine in kiln_arguments.operands. Its scalar is epsilon.
enum kiln_combine_slot {
  KILN_COMBINE_X = 0,
  KILN_COMBINE_Y = 1,
  KILN_COMBINE_SHARED = 2,
  KILN_COMBINE_RESIDUAL = 3,
  KILN_COMBINE_RESIDUAL_OUT = 4,
  KILN_COMBINE_NORM_WEIGHT = 5,
  KILN_COMBINE_WEIGHTS = 6,
  KILN_COMBINE_SLOT_COUNT = 7
};

#ifdef __cplusplus
} // extern "C"
#endif

/// Arguments of a route: scale is 1, the other fields are 0.
static inline kiln_route_args kiln_route_args_init(void) {
  kiln_route_args args = KILN_INIT(kiln_route_args);
  args.scale = 1;
  return args;
}

/// Arguments of a combine: epsilon is 1e-5, the other fields are 0.
static inline kiln_combine_args kiln_combine_args_init(void) {
  kiln_combine_args args = KILN_INIT(kiln_combine_args);
  args.epsilon = 1e-5;
  return args;
}

#endif // KILN_MOE_H
