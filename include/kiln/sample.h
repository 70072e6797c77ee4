//===- sample.h - the next token of each sequence -------------------------===//
//
// The struct of kiln_sample: greedy and random sampling from logits, with
// temperature, top-k, top-p, min-p, penalties and log probabilities, in one
// launch. Included by kiln.h, whose head states the rules that all of it
// follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_SAMPLE_H
#define KILN_SAMPLE_H

#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The most tokens whose log probabilities are given for a row.
#define KILN_SAMPLE_MAX_TOP 32

enum kiln_sample_flag {
  /// tokens and top_tokens are int64 instead of int32.
  KILN_SAMPLE_INT64 = 1,
  /// top_p is a share of all mass (FlashInfer's joint order) instead of the
  /// mass that top_k leaves.
  KILN_SAMPLE_JOINT = 2,
  /// Each element of positions and lengths is increased by 1 after it was read.
  KILN_SAMPLE_ADVANCE = 4,
  // For a problem that is described before its memory exists: it has the array
  // although the address is null. A call does not need these flags.
  KILN_SAMPLE_HAS_TEMPERATURE = 0x10,
  KILN_SAMPLE_HAS_TOP_K = 0x20,
  KILN_SAMPLE_HAS_TOP_P = 0x40,
  KILN_SAMPLE_HAS_MIN_P = 0x80,
  KILN_SAMPLE_HAS_REPETITION = 0x100,
  KILN_SAMPLE_HAS_FREQUENCY = 0x200,
  KILN_SAMPLE_HAS_PRESENCE = 0x400,
  KILN_SAMPLE_HAS_ALLOWED = 0x800,
  KILN_SAMPLE_HAS_LOGPROBS = 0x1000,
  KILN_SAMPLE_HAS_LENGTHS = 0x2000
};

