//===- attention.h - attention over heads ---------------------------------===//
//
// The struct of kiln_attention: prefill, decode, and all between, with packed
// ("varlen") sequences and paged caches; and that of kiln_attention_merge.
// Included by kiln.h, whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ATTENTION_H
#define KILN_ATTENTION_H

#include "kiln/types.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The batch_stride of q, k or v of kiln_attention with which every sequence
/// reads the same rows, which begin at `data`. (0 is the stride of packed
/// sequences.)
#define KILN_SHARED_STRIDE (-1)

/// Q, K, V or O in device memory: rows of elements that follow each other, a
/// row for each head of each token of each sequence. Embedded by value: it
/// never changes its size, and its struct_size may stay 0.
///
/// Strides count elements from one row to that of the next token, head or
/// sequence; none is more than 2^40, or negative except for KILN_SHARED_STRIDE.
/// With 0 everywhere the layout is [batch][token][head][element]. Views of one
/// packed QKV tensor need a token_stride only, and
/// [batch][head][token][element] a token_stride and a head_stride.
typedef struct kiln_heads_operand {
  uint32_t struct_size;
  kiln_dtype type;
  /// First element; aligned to one element at least, and not null unless the
  /// launch has nothing to do or does not read it. Ignored where a problem is
  /// only described.
  void *data;
  int64_t token_stride; ///< 0: heads * elements of a row
  int64_t head_stride;  ///< 0: elements of a row. Ignored with one head.
  /// From sequence to sequence, for paged K and V from page to page. 0: no
  /// gaps, the larger of tokens * token_stride and heads * head_stride.
  /// KILN_SHARED_STRIDE: all sequences share one input, which has no pages.
  /// Ignored where sequences are packed.
  int64_t batch_stride;
  /// As in kiln_operand: bytes by which every address used for this operand
  /// will be aligned, a power of two; 0: as `data` is aligned, or 16 where
  /// the problem is only described.
  uint32_t alignment;
  uint32_t flags; ///< kiln_operand_flag
  /// Numbers above 0 that the elements of an e4m3 input are multiplied by: one
  /// for all, or one for each head of K. Other types have none.
  kiln_scale scale;
  uint64_t reserved[2];
} kiln_heads_operand;

/// Which keys j a query sees that stands at p.
typedef int32_t kiln_attention_mask;
enum kiln_attention_mask_value {
  KILN_ATTENTION_MASK_NONE = 0,
  KILN_ATTENTION_MASK_CAUSAL = 10, ///< j <= p
  KILN_ATTENTION_MASK_WINDOW = 20  ///< p - left <= j <= p + right
};

/// KILN_ATTENTION_HAS_...: a problem that is described before its memory exists
/// has the array, although the address is null. A call does not need these
/// flags. It needs KILN_ATTENTION_LATENT where v has another address or other
/// strides than k; KILN_ATTENTION_CACHED_KEYS is for calls alone.
enum kiln_attention_flag {
  KILN_ATTENTION_HAS_LSE = 1,
  KILN_ATTENTION_HAS_SINKS = 2,
  KILN_ATTENTION_HAS_ALIBI = 4,
  KILN_ATTENTION_HAS_QUERY_OFFSETS = 8,
  KILN_ATTENTION_HAS_KEY_OFFSETS = 16,
  KILN_ATTENTION_HAS_KEY_LENGTHS = 32,
  KILN_ATTENTION_HAS_PAGE_TABLE = 64,
  KILN_ATTENTION_HAS_PAGE_OFFSETS = 128,
  /// MLA (multi-head latent attention): V is the first value_dim elements of
  /// the rows of K, and only the scale of v is read; without one V has K's
  /// scale. A v with the address and the strides of k means the same.
  KILN_ATTENTION_LATENT = 256,
  /// For a launch with KILN_CALL_DEPENDENT, ignored by others: the keys of a
  /// cache are complete, as a constant operand is, except for the last tokens
  /// of each sequence, as many as it has queries; so are offsets, lengths and
  /// page numbers. The launch may read all of it at once, before the kernel
  /// ahead, which appends those tokens, has ended.
  KILN_ATTENTION_CACHED_KEYS = 512
};

