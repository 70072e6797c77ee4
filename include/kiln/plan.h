//===- plan.h - chosen and loaded kernels ---------------------------------===//
//
// A plan is one chosen and loaded way to compute one problem in one context.
// Included by kiln.h, whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_PLAN_H
#define KILN_PLAN_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Chooses and loads a plan for \p problem in \p stream's context. The plan
/// stays the same until it is released, whatever tuning finds later. Where
/// later trials find its results wrong, its next launch warns on the log, once.
/// Waits for a compilation and trials as the first call of the problem would.
/// In the mode background it waits for the estimator's choice, where a call
/// would take a kernel that is loaded.
/// The caller owns the plan and ends it with kiln_plan_release.
/// Errors: as kiln_gemm (launch.h).
KILN_API kiln_status kiln_plan_acquire(kiln_engine *engine,
                                       const kiln_problem *problem,
                                       kiln_stream stream,
                                       kiln_plan **plan) KILN_NOEXCEPT;

/// Tells the workspace that each launch of the plan needs, over the whole range
/// of a problem with ranges. Waits for nothing.
/// Errors: KILN_INVALID_ARGUMENT.
KILN_API kiln_status kiln_plan_workspace(
    const kiln_plan *plan, kiln_workspace_info *info) KILN_NOEXCEPT;

/// Enqueues the plan on \p stream, which must be of the plan's context: the
/// cheapest way to launch, without a look-up. Operands are as in the problem
/// that the plan was acquired for, except for the values in \p arguments.
/// Waits as a hit of kiln_gemm does: for nothing but another thread that
/// enqueues a plan with a workspace on the same stream.
/// \p arguments is read before the call returns; the operands stay until the
/// launch has completed.
/// Errors: as kiln_gemm (launch.h).
KILN_API kiln_status kiln_plan_launch(const kiln_plan *plan,
                                      const kiln_arguments *arguments,
                                      const kiln_workspace *workspace,
                                      kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues the plan with the addresses, scalars and strides of \p args, the
/// struct of \p family. If the plan's problem has ranges, the dynamic extents
/// are taken from it as well.
/// Waits and memory: as kiln_plan_launch.
/// Errors: KILN_INVALID_ARGUMENT if \p args is not a call of the plan's problem
/// (another size, type, leading dimension or chain, an extent outside of its
/// range, less alignment); else as kiln_plan_launch.
KILN_API kiln_status kiln_plan_launch_call(const kiln_plan *plan,
                                           kiln_family family, const void *args,
                                           const kiln_workspace *workspace,
                                           kiln_stream stream) KILN_NOEXCEPT;

typedef int32_t kiln_role;
enum kiln_role_value {
  KILN_ROLE_INPUT = 0,
  KILN_ROLE_OUTPUT = 10,
  KILN_ROLE_IN_OUT = 20,
  KILN_ROLE_CONSTANT = 30
};

/// One operand of a plan.
typedef struct kiln_operand_info {
  uint32_t struct_size;
  uint32_t slot; ///< its index in kiln_arguments.operands
  kiln_dtype type;
  kiln_role role;
  const char *name;   ///< valid until the plan is released
  uint64_t bytes;     ///< from the first to the last byte used
  uint32_t alignment; ///< in bytes, that launches must keep
  uint32_t reserved0;
  uint64_t reserved[4];
} kiln_operand_info;

/// Tells the plan's \p index-th operand, from 0. Waits for nothing.
/// The name in \p info belongs to the plan.
/// Errors: KILN_INVALID_ARGUMENT past the last operand.
KILN_API kiln_status kiln_plan_operand(const kiln_plan *plan, uint32_t index,
                                       kiln_operand_info *info) KILN_NOEXCEPT;

/// Writes one line on the plan: problem, config, source and times.
/// Waits for nothing. Writes as kiln_problem_text (text.h) does.
/// Errors: KILN_INVALID_ARGUMENT.
KILN_API kiln_status kiln_plan_describe(const kiln_plan *plan, char *buffer,
                                        size_t capacity,
                                        size_t *length) KILN_NOEXCEPT;

/// Gives a plan back; its kernels stay loaded. Waits for nothing: launches of
/// it may be in flight. The last call on the plan. Null is allowed.
KILN_API void kiln_plan_release(kiln_plan *plan) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_PLAN_H
