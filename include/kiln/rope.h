//===- rope.h - rotary embedding and writes to KV caches ------------------===//
//
// The struct of kiln_rope: the rotation of queries and keys by their positions,
// with an RMSNorm of each head before it, and the write of keys and values into
// a paged cache (KV append), in one launch. Included by kiln.h, whose head
// states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ROPE_H
#define KILN_ROPE_H

#include "kiln/attention.h"
#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Which elements of the rotary part x[0 .. r) of a head are rotated together,
/// and where they go; j counts the r / 2 pairs.
typedef int32_t kiln_rope_style;
enum kiln_rope_style_value {
  /// x[j] with x[j + r / 2]: GPT-NeoX, and `rotate_half` of Hugging Face.
  KILN_ROPE_HALVES = 0,
  /// x[2j] with x[2j + 1]: GPT-J.
  KILN_ROPE_INTERLEAVED = 10,
  /// Read as interleaved, written as halves: DeepSeek in Hugging Face.
  KILN_ROPE_INTERLEAVED_TO_HALVES = 20
};

enum kiln_rope_flag {
  /// positions and slots are int64 instead of int32.
  KILN_ROPE_INT64 = 1,
  /// Weights of the norm are 1 + q_weight and 1 + k_weight: Gemma.
  KILN_ROPE_UNIT_OFFSET = 2,
  // A problem that is described before its memory exists has the array although
  // the address is null. A call does not need these flags.
  KILN_ROPE_HAS_SLOTS = 4,
  KILN_ROPE_HAS_PAGE_TABLE = 8,
  KILN_ROPE_HAS_SEQUENCES = 16,
  /// positions, slots, page_table and sequences are complete, like operands
  /// with KILN_OPERAND_CONSTANT: a dependent launch may read them at once.
  KILN_ROPE_CONSTANT_ARRAYS = 32
};

/// For each token t, at position p = positions[t]: q and k, normed where there
/// are weights, are rotated to q_out and k_out; k rotated and v go to the row
/// of token t in the caches.
///
/// Rotation. With a and b the elements of pair j, c = table[p][j] and
/// s = table[p][r / 2 + j]: a' = a c - b s, b' = b c + a s. The r elements of a
/// head from rotary_offset on are rotated, the others copied. kiln_rope_table()
/// makes tables; a factor of the attention (YaRN, LongRoPE) is multiplied into
/// them. A position outside of the table takes its nearest row.
///
/// Norm. With q_weight and k_weight, h = x / sqrt(mean(x^2) + epsilon) * weight
/// over the head_dim elements of each head takes x's place before the rotation:
/// Qwen3, Gemma 3. Either weight may be given alone. Arithmetic is fp32, and
/// results are rounded once.
///
/// Outputs. q_out and k_out without a type: q and k are rotated in place.
/// Exception: with caches, k without a k_out is left as it is. They may be q
/// and k exactly. Without heads there is no q: an append.
///
/// Caches. k_cache and v_cache have the shape [page][page_size][kv_heads]
/// [element] with any strides, like paged K and V of kiln_attention; a
/// batch_stride goes from page to page. Token t is written to row
/// slot % page_size of page slot / page_size. Its slot is slots[t], or, with a
/// page_table, page_table[n][p / page_size] * page_size + p % page_size, where
/// n is sequences[t], or t without sequences. A slot below 0, or a page outside
/// of [0, page_count): the token is not written, q is still rotated. Two tokens
/// of a launch with one slot leave a mixture of both there. Caches have q's
/// type or e4m3, as round(x / scale), saturated at +-448, with a scale of the
/// cache operand, which is read: one for all, one for each head, or 1 without.
/// Only one of the caches may be there (a latent cache: one head, no v).
///
/// Types. q, k, v, q_out and k_out have one type: bf16 or fp16. The table is
/// fp32 or has that type, as weights have. Outputs overlap nothing but,
/// exactly, their inputs; views of one packed QKV tensor may interleave.
///
/// CUDA graphs. Grid and kernel follow from the struct alone: between replays
/// all arrays and scales may change. All of them are in device memory, packed.
///
/// Ranges of a problem (kiln_range) are of "tokens". If tokens is 0, the call
/// succeeds and launches nothing.
typedef struct kiln_rope_args {
  uint32_t struct_size;
  kiln_rope_style style;
  int64_t tokens;
  int64_t heads;         ///< of q; 0: there is no q
  int64_t kv_heads;      ///< of k and v; 0: there is no k and no v
  int64_t head_dim;      ///< elements of a head of q and k, 1 to 576
  int64_t value_dim;     ///< of v; 0: head_dim
  int64_t rotary_dim;    ///< r, even; 0: nothing is rotated, no table is read
  int64_t rotary_offset; ///< r elements from here on fit into head_dim
  int64_t table_rows;    ///< positions that the table has
  double epsilon;        ///< of the norm, not negative; 0 without weights
  kiln_heads_operand q, k, v; ///< batch_stride is 0
  kiln_heads_operand q_out, k_out;
  kiln_heads_operand k_cache, v_cache;
  kiln_operand table;              ///< [table_rows][rotary_dim], packed
  kiln_operand q_weight, k_weight; ///< [head_dim]
  const void *positions;           ///< [tokens]; not read without rotary_dim
                                   ///< and page_table, and then null
  const void *slots;               ///< [tokens]; not with a page_table
  const int32_t *page_table;       ///< [page_table_rows][page_table_columns]
  const int32_t *sequences;        ///< [tokens]; null: token t is sequence t
  int64_t page_size;               ///< tokens of a page of the caches
  int64_t page_count;              ///< that the caches hold
  int64_t page_table_rows;         ///< 0: tokens; required with sequences
  int64_t page_table_columns;
  kiln_determinism determinism;
  uint32_t flags; ///< kiln_rope_flag, kiln_call_flag
  uint64_t reserved[8];
} kiln_rope_args;