/// A token for each row of logits [rows][vocab]. All arithmetic is fp32. A row
/// takes these steps, in vLLM's order; a step whose array is null is left out.
///
/// 1. Logits are multiplied by `scale`, then softcap * tanh(x / softcap).
///    logprobs and top_logprobs are of the softmax of these.
/// 2. Tokens whose bit in `allowed` is clear become minus infinity.
/// 3. Penalties, by the tokens of the row's history: x > 0 ? x / repetition :
///    x * repetition for tokens of prompt and output; x -= frequency * (times
///    in the output); x -= presence for tokens of the output.
/// 4. temperature 0 (or NaN): the greatest logit wins, the lowest token among
///    equals, and the steps below are left out. Without a temperature array
///    that holds for all rows. Else x /= temperature.
/// 5. min_p: tokens with less than min_p times the greatest probability leave.
/// 6. top_k: the k greatest stay, and among equals the lowest tokens; k <= 0:
///    all.
/// 7. top_p: the smallest set of the greatest probabilities stays whose sum,
///    relative to the mass that 5 and 6 left, reaches top_p; among equals the
///    lowest tokens. At least one stays; top_p >= 1: all. With
///    KILN_SAMPLE_JOINT relative to all mass that 5 left.
/// 8. A token is drawn from the softmax of the rest: the greatest x + g wins,
///    where g = -ln(-ln(u)) is a Gumbel number. u is the Philox4x32-10 number
///    (Salmon et al., 2011) with key seeds[row] and counter (token / 4, 0,
///    positions[row], 0), word token % 4, as (2 word + 1) / 2^33. So a token
///    depends on its logits, seed and position alone: never on the batch, the
///    kernel or the device, as far as logits are equal.
///
/// A row in which no logit is above minus infinity gives token 0, one with a
/// NaN the lowest token whose logit is NaN, else one with plus infinity the
/// lowest such token, at any temperature. So does a row whose greatest logit
/// over the temperature is no finite number: the greatest logit wins. Where the
/// logits of step 1 have no softmax, for the first three reasons, all log
/// probabilities are NaN. top_tokens then begin with tokens whose logit is NaN.
///
/// CUDA graphs. Grid, workspace and kernel follow from the struct alone.
/// Between replays the contents of all arrays may change. With
/// KILN_SAMPLE_ADVANCE a graph of a decoding step feeds itself: tokens are the
/// indices of the next gather, positions and lengths those of the next rope and
/// attention.
///
/// Nothing that is written overlaps an operand. Ranges of a problem
/// (kiln_range) are of "rows". If rows is 0, the call succeeds and launches
/// nothing; without a vocabulary there is no token: KILN_INVALID_ARGUMENT.
typedef struct kiln_sample_args {
  uint32_t struct_size;
  uint32_t flags;      ///< kiln_sample_flag, kiln_call_flag
  int64_t rows, vocab; ///< vocab: 1 to 2^24
  kiln_operand logits; ///< bf16, fp16 or fp32
  double scale;        ///< kiln_sample_args_init() gives it as 1; not 0
  double softcap;      ///< above 0: the cap
  // A value for each row, in device memory.
  const float *temperature, *top_p, *min_p; ///< none is negative
  const float *repetition, *frequency, *presence;
  const int32_t *top_k;
  const uint64_t *seeds; ///< required with a temperature
  int32_t *positions;    ///< required with a temperature or ADVANCE
  int32_t *lengths;      ///< only with ADVANCE
  /// Row r's tokens are history[history_begins[r]] to
  /// history[history_ends[r] - 1], of which the first prompt_lengths[r] are the
  /// prompt's. Required with a penalty. A row without tokens has an end that is
  /// not behind its begin. Tokens outside of the vocabulary and places outside
  /// of [0, history_count) are ignored.
  const int32_t *history, *history_begins, *history_ends, *prompt_lengths;
  /// Elements that history has room for, 1 or more with a penalty.
  int64_t history_count;
  const uint32_t *allowed; ///< [rows][ceil(vocab / 32)], bit token % 32
  void *tokens;            ///< [rows]
  float *logprobs;         ///< [rows], of the tokens
  /// 0 to KILN_SAMPLE_MAX_TOP, at most vocab; above 0 both arrays are there.
  int64_t top_count;
  /// [rows][top_count]: the most probable tokens of step 1, the most probable
  /// first, of equals the lowest.
  void *top_tokens;
  float *top_logprobs;
  kiln_determinism determinism;
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_sample_args;

/// Slots of a sample in kiln_arguments.operands. Its scalars are scale and
/// softcap.
enum kiln_sample_slot {
  KILN_SAMPLE_LOGITS = 0,
  KILN_SAMPLE_TEMPERATURE = 1,
  KILN_SAMPLE_TOP_K = 2,
  KILN_SAMPLE_TOP_P = 3,
  KILN_SAMPLE_MIN_P = 4,
  KILN_SAMPLE_REPETITION = 5,
  KILN_SAMPLE_FREQUENCY = 6,
  KILN_SAMPLE_PRESENCE = 7,
  KILN_SAMPLE_SEEDS = 8,
  KILN_SAMPLE_POSITIONS = 9,
  KILN_SAMPLE_LENGTHS = 10,
  KILN_SAMPLE_HISTORY = 11,
  KILN_SAMPLE_HISTORY_BEGINS = 12,
  KILN_SAMPLE_HISTORY_ENDS = 13,
  KILN_SAMPLE_PROMPT_LENGTHS = 14,
  KILN_SAMPLE_ALLOWED = 15,
  KILN_SAMPLE_TOKENS = 16,
  KILN_SAMPLE_LOGPROBS = 17,
  KILN_SAMPLE_TOP_TOKENS = 18,
  KILN_SAMPLE_TOP_LOGPROBS = 19,
  KILN_SAMPLE_SLOT_COUNT = 20
};

#ifdef __cplusplus
} // extern "C"
#endif

/// Arguments of a greedy choice: scale is 1, the other fields are 0.
static inline kiln_sample_args kiln_sample_args_init(void) {
  kiln_sample_args args = KILN_INIT(kiln_sample_args);
  args.scale = 1;
  return args;
}

#endif // KILN_SAMPLE_H