/// O = softmax(S) V for each head of each sequence of a batch, with
/// S = scale * Q K^T, then softcap, then alibi, then the mask.
///
/// Query head h reads head h / (heads / kv_heads) of K and V. Query i of a
/// sequence with n queries and k keys stands at p = i + k - n: the last query
/// at the last key (a causal mask is "bottom-right aligned"). A row that sees
/// no key becomes 0, and its logarithm minus infinity. With keys = 0 that is
/// every row. If batch or queries is 0, the call succeeds and launches nothing.
///
/// Types. Q is bf16, fp16 or e4m3; K and V have one type, Q's or e4m3; O has
/// Q's type, or bf16 where Q is e4m3. Products accumulate in fp32.
///
/// Lengths. Without arrays every sequence has `queries` queries and `keys`
/// keys. query_offsets or key_offsets pack sequences one behind the other:
/// sequence b has the tokens from offsets[b] to offsets[b + 1] - 1 of one long
/// tensor (cu_seqlens). key_lengths[b] tokens of sequence b are used where each
/// has room for `keys`. `queries` and `keys` are then upper bounds of every
/// length; the closer, the better the choice. K and V may hold anything behind
/// a length, NaN as well. Rows of O and lse that belong to no query are left as
/// they are.
///
/// Pages. With a page_table K and V are pools of pages, page_size tokens each:
/// token t of sequence b is token t % page_size of page
/// page_table[b * page_table_columns + t / page_size]. With page_offsets, too,
/// it is page page_table[page_offsets[b] + t / page_size] of one list. Entries
/// behind the length of a sequence are not read. Entries before a window are
/// read: they name any page of the pool, which holds finite numbers. Lengths of
/// paged sequences are `keys` or key_lengths. A pool of [page][2][token][head]
/// [element] is two views with a batch_stride of 2 * page_size * kv_heads *
/// head_dim.
///
/// Device memory. All arrays are int32 or fp32 in device memory, aligned to
/// their elements, packed, read by the kernels in stream order and never
/// written, except for lse. An array that is null is not used. They, and all
/// data, belong to the caller and must stay until the launch has completed.
///
/// CUDA graphs. Grid, workspace and kernel follow from the struct alone. So
/// between replays of a captured launch the contents of every array may change
/// (offsets, lengths, tables, scales, sinks, alibi), as long as lengths stay
/// within `queries`, `keys`, total_queries and total_keys, and page numbers
/// below page_count. The fields of the struct stay as they were captured.
///
/// O and lse overlap neither each other nor anything that is read; rows of O do
/// not overlap. Q, K and V may overlap: views of one tensor.
///
/// Ranges of a problem (kiln_range) are of "batch", "sq" (queries) and "sk"
/// (keys); a hint of sk is keys_hint.
///
/// batch must be set: zero is an empty batch, and the call succeeds and
/// launches nothing. kiln_attention_args_init() gives it as 1. KILN_INIT() does
/// not, and no rule tells a forgotten batch from an empty one.
typedef struct kiln_attention_args {
  uint32_t struct_size;
  kiln_attention_mask mask;
  int64_t batch;     ///< sequences; 0: none, nothing is launched
  int64_t queries;   ///< of each sequence, or the most of any; below 2^31-2^16
  int64_t keys;      ///< likewise
  int64_t keys_hint; ///< expected keys of a sequence, where lengths are in
                     ///< device memory; 0: keys
  int64_t heads;     ///< of Q and O
  int64_t kv_heads;  ///< of K and V, divides heads; 0: heads
  int64_t head_dim;  ///< elements of a row of Q and K, 1 to 576
  int64_t value_dim; ///< of a row of V and O; 0: head_dim
  /// For KILN_ATTENTION_MASK_WINDOW: keys before and behind p that are seen;
  /// -1: all. 0 with other masks.
  int64_t left, right;
  double scale;         ///< positive; 0: 1 / sqrt(head_dim)
  double softcap;       ///< above 0, s becomes softcap * tanh(s / softcap)
  kiln_heads_operand q; ///< its type is required
  kiln_heads_operand k; ///< type: Q's by default
  kiln_heads_operand v; ///< type: K's, the only one allowed
  kiln_heads_operand o; ///< type: Q's by default; bf16 where Q is e4m3
  /// Natural logarithm of the sum of exp(s) of each row, sinks included:
  /// [batch][heads][queries], with query_offsets [heads][total_queries].
  float *lse;
  /// [heads]: logits that take part in the sum of a row and have no value.
  const float *sinks;
  const float *alibi;           ///< [heads]: slope, slope * (j - p) is added
  const int32_t *query_offsets; ///< [batch + 1], not decreasing
  const int32_t *key_offsets;   ///< [batch + 1], not decreasing
  const int32_t *key_lengths;   ///< [batch]; not together with key_offsets
  const int32_t *page_table;    ///< [batch][page_table_columns], or the list
  const int32_t *page_offsets;  ///< [batch + 1]: where each sequence's pages
                                ///< begin in the list (CSR)
  int64_t page_size;            ///< tokens; required with a page_table
  int64_t page_count; ///< that K and V hold; 0: as many as the keys need
  /// Entries of a row of page_table; 0: ceil(keys / page_size). With
  /// page_offsets all entries of the list; 0: batch times that.
  int64_t page_table_columns;
  int64_t total_queries; ///< rows of Q and O, packed; 0: batch * queries
  int64_t total_keys;    ///< of K and V, packed; 0: batch * keys
  /// Not 0: a row has the same bits in any batch, if nothing else differs. Keys
  /// that several blocks share are divided into splits of this many tokens,
  /// counted from the first key that is seen. 0: the fastest division.
  int64_t split;
  kiln_determinism determinism;
  uint32_t flags; ///< kiln_attention_flag, kiln_call_flag
  uint64_t reserved[8];
} kiln_attention_args;

