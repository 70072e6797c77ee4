//===- rope.hpp - the builder of rotary embeddings over kiln.h ------------===//
//
// The class of kiln.hpp for the struct of rope.h, like those of problems.hpp.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_ROPE_HPP
#define KILN_ROPE_HPP

#include "kiln/attention.hpp"

namespace kiln {
inline namespace v1 {

static_assert(detail::Slots::kCount >= KILN_ROPE_SLOT_COUNT,
              "every operand has its slot");

/// Q and K rotated by their positions, K and V written to a paged cache: a
/// kiln_rope_args with setters. Strides count elements; strides of 0 mean
/// packed, [token][head][element]. Addresses may be left out where the problem
/// is only described.
class Rope {
public:
  static constexpr kiln_family kFamily = KILN_FAMILY_ROPE;
  static constexpr auto kLaunch = &kiln_rope;

  /// \p heads of Q (0: there is no Q) and \p kvHeads of K and V, of \p type and
  /// \p headDim elements, all of which are rotated until rotary() says else.
  Rope(kiln_dtype type, int64_t tokens, int64_t heads, int64_t kvHeads,
       int64_t headDim) noexcept {
    values.tokens = tokens;
    values.heads = heads;
    values.kv_heads = kvHeads;
    values.head_dim = headDim;
    values.rotary_dim = headDim;
    values.q.type = values.k.type = values.v.type = type;
  }

  Rope &valueDim(int64_t dim) noexcept { return set(values.value_dim, dim); }
  Rope &style(kiln_rope_style value) noexcept {
    return set(values.style, value);
  }
  /// \p dim elements from \p offset on are rotated; 0: none.
  Rope &rotary(int64_t dim, int64_t offset = 0) noexcept {
    values.rotary_dim = dim;
    return set(values.rotary_offset, offset);
  }
  /// Cosines and sines, [rows][rotary_dim], and the positions of the tokens.
  Rope &table(const void *data, int64_t rows,
              kiln_dtype type = KILN_FP32) noexcept {
    detail::place(values.table, data, 0);
    values.table.type = type;
    values.table.flags = KILN_OPERAND_CONSTANT;
    return set(values.table_rows, rows);
  }
  Rope &positions(const int32_t *data) noexcept {
    return set<const void *>(values.positions, data);
  }

  Rope &q(const void *data, int64_t tokenStride = 0,
          int64_t headStride = 0) noexcept {
    return place(values.q, data, tokenStride, headStride);
  }
  Rope &k(const void *data, int64_t tokenStride = 0,
          int64_t headStride = 0) noexcept {
    return place(values.k, data, tokenStride, headStride);
  }
  Rope &v(const void *data, int64_t tokenStride = 0,
          int64_t headStride = 0) noexcept {
    return place(values.v, data, tokenStride, headStride);
  }
  /// Where rotated heads go; without them they stay in place, or K goes to its
  /// cache alone.
  Rope &qOut(void *data, int64_t tokenStride = 0,
             int64_t headStride = 0) noexcept {
    values.q_out.type = values.q.type;
    return place(values.q_out, data, tokenStride, headStride);
  }
  Rope &kOut(void *data, int64_t tokenStride = 0,
             int64_t headStride = 0) noexcept {
    values.k_out.type = values.k.type;
    return place(values.k_out, data, tokenStride, headStride);
  }
  /// RMSNorm of each head before the rotation; either weight may be null.
  Rope &norm(const void *qWeight, const void *kWeight,
             double epsilon) noexcept {
    weight(values.q_weight, qWeight);
    weight(values.k_weight, kWeight);
    return set(values.epsilon, epsilon);
  }

  /// Caches of \p pages pages with \p pageSize tokens each.
  Rope &caches(kiln_dtype type, void *k, void *v, int64_t pageSize,
               int64_t pages) noexcept {
    values.v_cache.type = type;
    values.v_cache.data = v;
    return latentCache(type, k, pageSize, pages);
  }
  /// A cache of K alone.
  Rope &latentCache(kiln_dtype type, void *k, int64_t pageSize,
                    int64_t pages) noexcept {
    values.k_cache.type = type;
    values.k_cache.data = k;
    values.page_size = pageSize;
    return set(values.page_count, pages);
  }
  /// The slot of each token; -1: it is not cached.
  Rope &slots(const int32_t *data) noexcept {
    values.flags |= KILN_ROPE_HAS_SLOTS;
    return set<const void *>(values.slots, data);
  }
  /// Slots follow from positions and a table of pages with \p columns entries
  /// for each of \p rows sequences. Token t is of sequence t.
  Rope &pageTable(const int32_t *data, int64_t rows, int64_t columns) noexcept {
    values.flags |= KILN_ROPE_HAS_PAGE_TABLE;
    values.page_table_rows = rows;
    values.page_table_columns = columns;
    return set(values.page_table, data);
  }
  /// Token t is of sequence data[t].
  Rope &sequences(const int32_t *data) noexcept {
    values.flags |= KILN_ROPE_HAS_SEQUENCES;
    return set(values.sequences, data);
  }
  /// One scale for each e4m3 cache.
  Rope &scales(float *k, float *v) noexcept {
    values.k_cache.scale = kiln_tensor_scale_init(k);
    values.v_cache.scale = kiln_tensor_scale_init(v);
    return *this;
  }

  /// Positions, slots and page tables are complete: see
  /// KILN_ROPE_CONSTANT_ARRAYS.
  Rope &constantArrays() noexcept {
    values.flags |= KILN_ROPE_CONSTANT_ARRAYS;
    return *this;
  }
  /// The launch may begin before the kernel ahead of it has ended: see
  /// KILN_CALL_DEPENDENT.
  Rope &dependent(bool value = true) noexcept {
    detail::setDependent(values.flags, value);
    return *this;
  }
  Rope &determinism(kiln_determinism level) noexcept {
    return set(values.determinism, level);
  }

  /// Valid while this object lives and is not changed.
  const kiln_rope_args &get() const noexcept { return values; }
  kiln_rope_args &get() noexcept { return values; }

  void fill(detail::Slots &slots) const noexcept {
    auto put = [&](uint32_t slot, const void *data) {
      slots.operands[slot] = const_cast<void *>(data);
    };
    const bool hasCache = values.k_cache.type || values.v_cache.type;
    put(KILN_ROPE_Q, values.q.data);
    put(KILN_ROPE_K, values.k.data);
    put(KILN_ROPE_V, values.v.data);
    put(KILN_ROPE_Q_OUT, values.q_out.type ? values.q_out.data : values.q.data);
    put(KILN_ROPE_K_OUT, values.k_out.type ? values.k_out.data
                         : hasCache        ? nullptr
                                           : values.k.data);
    put(KILN_ROPE_K_CACHE, values.k_cache.data);
    put(KILN_ROPE_V_CACHE, values.v_cache.data);
    put(KILN_ROPE_TABLE, values.table.data);
    put(KILN_ROPE_Q_WEIGHT, values.q_weight.data);
    put(KILN_ROPE_K_WEIGHT, values.k_weight.data);
    put(KILN_ROPE_POSITIONS, values.positions);
    put(KILN_ROPE_SLOTS, values.slots);
    put(KILN_ROPE_PAGE_TABLE, values.page_table);
    put(KILN_ROPE_SEQUENCES, values.sequences);
    put(KILN_ROPE_K_SCALE, values.k_cache.scale.data);
    put(KILN_ROPE_V_SCALE, values.v_cache.scale.data);
    slots.scalars = {values.epsilon, 0};
    slots.scalarCount = 1;
  }

private:
  template <class T> Rope &set(T &field, T value) noexcept {
    field = value;
    return *this;
  }
  Rope &place(kiln_heads_operand &operand, const void *data,
              int64_t tokenStride, int64_t headStride) noexcept {
    detail::place(operand, data, tokenStride, headStride, 0);
    return *this;
  }
  void weight(kiln_operand &operand, const void *data) noexcept {
    if (!data)
      return;
    detail::place(operand, data, 0);
    operand.type = values.q.type;
    operand.flags = KILN_OPERAND_CONSTANT;
  }

  kiln_rope_args values = KILN_INIT(kiln_rope_args);
};

} // namespace v1
} // namespace kiln

#endif // KILN_ROPE_HPP
