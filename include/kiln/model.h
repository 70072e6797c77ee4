//===- model.h - the problems of a language model -------------------------===//
//
// From the config.json of a model to the problems that an engine which serves
// it prepares, without the engine, its memory or a GPU. Included by kiln.h,
// whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_MODEL_H
#define KILN_MODEL_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The weights of a layer's products. Activations are bf16; the head and the
/// router of experts are bf16 in all formats.
typedef int32_t kiln_model_format;
enum kiln_model_format_value {
  KILN_MODEL_BF16 = 0,
  /// W8A8: e4m3 with a scale for each row of A (per token) and of B (per
  /// channel). Norms and SwiGLU write rows that are quantised.
  KILN_MODEL_FP8 = 10,
  /// W4A16: packed int4 with an fp16 scale for 128 k (64 or 32 where k is no
  /// multiple), without zero points.
  KILN_MODEL_W4 = 20,
  /// MXFP4: packed e2m1 with a power of two for 32 k. In gpt-oss only experts
  /// have it, as published; a config.json that says so has it in
  /// KILN_MODEL_BF16 as well.
  KILN_MODEL_MXFP4 = 30
};

/// Bits of kiln_model_options.flags.
enum kiln_model_flag {
  /// The ranks add up by NCCL or another library: the norm behind a sum adds
  /// the residual. Without it kiln_allreduce adds up, adds the residual and
  /// norms in one launch.
  KILN_MODEL_NCCL = 1
};

/// How the model is served; 0 is the default of every field.
typedef struct kiln_model_options {
  uint32_t struct_size;
  uint32_t flags; ///< kiln_model_flag
  kiln_model_format format;
  kiln_dtype cache_type; ///< KILN_BF16 (default), or KILN_E4M3: one scale each
  /// Tensor parallelism: problems are those of one rank. A rank has its share
  /// of heads, of rows of gate, up and the head, and of columns of o and down.
  /// Ranks beyond the heads of K and V share them. More than 8 ranks need
  /// KILN_MODEL_NCCL. 0: 1.
  int64_t ranks;
  int64_t max_tokens;    ///< of a step; 0: 8192
  int64_t max_batch;     ///< sequences of a step; 0: 256
  int64_t max_positions; ///< of a sequence; 0: the model's, 8192 at most
  int64_t page_tokens;   ///< of the KV cache; 0: 64
  uint64_t reserved[8];
} kiln_model_options;

/// Gets one problem: a text with ranges, which kiln_prepare takes, and a name
/// such as "gate and up". Both are valid during the call. A result other than 0
/// ends the list.
typedef int32_t (*kiln_model_problem_fn)(void *user, const char *name,
                                         const kiln_problem *problem);

/// Calls \p take for each problem of the model with \p config_json, the text of
/// its config.json as transformers writes it: models of the types llama,
/// mistral, qwen2, qwen3, mixtral, qwen3_moe and gpt_oss. To warm a cache up
/// for it, give the problems to a kiln_prepare with KILN_PREPARE_COMPILE_ONLY;
/// `kiln warmup --model` does that. An engine with the same problems then finds
/// all of them: examples/llama is one. Waits for nothing; needs no engine,
/// driver or GPU. Errors: KILN_INVALID_ARGUMENT (the message names the key or
/// the option); KILN_UNSUPPORTED, also for several ranks of a model with sinks
/// or with a bias on o, and for gpt_oss in KILN_MODEL_FP8 or KILN_MODEL_W4;
/// KILN_CANCELLED if \p take ended it.
KILN_API kiln_status kiln_model_problems(const char *config_json,
                                         const kiln_model_options *options,
                                         kiln_model_problem_fn take,
                                         void *user) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_MODEL_H