/// Slots of an attention in kiln_arguments.operands. Its scalars are scale and
/// softcap; in a problem made without a softcap it stays 0.
enum kiln_attention_slot {
  KILN_ATTENTION_Q = 0,
  KILN_ATTENTION_K = 1,
  KILN_ATTENTION_V = 2,
  KILN_ATTENTION_O = 3,
  KILN_ATTENTION_LSE = 4,
  KILN_ATTENTION_QUERY_OFFSETS = 5,
  KILN_ATTENTION_KEY_OFFSETS = 6,
  KILN_ATTENTION_KEY_LENGTHS = 7,
  KILN_ATTENTION_PAGE_TABLE = 8,
  KILN_ATTENTION_PAGE_OFFSETS = 9,
  KILN_ATTENTION_SINKS = 10,
  KILN_ATTENTION_ALIBI = 11,
  KILN_ATTENTION_Q_SCALE = 12,
  KILN_ATTENTION_K_SCALE = 13,
  KILN_ATTENTION_V_SCALE = 14,
  KILN_ATTENTION_SLOT_COUNT = 15
};

/// O = the attention over all keys, merged from the same queries' attentions
/// over two parts of the keys: with M = max(lse1, lse2) and w = exp(lse - M) of
/// each part, O = (w1 O1 + w2 O2) / (w1 + w2) and lse = M + ln(w1 + w2).
///
/// A part whose lse is minus infinity counts nothing, whatever its O holds.
/// Where both parts have such an lse, O is 0 and lse minus infinity. Logarithms
/// are natural, fp32, [batch][heads][queries]: as kiln_attention writes them.
/// With packed sequences batch is 1 and queries is total_queries.
///
/// Types: O1 is bf16, fp16 or fp32, O2 has O1's type, and O may be any of the
/// three. If batch or queries is 0, the call succeeds and launches nothing.
///
/// O may be O1 exactly, with its address, strides and width of elements, lse
/// may be lse1. Nothing else that is written may overlap an operand.
///
/// batch must be set: zero is an empty batch, and the call succeeds and
/// launches nothing. kiln_attention_merge_args_init() gives it as 1;
/// KILN_INIT() does not.
typedef struct kiln_attention_merge_args {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t batch, queries, heads;
  int64_t value_dim;     ///< elements of a row
  kiln_heads_operand o1; ///< its type is required
  kiln_heads_operand o2; ///< type: O1's, the only one allowed
  kiln_heads_operand o;  ///< type: O1's by default
  const float *lse1;     ///< aligned to its elements, as lse2 and lse
  const float *lse2;
  float *lse;     ///< null: not wanted, unless its flag is set
  uint32_t flags; ///< KILN_ATTENTION_HAS_LSE, kiln_call_flag
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_attention_merge_args;

/// Slots of a merge in kiln_arguments.operands.
enum kiln_attention_merge_slot {
  KILN_ATTENTION_MERGE_O1 = 0,
  KILN_ATTENTION_MERGE_LSE1 = 1,
  KILN_ATTENTION_MERGE_O2 = 2,
  KILN_ATTENTION_MERGE_LSE2 = 3,
  KILN_ATTENTION_MERGE_O = 4,
  KILN_ATTENTION_MERGE_LSE = 5,
  KILN_ATTENTION_MERGE_SLOT_COUNT = 6
};

#ifdef __cplusplus
} // extern "C"
#endif

/// Arguments of one batch: batch is 1, the other fields are 0.
static inline kiln_attention_merge_args kiln_attention_merge_args_init(void) {
  kiln_attention_merge_args args = KILN_INIT(kiln_attention_merge_args);
  args.batch = 1;
  return args;
}

/// Arguments of one sequence: batch is 1, the other fields are 0.
static inline kiln_attention_args kiln_attention_args_init(void) {
  kiln_attention_args args = KILN_INIT(kiln_attention_args);
  args.batch = 1;
  return args;
}

/// An fp32 scale for each head of K at \p data, in device memory.
static inline kiln_scale kiln_head_scales_init(void *data) {
  kiln_scale scale = kiln_tensor_scale_init(data);
  scale.granularity = KILN_GRANULARITY_HEAD;
  return scale;
}

#endif // KILN_ATTENTION_H