/// Slots of a rope in kiln_arguments.operands. Its scalar is epsilon.
enum kiln_rope_slot {
  KILN_ROPE_Q = 0,
  KILN_ROPE_K = 1,
  KILN_ROPE_V = 2,
  KILN_ROPE_Q_OUT = 3, ///< without a q_out of its own: q
  KILN_ROPE_K_OUT = 4,
  KILN_ROPE_K_CACHE = 5,
  KILN_ROPE_V_CACHE = 6,
  KILN_ROPE_TABLE = 7,
  KILN_ROPE_Q_WEIGHT = 8,
  KILN_ROPE_K_WEIGHT = 9,
  KILN_ROPE_POSITIONS = 10,
  KILN_ROPE_SLOTS = 11,
  KILN_ROPE_PAGE_TABLE = 12,
  KILN_ROPE_SEQUENCES = 13,
  KILN_ROPE_K_SCALE = 14,
  KILN_ROPE_V_SCALE = 15,
  KILN_ROPE_SLOT_COUNT = 16
};

/// How the frequencies of a model are scaled, as configs of Hugging Face name
/// it ("rope_type"). w_j = base^(-2j / rotary_dim) is the frequency of pair j.
typedef int32_t kiln_rope_scaling;
enum kiln_rope_scaling_value {
  KILN_ROPE_SCALING_DEFAULT = 0, ///< w_j
  KILN_ROPE_SCALING_LINEAR = 10, ///< w_j / factor
  /// NTK by length: base grows with `length` beyond original_length.
  KILN_ROPE_SCALING_DYNAMIC = 20,
  /// Long waves are divided by factor, short ones kept, with a ramp between.
  KILN_ROPE_SCALING_LLAMA3 = 30,
  KILN_ROPE_SCALING_YARN = 40,
  /// w_j / factors[j].
  KILN_ROPE_SCALING_LONGROPE = 50
};

/// The table of a model's rotary embedding.
typedef struct kiln_rope_table_args {
  uint32_t struct_size;
  kiln_rope_scaling scaling;
  int64_t rows;            ///< positions 0 to rows - 1
  int64_t rotary_dim;      ///< even, 2 to 576
  double base;             ///< rope_theta; above 1
  double factor;           ///< of the scaling; 0 without one
  int64_t original_length; ///< original_max_position_embeddings
  int64_t length;          ///< dynamic: the longest sequence
  double low_frequency_factor, high_frequency_factor; ///< llama3
  double beta_fast, beta_slow;                        ///< yarn; 0: 32 and 1
  uint32_t keeps_fractions; ///< yarn: 1 is "truncate": false
  uint32_t reserved0;
  const double *factors; ///< longrope: [rotary_dim / 2], in host memory
  /// Multiplied into the table; 0: as the scaling has it, for yarn
  /// 0.1 ln(factor) + 1, for longrope sqrt(1 + ln(factor) /
  /// ln(original_length)), else 1.
  double attention_factor;
  uint64_t reserved[8];
} kiln_rope_table_args;

/// Writes the table [rows][rotary_dim] that kiln_rope reads to host memory at
/// \p table: cosines in the first half of a row, sines in the second. Computed
/// in fp64 and rounded once. Thread-safe; 10 ns a value.
KILN_API kiln_status kiln_rope_table(const kiln_rope_table_args *args,
                                     float *table) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_ROPE_H
