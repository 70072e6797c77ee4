//===- RopeCall.cpp - kiln_rope_args as a call ----------------------------===//
#include "Families/Rope/RopeFamily.h"

#include "Call/Visit.h"

namespace kiln {

static_assert(int(KILN_ROPE_Q) == int(RopeOperand::Q) &&
              int(KILN_ROPE_K) == int(RopeOperand::K) &&
              int(KILN_ROPE_V) == int(RopeOperand::V) &&
              int(KILN_ROPE_Q_OUT) == int(RopeOperand::QOut) &&
              int(KILN_ROPE_K_OUT) == int(RopeOperand::KOut) &&
              int(KILN_ROPE_K_CACHE) == int(RopeOperand::KCache) &&
              int(KILN_ROPE_V_CACHE) == int(RopeOperand::VCache) &&
              int(KILN_ROPE_TABLE) == int(RopeOperand::Table) &&
              int(KILN_ROPE_Q_WEIGHT) == int(RopeOperand::QWeight) &&
              int(KILN_ROPE_K_WEIGHT) == int(RopeOperand::KWeight) &&
              int(KILN_ROPE_POSITIONS) == int(RopeOperand::Positions) &&
              int(KILN_ROPE_SLOTS) == int(RopeOperand::Slots) &&
              int(KILN_ROPE_PAGE_TABLE) == int(RopeOperand::PageTable) &&
              int(KILN_ROPE_SEQUENCES) == int(RopeOperand::Sequences) &&
              int(KILN_ROPE_K_SCALE) == int(RopeOperand::KScale) &&
              int(KILN_ROPE_V_SCALE) == int(RopeOperand::VScale) &&
              int(KILN_ROPE_SLOT_COUNT) == int(RopeOperand::Count));
static_assert(KILN_ROPE_HALVES == int(RopeStyle::Halves) &&
              KILN_ROPE_INTERLEAVED == int(RopeStyle::Interleaved) &&
              KILN_ROPE_INTERLEAVED_TO_HALVES ==
                  int(RopeStyle::InterleavedToHalves));

namespace {

using F = RopeField;
using Operand = RopeOperand;

/// The facts of a struct that several statements need.
struct StatedRope {
  const kiln_rope_args &args;
  const kiln_dtype in = args.heads    ? args.q.type
                        : args.k.type ? args.k.type
                                      : args.v.type;
  const bool hasQ = args.heads != 0;
  const bool hasKCache = args.k_cache.type != KILN_DTYPE_NONE;
  const bool hasVCache = args.v_cache.type != KILN_DTYPE_NONE;
  const bool hasCache = hasKCache | hasVCache;
  /// K is rotated in place where it has no other output.
  const bool hasKOut = args.kv_heads != 0 && args.k.type != KILN_DTYPE_NONE &&
                       (args.k_out.type != KILN_DTYPE_NONE || !hasCache);
  const bool hasK = hasKOut | hasKCache;
  const kiln_dtype cache = hasKCache   ? args.k_cache.type
                           : hasVCache ? args.v_cache.type
                                       : in;
  const bool hasTable = has(args.page_table, KILN_ROPE_HAS_PAGE_TABLE);
  const bool hasSlots = has(args.slots, KILN_ROPE_HAS_SLOTS);
  const bool hasSequences = has(args.sequences, KILN_ROPE_HAS_SEQUENCES);
  const bool areLong = (args.flags & KILN_ROPE_INT64) != 0;
  const bool isRotated = args.rotary_dim != 0;

private:
  KILN_INLINE bool has(const void *array, uint32_t flag) const {
    return (array != nullptr) | ((args.flags & flag) != 0);
  }
};

struct RopeVisit {
  using Args = kiln_rope_args;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = Operand::Count;
  static constexpr uint32_t kFlags = 2 * KILN_ROPE_CONSTANT_ARRAYS - 1;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_rope_args", kFlags))
      return;
    const StatedRope s{args};
    visitSizes(s, v);
    visitOptions(s, v);
    visitPages(s, v);
    v.isEmpty(args.tokens == 0);
    visitHeads(s, v);
    visitCaches(s, v);
    visitTables(s, v);
    visitArrays(s, v);
    visitScales(s, v);
    v.alignment(F::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitSizes(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    v.number(F::Tokens, "tokens", args.tokens);
    v.number(F::Heads, "heads", args.heads);
    // Fields that nothing reads have their default, as in canonical problems.
    v.number(F::KvHeads, "kv_heads", s.hasK || s.hasVCache ? args.kv_heads : 0);
    v.number(F::D, "head_dim", args.head_dim);
    v.derived(F::Dv, "value_dim", s.hasVCache ? args.value_dim : 0,
              args.head_dim);
    v.type(F::DType, s.hasQ ? "q.type" : "k.type", s.in, s.in);
    v.number(F::Rotary, "rotary_dim", args.rotary_dim);
    v.number(F::Offset, "rotary_offset", s.isRotated ? args.rotary_offset : 0);
  }

  template <class Visitor>
  KILN_INLINE static void visitOptions(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    v.number(F::Style, "style", s.isRotated ? args.style : 0);
    const bool hasType = args.table.type != KILN_DTYPE_NONE;
    const kiln_dtype table =
        s.isRotated && hasType ? args.table.type : kiln_dtype(KILN_FP32);
    v.type(F::Table, "table.type", table, table);
    v.number(F::TableRows, "table_rows", s.isRotated ? args.table_rows : 0);
    const bool qNorm = args.q_weight.type != KILN_DTYPE_NONE;
    const bool kNorm = args.k_weight.type != KILN_DTYPE_NONE;
    v.number(F::QNorm, "q_weight", qNorm);
    v.number(F::KNorm, "k_weight", kNorm);
    v.number(F::Unit, "flags",
             (qNorm || kNorm) && (args.flags & KILN_ROPE_UNIT_OFFSET) != 0);
    v.scalar({.name = "epsilon",
              .value = args.epsilon,
              .field = F::Epsilon,
              .index = 0,
              .isUsed = qNorm || kNorm,
              .least = 0});
    v.number(F::KOut, "k_out", s.hasKOut);
    v.number(F::KCache, "k_cache", s.hasKCache);
    v.number(F::VCache, "v_cache", s.hasVCache);
    v.type(F::Kv, s.hasKCache ? "k_cache.type" : "v_cache.type", s.cache,
           s.cache == s.in ? 0 : s.cache);
  }

  template <class Visitor>
  KILN_INLINE static void visitPages(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    v.require(!(s.hasTable && s.hasSlots), ErrorCode::InvalidArgument,
              "slots and page_table are both given: one of them says where "
              "tokens go");
    v.number(F::Slots, "slots",
             int64_t(s.hasTable   ? RopeSlots::Table
                     : s.hasSlots ? RopeSlots::Array
                                  : RopeSlots::None));
    v.number(F::Sequences, "sequences", s.hasSequences);
    const bool hasIndices = s.isRotated || s.hasTable || s.hasSlots;
    v.number(F::Index, "flags",
             hasIndices && s.areLong ? KILN_INT64 : KILN_INT32);
    v.number(F::Page, "page_size", args.page_size);
    v.number(F::PoolPages, "page_count", args.page_count);
    v.number(F::PageRows, "page_table_rows", args.page_table_rows);
    v.number(F::PageCols, "page_table_columns", args.page_table_columns);
    v.require(s.hasCache || (args.page_size == 0 && args.page_count == 0),
              ErrorCode::InvalidArgument,
              "page_size is {} and page_count {}, without a cache",
              args.page_size, args.page_count);
    v.require(!s.hasCache || (args.page_size > 0 && args.page_count > 0),
              ErrorCode::InvalidArgument,
              "page_size is {} and page_count {}: caches have one page of one "
              "token at least",
              args.page_size, args.page_count);
    v.require(s.hasTable
                  ? args.page_table_columns > 0
                  : args.page_table_rows == 0 && args.page_table_columns == 0,
              ErrorCode::InvalidArgument,
              "page_table_rows is {} and page_table_columns {}, {} page_table",
              args.page_table_rows, args.page_table_columns,
              s.hasTable ? "with" : "without");
    v.require(!s.hasSequences || args.page_table_rows > 0,
              ErrorCode::InvalidArgument,
              "page_table_rows is {}, with sequences: it says how many "
              "sequences there are",
              args.page_table_rows);
  }

  /// The strides of an operand that is not there.
  template <class Visitor>
  KILN_INLINE static void absentHeads(int field, int fields, const char *name,
                                      const kiln_heads_operand &given,
                                      Visitor &v) {
    for (int i = 0; i < fields; ++i)
      v.absent(field + i);
    v.unread(name, given);
  }

  template <class Visitor>
  KILN_INLINE static void visitHeads(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    auto input = [&](bool exists, const char *name,
                     const kiln_heads_operand &given, int index, int field,
                     int64_t heads, int64_t cols) {
      if (!exists)
        return absentHeads(field, 2, name, given, v);
      v.heads({.name = name,
               .given = given,
               .index = index,
               .type = s.in,
               .typeOf = s.hasQ ? "q" : "k",
               .rows = args.tokens,
               .planes = heads,
               .rowLength = cols,
               .field = field,
               .hasBatches = false,
               .hasBatchField = false});
    };
    const int64_t valueDim = args.value_dim ? args.value_dim : args.head_dim;
    input(s.hasQ, "q", args.q, Operand::Q, F::LdQ, args.heads, args.head_dim);
    input(s.hasK, "k", args.k, Operand::K, F::LdK, args.kv_heads,
          args.head_dim);
    input(s.hasVCache, "v", args.v, Operand::V, F::LdV, args.kv_heads,
          valueDim);
    visitOutput(s, s.hasQ, {"q", "q_out"}, args.q, args.q_out,
                {Operand::Q, Operand::QOut}, F::LdQOut, args.heads, v);
    visitOutput(s, s.hasKOut, {"k", "k_out"}, args.k, args.k_out,
                {Operand::K, Operand::KOut}, F::LdKOut, args.kv_heads, v);
  }

  struct InOut {
    int in, out;
  };
  struct Names {
    const char *in, *out;
  };

  /// An output without a type is its input.
  template <class Visitor>
  KILN_INLINE static void
  visitOutput(const StatedRope &s, bool exists, Names names,
              const kiln_heads_operand &in, const kiln_heads_operand &out,
              InOut index, int field, int64_t heads, Visitor &v) {
    if (!exists)
      return absentHeads(field, 2, names.out, out, v);
    const bool isInPlace = out.type == KILN_DTYPE_NONE;
    if (isInPlace)
      v.unread(names.out, out);
    v.heads({.name = isInPlace ? names.in : names.out,
             .given = isInPlace ? in : out,
             .index = index.out,
             .type = s.in,
             .typeOf = s.hasQ ? "q" : "k",
             .rows = s.args.tokens,
             .planes = heads,
             .rowLength = s.args.head_dim,
             .field = field,
             .hasBatches = false,
             .hasBatchField = false,
             .isWritten = true,
             .mayBe = index.in,
             .mayBeType = s.in,
             .mayBeName = names.in});
  }

  template <class Visitor>
  KILN_INLINE static void visitCaches(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    auto cache = [&](bool exists, const char *name,
                     const kiln_heads_operand &given, int index, int field,
                     int64_t cols) {
      if (!exists)
        return absentHeads(field, 3, name, given, v);
      v.heads({.name = name,
               .given = given,
               .index = index,
               .type = s.cache,
               .typeOf = s.hasKCache ? "k_cache" : "v_cache",
               .rows = args.page_size,
               .planes = args.kv_heads,
               .rowLength = cols,
               .field = field,
               .isWritten = true,
               .hasScales = true});
    };
    cache(s.hasKCache, "k_cache", args.k_cache, Operand::KCache, F::LdKCache,
          args.head_dim);
    cache(s.hasVCache, "v_cache", args.v_cache, Operand::VCache, F::LdVCache,
          args.value_dim ? args.value_dim : args.head_dim);
  }

  template <class Visitor>
  KILN_INLINE static void visitTables(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    v.require(s.isRotated || args.table.type == KILN_DTYPE_NONE,
              ErrorCode::InvalidArgument,
              "table is given, but rotary_dim is 0");
    v.require(!s.isRotated || args.table_rows > 0, ErrorCode::InvalidArgument,
              "table_rows is {}: the table has one position at least",
              args.table_rows);
    v.require(!s.isRotated || args.table.leading_dim == 0 ||
                  args.table.leading_dim == args.rotary_dim,
              ErrorCode::Unsupported,
              "table.leading_dim is {}, rotary_dim {}: tables are packed",
              args.table.leading_dim, args.rotary_dim);
    if (s.isRotated)
      v.operand({.name = "table",
                 .given = args.table,
                 .index = Operand::Table,
                 .type = args.table.type ? args.table.type : KILN_FP32,
                 .typeOf = "table",
                 .rowLength = args.rotary_dim});
    else
      v.unread("table", args.table);
    auto weight = [&](const char *name, const kiln_operand &given, int index) {
      v.optional({.name = name,
                  .given = given,
                  .index = index,
                  .type = s.in,
                  .typeOf = s.hasQ ? "q" : "k",
                  .rowLength = args.head_dim});
    };
    weight("q_weight", args.q_weight, Operand::QWeight);
    weight("k_weight", args.k_weight, Operand::KWeight);
  }

  template <class Visitor>
  KILN_INLINE static void visitArrays(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    const uint64_t indexBytes = s.areLong ? 8 : 4;
    const bool isConstant = (args.flags & KILN_ROPE_CONSTANT_ARRAYS) != 0;
    auto array = [&](bool exists, const char *name, const void *address,
                     int index, uint64_t bytes, int64_t length) {
      if (exists)
        v.array({.name = name,
                 .address = address,
                 .index = index,
                 .elementBytes = bytes,
                 .rowLength = length,
                 .isConstant = isConstant});
    };
    array(s.isRotated || s.hasTable, "positions", args.positions,
          Operand::Positions, indexBytes, args.tokens);
    array(s.hasSlots && !s.hasTable, "slots", args.slots, Operand::Slots,
          indexBytes, args.tokens);
    array(s.hasTable, "page_table", args.page_table, Operand::PageTable,
          sizeof(int32_t), args.page_table_columns);
    array(s.hasSequences, "sequences", args.sequences, Operand::Sequences,
          sizeof(int32_t), args.tokens);
  }

  /// Both caches have scales, or none has.
  template <class Visitor>
  KILN_INLINE static void visitScales(const StatedRope &s, Visitor &v) {
    const Args &args = s.args;
    const kiln_scale *k =
        s.hasKCache ? v.scaleOf("k_cache.scale", args.k_cache.scale) : nullptr;
    const kiln_scale *values =
        s.hasVCache ? v.scaleOf("v_cache.scale", args.v_cache.scale) : nullptr;
    const kiln_scale *first = k ? k : values;
    const bool isOfHead = first && first->granularity == KILN_GRANULARITY_HEAD;
    v.number(F::Scales, "k_cache.scale",
             int64_t(!first     ? ScaleKind::None
                     : isOfHead ? ScaleKind::Row
                                : ScaleKind::Tensor));
    if (!first)
      return;
    auto scales = [&](bool exists, const char *name, const kiln_scale *given,
                      int index) {
      if (exists)
        v.scales({.name = name,
                  .given = given,
                  .index = index,
                  .type = s.cache,
                  .granularity = isOfHead ? int(KILN_GRANULARITY_HEAD)
                                          : int(KILN_GRANULARITY_TENSOR),
                  .count = isOfHead ? args.kv_heads : 1});
    };
    scales(s.hasKCache, "k_cache.scale", k, Operand::KScale);
    scales(s.hasVCache, "v_cache.scale", values, Operand::VScale);
  }
};

} // namespace

constexpr CallReader kRopeCall = makeCallReader<RopeVisit>(KILN_FAMILY_ROPE);

} // namespace kiln
