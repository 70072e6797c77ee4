//===- launch.h - calls that enqueue kernels ------------------------------===//
//
// One function for each family, and kiln_run for any. Included by kiln.h, whose
// head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LAUNCH_H
#define KILN_LAUNCH_H

#include "kiln/allreduce.h"
#include "kiln/attention.h"
#include "kiln/gather.h"
#include "kiln/gemm.h"
#include "kiln/moe.h"
#include "kiln/prepack.h"
#include "kiln/rope.h"
#include "kiln/rows.h"
#include "kiln/sample.h"
#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Enqueues one GEMM on \p stream.
/// Waits: a call whose plan is loaded (a hit) waits for nothing, allocates
/// nothing and takes no lock: well under a microsecond above the driver's
/// launch. Only where its plan has a workspace does it wait while another
/// thread enqueues such a plan on the same stream, so that their kernels do not
/// mix. The first call of a problem in a context waits for a compilation and
/// for trials, as the engine's mode says: seconds. For a value of a prepared
/// range it only chooses, in some 10 us, also during a capture.
/// Memory: \p workspace may be null (see kiln_workspace). The struct is read
/// before the call returns; the operands stay until the launch has completed.
/// Errors: see kiln_status; never KILN_IO. Nothing was enqueued if it fails,
/// except that after KILN_DRIVER_ERROR and KILN_CONTEXT_DEAD a part of the
/// plan's steps may be.
KILN_API kiln_status kiln_gemm(kiln_engine *engine, const kiln_gemm_args *args,
                               const kiln_workspace *workspace,
                               kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one attention (attention.h); nothing if batch or queries is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_attention(kiln_engine *engine,
                                    const kiln_attention_args *args,
                                    const kiln_workspace *workspace,
                                    kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one merge of the attentions over two parts of the keys
/// (attention.h); nothing if batch or queries is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_attention_merge(kiln_engine *engine,
                                          const kiln_attention_merge_args *args,
                                          const kiln_workspace *workspace,
                                          kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one elementwise chain, copy or cast (rows.h); nothing if rows or
/// cols is 0. Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_elementwise(kiln_engine *engine,
                                      const kiln_elementwise_args *args,
                                      const kiln_workspace *workspace,
                                      kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one reduction (rows.h). With nothing to reduce it fails:
/// KILN_INVALID_ARGUMENT.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_reduce(kiln_engine *engine,
                                 const kiln_reduce_args *args,
                                 const kiln_workspace *workspace,
                                 kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one softmax over rows (rows.h); nothing if rows or cols is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_softmax(kiln_engine *engine,
                                  const kiln_softmax_args *args,
                                  const kiln_workspace *workspace,
                                  kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one RMSNorm over rows (rows.h); nothing if rows or cols is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_rms_norm(kiln_engine *engine,
                                   const kiln_norm_args *args,
                                   const kiln_workspace *workspace,
                                   kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one LayerNorm over rows (rows.h); nothing if rows or cols is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_layer_norm(kiln_engine *engine,
                                     const kiln_norm_args *args,
                                     const kiln_workspace *workspace,
                                     kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one quantisation with a scale for each row (rows.h); nothing if
/// rows or cols is 0. Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_quantize(kiln_engine *engine,
                                   const kiln_quantize_args *args,
                                   const kiln_workspace *workspace,
                                   kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one transposition (rows.h); nothing if rows or cols is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_transpose(kiln_engine *engine,
                                    const kiln_transpose_args *args,
                                    const kiln_workspace *workspace,
                                    kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues the packing of one weight (prepack.h), once when a model is loaded;
/// nothing if n or k is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_prepack(kiln_engine *engine,
                                  const kiln_prepack_args *args,
                                  const kiln_workspace *workspace,
                                  kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one rotary embedding, and the write into caches (rope.h); nothing
/// if tokens is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_rope(kiln_engine *engine, const kiln_rope_args *args,
                               const kiln_workspace *workspace,
                               kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one move of rows by index (gather.h); nothing if batch, rows or
/// cols is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_gather(kiln_engine *engine,
                                 const kiln_gather_args *args,
                                 const kiln_workspace *workspace,
                                 kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues the choice of a token for each row of logits (sample.h); nothing if
/// rows is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_sample(kiln_engine *engine,
                                 const kiln_sample_args *args,
                                 const kiln_workspace *workspace,
                                 kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues the choice of experts for each token, and the sort of the choices
/// (moe.h); nothing if tokens is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_route(kiln_engine *engine,
                                const kiln_route_args *args,
                                const kiln_workspace *workspace,
                                kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues the sum of the rows of each token's choices (moe.h); nothing if
/// tokens or cols is 0.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_combine(kiln_engine *engine,
                                  const kiln_combine_args *args,
                                  const kiln_workspace *workspace,
                                  kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues one sum over the ranks of a group (allreduce.h); nothing if rows or
/// cols is 0. The kernel waits for the same call of all other ranks.
/// Waits, memory and errors: as kiln_gemm.
KILN_API kiln_status kiln_allreduce(kiln_engine *engine,
                                    const kiln_allreduce_args *args,
                                    const kiln_workspace *workspace,
                                    kiln_stream stream) KILN_NOEXCEPT;

/// Enqueues a problem of any family, described by text or by a struct.
/// Waits, memory and errors: as kiln_gemm. A problem given as text is parsed by
/// each call, which costs microseconds: use a plan in a loop.
/// \p problem and \p arguments are read before the call returns.
KILN_API kiln_status kiln_run(kiln_engine *engine, const kiln_problem *problem,
                              const kiln_arguments *arguments,
                              const kiln_workspace *workspace,
                              kiln_stream stream) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_LAUNCH_H
