//===- attention.hpp - the builder of attention over kiln.h ---------------===//
//
// The classes of kiln.hpp for the structs of attention.h, like those of
// problems.hpp.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ATTENTION_HPP
#define KILN_ATTENTION_HPP

#include "kiln/problems.hpp"

namespace kiln {
inline namespace v1 {

namespace detail {
inline void place(kiln_heads_operand &operand, const void *data,
                  int64_t tokenStride, int64_t headStride,
                  int64_t batchStride) noexcept {
  // The C struct has one pointer type for all roles; inputs are only read.
  operand.data = const_cast<void *>(data);
  operand.token_stride = tokenStride;
  operand.head_stride = headStride;
  operand.batch_stride = batchStride;
}
} // namespace detail

static_assert(detail::Slots::kCount >= KILN_ATTENTION_SLOT_COUNT &&
                  KILN_ATTENTION_Q == 0 && KILN_ATTENTION_O == 3,
              "every operand has its slot");

/// O = softmax(scale * Q K^T + mask) V for each head of each sequence: a
/// kiln_attention_args with setters. Strides count elements; strides of 0 mean
/// packed, [batch][token][head][element]. Addresses may be left out where the
/// problem is only described.
class Attention {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_ATTENTION;
  static constexpr auto kLaunch = &kiln_attention;

  /// Q, K, V and O have \p type; with e4m3 O is bf16. \p queries and \p keys
  /// are the lengths of each sequence, or the largest.
  Attention(kiln_dtype type, int64_t batch, int64_t queries, int64_t keys,
            int64_t heads, int64_t headDim) noexcept {
    values.batch = batch;
    values.queries = queries;
    values.keys = keys;
    values.heads = heads;
    values.head_dim = headDim;
    values.q.type = type;
  }

  /// Heads of K and V, where they are fewer.
  Attention &kvHeads(int64_t count) noexcept {
    return set(values.kv_heads, count);
  }
  /// Elements of a row of V and O, where they differ from those of Q and K.
  Attention &valueDim(int64_t dim) noexcept {
    return set(values.value_dim, dim);
  }
  /// Type of K and V.
  Attention &keyValueType(kiln_dtype type) noexcept {
    values.v.type = type;
    return set(values.k.type, type);
  }
  Attention &outputType(kiln_dtype type) noexcept {
    return set(values.o.type, type);
  }

  Attention &q(const void *data, int64_t tokenStride = 0,
               int64_t headStride = 0, int64_t batchStride = 0) noexcept {
    return place(values.q, data, tokenStride, headStride, batchStride);
  }
  /// With paged K and V a batch stride leads from page to page. With
  /// KILN_SHARED_STRIDE all sequences share one input.
  Attention &k(const void *data, int64_t tokenStride = 0,
               int64_t headStride = 0, int64_t batchStride = 0) noexcept {
    return place(values.k, data, tokenStride, headStride, batchStride);
  }
  Attention &v(const void *data, int64_t tokenStride = 0,
               int64_t headStride = 0, int64_t batchStride = 0) noexcept {
    return place(values.v, data, tokenStride, headStride, batchStride);
  }
  /// V is the first \p valueDim elements of the rows of K, in place of v().
  Attention &latent(int64_t valueDim) noexcept {
    values.flags |= KILN_ATTENTION_LATENT;
    return set(values.value_dim, valueDim);
  }
  Attention &o(void *data, int64_t tokenStride = 0, int64_t headStride = 0,
               int64_t batchStride = 0) noexcept {
    return place(values.o, data, tokenStride, headStride, batchStride);
  }
  /// Natural logarithms of the sums, fp32: [batch][heads][queries], or
  /// [heads][all queries] if queries are packed.
  Attention &lse(float *data) noexcept {
    return array(values.lse, data, KILN_ATTENTION_HAS_LSE);
  }

  /// A query sees the keys up to its place; the last stands at the last key.
  Attention &causal() noexcept {
    return set(values.mask, kiln_attention_mask(KILN_ATTENTION_MASK_CAUSAL));
  }
  /// A query sees \p left keys before its place and \p right keys behind it;
  /// -1: all.
  Attention &window(int64_t left, int64_t right) noexcept {
    values.left = left;
    values.right = right;
    return set(values.mask, kiln_attention_mask(KILN_ATTENTION_MASK_WINDOW));
  }
  /// The factor of Q K^T; without it 1 / sqrt(head_dim).
  Attention &scale(double factor) noexcept { return set(values.scale, factor); }
  Attention &softcap(double cap) noexcept { return set(values.softcap, cap); }
  /// The launch may begin before the kernel ahead of it has ended: see
  /// KILN_CALL_DEPENDENT.
  Attention &dependent(bool value = true) noexcept {
    detail::setDependent(values.flags, value);
    return *this;
  }
  /// A logit for each head, which takes part in the sum of a row alone.
  Attention &sinks(const float *data) noexcept {
    return array(values.sinks, data, KILN_ATTENTION_HAS_SINKS);
  }
  /// A slope for each head: slope * (j - p) is added.
  Attention &alibi(const float *data) noexcept {
    return array(values.alibi, data, KILN_ATTENTION_HAS_ALIBI);
  }

  /// Sequences lie one behind the other: sequence b begins at token offsets[b].
  /// \p total: rows of Q and O; 0: batch * queries.
  Attention &queryOffsets(const int32_t *offsets, int64_t total = 0) noexcept {
    values.total_queries = total;
    return array(values.query_offsets, offsets,
                 KILN_ATTENTION_HAS_QUERY_OFFSETS);
  }
  /// The same for K and V, which are not paged.
  Attention &keyOffsets(const int32_t *offsets, int64_t total = 0) noexcept {
    values.total_keys = total;
    return array(values.key_offsets, offsets, KILN_ATTENTION_HAS_KEY_OFFSETS);
  }
  /// The number of keys of each sequence that are used.
  Attention &keyLengths(const int32_t *lengths) noexcept {
    return array(values.key_lengths, lengths, KILN_ATTENTION_HAS_KEY_LENGTHS);
  }
  /// All but the newest tokens of K and V, and the arrays, are complete: see
  /// KILN_ATTENTION_CACHED_KEYS.
  Attention &cachedKeys() noexcept {
    values.flags |= KILN_ATTENTION_CACHED_KEYS;
    return *this;
  }
  /// The expected length, where lengths are in device memory.
  Attention &keysHint(int64_t keys) noexcept {
    return set(values.keys_hint, keys);
  }
  /// K and V are pools of \p count pages (0: as many as the keys need), whose
  /// numbers \p table has: a row of \p columns (0: as many as the keys need)
  /// for each sequence.
  Attention &pages(const int32_t *table, int64_t pageSize, int64_t count = 0,
                   int64_t columns = 0) noexcept {
    values.page_size = pageSize;
    values.page_count = count;
    values.page_table_columns = columns;
    return array(values.page_table, table, KILN_ATTENTION_HAS_PAGE_TABLE);
  }
  /// The same with one list of \p entries page numbers; the pages of sequence b
  /// begin at offsets[b].
  Attention &pageList(const int32_t *list, const int32_t *offsets,
                      int64_t pageSize, int64_t count = 0,
                      int64_t entries = 0) noexcept {
    pages(list, pageSize, count, entries);
    return array(values.page_offsets, offsets, KILN_ATTENTION_HAS_PAGE_OFFSETS);
  }

  /// One fp32 scale for K and one for V, which are e4m3, and one for Q where Q
  /// is e4m3; another Q takes none, and a call with one is refused.
  Attention &scales(const float *k, const float *v,
                    const float *q = nullptr) noexcept {
    return setScales(KILN_GRANULARITY_TENSOR, k, v, q);
  }
  /// The same with one for each head of K.
  Attention &headScales(const float *k, const float *v,
                        const float *q = nullptr) noexcept {
    return setScales(KILN_GRANULARITY_HEAD, k, v, q);
  }

  /// Keys that several blocks share are divided into splits of \p keys, so that
  /// a row has the same bits in any batch.
  Attention &split(int64_t keys) noexcept { return set(values.split, keys); }
  Attention &determinism(kiln_determinism level) noexcept {
    return set(values.determinism, level);
  }

  /// Valid while this object lives and is not changed.
  const kiln_attention_args &get() const noexcept { return values; }
  kiln_attention_args &get() noexcept { return values; }

  void fill(detail::Slots &slots) const noexcept {
    auto put = [&](uint32_t slot, const void *data) {
      slots.operands[slot] = const_cast<void *>(data);
    };
    put(KILN_ATTENTION_Q, values.q.data);
    put(KILN_ATTENTION_K, values.k.data);
    put(KILN_ATTENTION_V, values.v.data);
    put(KILN_ATTENTION_O, values.o.data);
    put(KILN_ATTENTION_LSE, values.lse);
    put(KILN_ATTENTION_QUERY_OFFSETS, values.query_offsets);
    put(KILN_ATTENTION_KEY_OFFSETS, values.key_offsets);
    put(KILN_ATTENTION_KEY_LENGTHS, values.key_lengths);
    put(KILN_ATTENTION_PAGE_TABLE, values.page_table);
    put(KILN_ATTENTION_PAGE_OFFSETS, values.page_offsets);
    put(KILN_ATTENTION_SINKS, values.sinks);
    put(KILN_ATTENTION_ALIBI, values.alibi);
    put(KILN_ATTENTION_Q_SCALE, values.q.scale.data);
    put(KILN_ATTENTION_K_SCALE, values.k.scale.data);
    put(KILN_ATTENTION_V_SCALE, values.v.scale.data);
    slots.scalars = {values.scale, values.softcap};
    slots.scalarCount = 2;
  }

private:
  template <class T> Attention &set(T &field, T value) noexcept {
    field = value;
    return *this;
  }
  template <class T>
  Attention &array(T &field, T data, uint32_t flag) noexcept {
    values.flags |= flag;
    return set(field, data);
  }
  Attention &place(kiln_heads_operand &operand, const void *data,
                   int64_t tokenStride, int64_t headStride,
                   int64_t batchStride) noexcept {
    detail::place(operand, data, tokenStride, headStride, batchStride);
    return *this;
  }
  Attention &setScales(kiln_granularity granularity, const float *k,
                       const float *v, const float *q) noexcept {
    auto setOne = [granularity](kiln_scale &scale, const float *data) {
      scale.granularity = granularity;
      scale.data = const_cast<float *>(data);
    };
    setOne(values.k.scale, k);
    setOne(values.v.scale, v);
    if (values.q.type == KILN_E4M3 || q)
      setOne(values.q.scale, q);
    return *this;
  }

  kiln_attention_args values = kiln_attention_args_init();
};

static_assert(detail::Slots::kCount >= KILN_ATTENTION_MERGE_SLOT_COUNT,
              "every operand has its slot");

/// The attention over all keys, merged from the attentions over two parts of
/// them: a kiln_attention_merge_args with setters. Packed sequences count as
/// one sequence with all their queries.
class AttentionMerge {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_ATTENTION_MERGE;
  static constexpr auto kLaunch = &kiln_attention_merge;

  /// Both parts and O have \p type; rows have \p valueDim elements.
  AttentionMerge(kiln_dtype type, int64_t batch, int64_t queries, int64_t heads,
                 int64_t valueDim) noexcept {
    values.batch = batch;
    values.queries = queries;
    values.heads = heads;
    values.value_dim = valueDim;
    values.o1.type = type;
  }
  AttentionMerge &outputType(kiln_dtype type) noexcept {
    values.o.type = type;
    return *this;
  }
  /// O and the logarithms of one part.
  AttentionMerge &first(const void *o, const float *lse,
                        int64_t tokenStride = 0, int64_t headStride = 0,
                        int64_t batchStride = 0) noexcept {
    values.lse1 = lse;
    detail::place(values.o1, o, tokenStride, headStride, batchStride);
    return *this;
  }
  AttentionMerge &second(const void *o, const float *lse,
                         int64_t tokenStride = 0, int64_t headStride = 0,
                         int64_t batchStride = 0) noexcept {
    values.lse2 = lse;
    detail::place(values.o2, o, tokenStride, headStride, batchStride);
    return *this;
  }
  AttentionMerge &o(void *data, int64_t tokenStride = 0, int64_t headStride = 0,
                    int64_t batchStride = 0) noexcept {
    detail::place(values.o, data, tokenStride, headStride, batchStride);
    return *this;
  }
  /// As in Attention.
  AttentionMerge &dependent(bool value = true) noexcept {
    detail::setDependent(values.flags, value);
    return *this;
  }
  AttentionMerge &lse(float *data) noexcept {
    values.lse = data;
    values.flags |= KILN_ATTENTION_HAS_LSE;
    return *this;
  }

  /// Valid while this object lives and is not changed.
  const kiln_attention_merge_args &get() const noexcept { return values; }
  kiln_attention_merge_args &get() noexcept { return values; }

  void fill(detail::Slots &slots) const noexcept {
    slots.operands[KILN_ATTENTION_MERGE_O1] = values.o1.data;
    slots.operands[KILN_ATTENTION_MERGE_LSE1] =
        const_cast<float *>(values.lse1);
    slots.operands[KILN_ATTENTION_MERGE_O2] = values.o2.data;
    slots.operands[KILN_ATTENTION_MERGE_LSE2] =
        const_cast<float *>(values.lse2);
    slots.operands[KILN_ATTENTION_MERGE_O] = values.o.data;
    slots.operands[KILN_ATTENTION_MERGE_LSE] = values.lse;
  }

private:
  kiln_attention_merge_args values = kiln_attention_merge_args_init();
};

} // namespace v1
} // namespace kiln

#endif // KILN_ATTENTION_HPP
