//===- text.h - texts, keys and names of kernels --------------------------===//
//
// The canonical text of a problem, its key in the cache, and the meaning of a
// kernel's name. Included by kiln.h, whose head states the rules that all of it
// follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_TEXT_H
#define KILN_TEXT_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Writes a problem's canonical text, defaults omitted.
/// Like every function here that writes text, it writes at most \p capacity
/// bytes with the ending null, cutting the text short if needed, and sets
/// \p length (may be null) to the whole text's length without the null; a null
/// buffer with capacity 0 asks for the length only.
/// Waits for nothing; needs no engine, driver or GPU.
/// Errors: KILN_INVALID_ARGUMENT, KILN_UNSUPPORTED.
KILN_API kiln_status kiln_problem_text(const kiln_problem *problem,
                                       char *buffer, size_t capacity,
                                       size_t *length) KILN_NOEXCEPT;

/// Writes the record key of a problem without ranges on the device of
/// \p stream (or of the engine's device_model): the key that a warm-up or pack
/// must hold for it. A problem with ranges may have several records:
/// kiln_problem_keys (explain.h) tells all of their keys, and those of the
/// artifacts.
/// Waits for nothing. Writes as kiln_problem_text does.
/// Errors: KILN_INVALID_ARGUMENT, also for ranges; KILN_UNSUPPORTED; errors of
/// the driver.
KILN_API kiln_status kiln_problem_key(kiln_engine *engine,
                                      const kiln_problem *problem,
                                      kiln_stream stream, char *buffer,
                                      size_t capacity,
                                      size_t *length) KILN_NOEXCEPT;

/// Tells which kernel has the name \p name, as Nsight Systems, Nsight Compute
/// and other profilers show it:
/// "kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig1f55". Writes the
/// family's name and, with a blank before it, the config: "gemm
/// sm90.bm128.bn256.bk64.st4.wg2.cm1.cn1". A kernel without a config has a role
/// instead: "gemm step gather", "softmax reference". Sets \p family (may be
/// null) to the family of the struct that describes such problems, or to
/// KILN_FAMILY_FROM_TEXT where there is none. The name ends with a tag that
/// problems with equal types, layouts and the like share; knobs that cost no
/// compilation are not in the name.
/// Waits for nothing; needs no engine, driver or GPU. Writes as
/// kiln_problem_text does.
/// Errors: KILN_INVALID_ARGUMENT if \p name is null or names no kernel of this
/// version, or \p buffer is null with a capacity; \p family and \p buffer
/// are then unchanged.
KILN_API kiln_status kiln_kernel_name_parse(const char *name,
                                            kiln_family *family, char *buffer,
                                            size_t capacity,
                                            size_t *length) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_TEXT_H
