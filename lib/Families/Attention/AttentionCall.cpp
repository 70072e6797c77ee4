//===- AttentionCall.cpp - kiln_attention_args as a call ------------------===//
#include "Families/Attention/AttentionFamily.h"

#include "Call/Visit.h"
#include "Families/Attention/AttentionProblem.h"
#include "Families/HeadTensor.h"
#include "Families/ProblemFields.h"

namespace kiln {

static_assert(
    int(KILN_ATTENTION_Q) == int(AttentionOperand::Q) &&
    int(KILN_ATTENTION_K) == int(AttentionOperand::K) &&
    int(KILN_ATTENTION_V) == int(AttentionOperand::V) &&
    int(KILN_ATTENTION_O) == int(AttentionOperand::O) &&
    int(KILN_ATTENTION_LSE) == int(AttentionOperand::Lse) &&
    int(KILN_ATTENTION_QUERY_OFFSETS) == int(AttentionOperand::QueryOffsets) &&
    int(KILN_ATTENTION_KEY_OFFSETS) == int(AttentionOperand::KeyOffsets) &&
    int(KILN_ATTENTION_KEY_LENGTHS) == int(AttentionOperand::KeyLengths) &&
    int(KILN_ATTENTION_PAGE_TABLE) == int(AttentionOperand::PageTable) &&
    int(KILN_ATTENTION_PAGE_OFFSETS) == int(AttentionOperand::PageOffsets) &&
    int(KILN_ATTENTION_SINKS) == int(AttentionOperand::Sinks) &&
    int(KILN_ATTENTION_ALIBI) == int(AttentionOperand::Alibi) &&
    int(KILN_ATTENTION_Q_SCALE) == int(AttentionOperand::QScale) &&
    int(KILN_ATTENTION_K_SCALE) == int(AttentionOperand::KScale) &&
    int(KILN_ATTENTION_V_SCALE) == int(AttentionOperand::VScale) &&
    int(KILN_ATTENTION_SLOT_COUNT) == int(AttentionOperand::Count));
static_assert(KILN_SHARED_STRIDE == kSharedStride);

namespace {

using F = AttentionField;
using Operand = AttentionOperand;
using Scales = AttentionProblem::Scales;

/// The facts of a struct, with the defaults resolved that other fields need.
struct Stated {
  const kiln_attention_args &args;
  const kiln_dtype in = args.q.type;
  const kiln_dtype kv = args.k.type ? args.k.type : in;
  const bool hasLse = has(args.lse, KILN_ATTENTION_HAS_LSE);
  const bool hasSinks = has(args.sinks, KILN_ATTENTION_HAS_SINKS);
  const bool hasAlibi = has(args.alibi, KILN_ATTENTION_HAS_ALIBI);
  const bool hasQueryOffsets =
      has(args.query_offsets, KILN_ATTENTION_HAS_QUERY_OFFSETS);
  const bool hasKeyOffsets =
      has(args.key_offsets, KILN_ATTENTION_HAS_KEY_OFFSETS);
  const bool hasKeyLengths =
      has(args.key_lengths, KILN_ATTENTION_HAS_KEY_LENGTHS);
  const bool hasPages = has(args.page_table, KILN_ATTENTION_HAS_PAGE_TABLE);
  const bool hasList = has(args.page_offsets, KILN_ATTENTION_HAS_PAGE_OFFSETS);
  const bool isLatent =
      (args.flags & KILN_ATTENTION_LATENT) != 0 || isOneOperand(args);
  const bool hasCachedKeys = (args.flags & KILN_ATTENTION_CACHED_KEYS) != 0;
  int64_t kvHeads = 0, valueDim = 0, tableColumns = 0;

private:
  /// Whether the addresses show that V is a part of K.
  KILN_INLINE static bool isOneOperand(const kiln_attention_args &args) {
    const kiln_heads_operand &k = args.k, &v = args.v;
    if (v.data != k.data || !v.data) [[likely]]
      return false;
    const int64_t valueDim = args.value_dim ? args.value_dim : args.head_dim;
    // Strides of 0 follow from the length of a row.
    const bool hasOneHead = (args.kv_heads ? args.kv_heads : args.heads) == 1;
    return (v.token_stride == k.token_stride) &
           (v.head_stride == k.head_stride) &
           (v.batch_stride == k.batch_stride) & (v.flags == k.flags) &
           ((v.type == 0) | (v.type == k.type)) & (valueDim <= args.head_dim) &
           ((valueDim == args.head_dim) |
            ((k.token_stride != 0) & ((k.head_stride != 0) | hasOneHead)));
  }
  KILN_INLINE bool has(const void *array, uint32_t flag) const {
    return (array != nullptr) | ((args.flags & flag) != 0);
  }
};

struct AttentionVisit {
  using Args = kiln_attention_args;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = Operand::Count;
  static constexpr uint32_t kFlags = 2 * KILN_ATTENTION_CACHED_KEYS - 1;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_attention_args", kFlags))
      return;
    Stated s{args};
    visitSizes(s, v);
    visitTypes(s, v);
    visitMask(args, v);
    visitLengths(s, v);
    visitPages(s, v);
    v.isEmpty(args.batch == 0 || args.queries == 0);
    visitTensors(s, v);
    visitArrays(s, v);
    visitScales(s, v);
    // Every problem has a scale: Field::alwaysUsed.
    v.scalar({.name = "scale",
              .value = args.scale,
              .field = F::Scale,
              .index = AttentionScalar::Scale,
              .isUsed = false,
              .least = 0});
    v.scalar({.name = "softcap",
              .value = args.softcap,
              .field = F::Softcap,
              .index = AttentionScalar::Softcap,
              .isUsed = args.softcap != 0,
              .least = 0});
    v.alignment(F::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitSizes(Stated &s, Visitor &v) {
    const Args &args = s.args;
    v.number(F::Batch, "batch", args.batch);
    v.number(F::Sq, "queries", args.queries);
    v.number(F::Sk, "keys", args.keys);
    v.number(F::Heads, "heads", args.heads);
    s.kvHeads = v.derived(F::KvHeads, "kv_heads", args.kv_heads, args.heads);
    v.number(F::D, "head_dim", args.head_dim);
    s.valueDim = v.derived(F::Dv, "value_dim", args.value_dim, args.head_dim);
    v.number(F::Split, "split", args.split);
  }

  template <class Visitor>
  KILN_INLINE static void visitTypes(const Stated &s, Visitor &v) {
    const kiln_dtype byDefault = s.in == KILN_E4M3 ? KILN_BF16 : s.in;
    const kiln_dtype out = s.args.o.type ? s.args.o.type : byDefault;
    v.type(F::DType, "q.type", s.in, s.in);
    v.type(F::Kv, "k.type", s.kv, s.kv == s.in ? 0 : s.kv);
    v.type(F::Out, "o.type", out, out == byDefault ? 0 : out);
  }

  /// A window without bounds is no mask, and one that ends at the query is
  /// causal.
  template <class Visitor>
  KILN_INLINE static void visitMask(const Args &args, Visitor &v) {
    constexpr int kStep = KILN_ATTENTION_MASK_CAUSAL;
    static_assert(
        KILN_ATTENTION_MASK_CAUSAL == kStep * int(AttentionMask::Causal) &&
        KILN_ATTENTION_MASK_WINDOW == kStep * int(AttentionMask::Window));
    const bool isWindow = args.mask == KILN_ATTENTION_MASK_WINDOW;
    v.require(isWindow || (args.left == 0 && args.right == 0),
              ErrorCode::InvalidArgument,
              "left is {} and right is {}, without KILN_ATTENTION_MASK_WINDOW",
              args.left, args.right);
    const int64_t left = args.left == -1 ? kMaxExtent : args.left;
    const int64_t right = args.right == -1 ? kMaxExtent : args.right;
    int64_t mask = args.mask % kStep ? -1 : args.mask / kStep;
    if (isWindow && left == kMaxExtent) {
      if (right == kMaxExtent)
        mask = int64_t(AttentionMask::None);
      else if (right == 0)
        mask = int64_t(AttentionMask::Causal);
    }
    const bool isBounded = mask == int64_t(AttentionMask::Window);
    v.choice(F::Mask, "mask", args.mask, mask);
    v.number(F::Left, "left", isBounded ? left : kMaxExtent);
    v.number(F::Right, "right", isBounded ? right : kMaxExtent);
  }

  template <class Visitor>
  KILN_INLINE static void visitLengths(const Stated &s, Visitor &v) {
    using enum AttentionLengths;
    const Args &args = s.args;
    v.require(!(s.hasKeyOffsets && s.hasKeyLengths), ErrorCode::InvalidArgument,
              "key_offsets and key_lengths are both given: one of them says "
              "how many keys there are");
    const auto keyLengths = s.hasKeyOffsets   ? Packed
                            : s.hasKeyLengths ? Used
                                              : Uniform;
    v.number(F::QLen, "query_offsets",
             int64_t(s.hasQueryOffsets ? Packed : Uniform));
    v.number(F::KvLen, "key_lengths", int64_t(keyLengths));
    v.hint(F::SkHint, "keys_hint", args.keys_hint,
           keyLengths == Uniform ? 0 : args.keys);
    visitTotal(F::TotalQ, "total_queries", args.total_queries, args.queries,
               "query_offsets", s.hasQueryOffsets, args, v);
    visitTotal(F::TotalK, "total_keys", args.total_keys, args.keys,
               "key_offsets", s.hasKeyOffsets, args, v);
  }

  template <class Visitor>
  KILN_INLINE static void visitTotal(int field, const char *name, int64_t total,
                                     int64_t most, const char *offsets,
                                     bool hasOffsets, const Args &args,
                                     Visitor &v) {
    v.require(hasOffsets || total == 0, ErrorCode::InvalidArgument,
              "{} is {}, without {}", name, total, offsets);
    if (hasOffsets)
      v.derived(field, name, total, product(args.batch, most));
    else
      v.absent(field);
  }

  template <class Visitor>
  KILN_INLINE static void visitPages(Stated &s, Visitor &v) {
    using enum AttentionPages;
    const Args &args = s.args;
    v.number(F::Pages, "pages",
             int64_t(!s.hasPages ? None
                     : s.hasList ? List
                                 : Table));
    v.require(s.hasPages || !s.hasList, ErrorCode::InvalidArgument,
              "page_offsets are given, without page_table");
    if (!s.hasPages) {
      v.require(args.page_size == 0 && args.page_count == 0 &&
                    args.page_table_columns == 0,
                ErrorCode::InvalidArgument,
                "page_size is {}, page_count {} and page_table_columns {}, "
                "without page_table",
                args.page_size, args.page_count, args.page_table_columns);
      for (int field : {F::Page, F::PoolPages, F::TableCols})
        v.absent(field);
      return;
    }
    v.require(args.page_size > 0, ErrorCode::InvalidArgument,
              "page_size is {}: a page has one token at least", args.page_size);
    v.require(!s.hasKeyOffsets, ErrorCode::Unsupported,
              "key_offsets are given with page_table: give key_lengths");
    // Rounded up; with invalid fields any number will do.
    const int64_t size = std::max<int64_t>(args.page_size, 1);
    const int64_t perSequence = args.keys / size + (args.keys % size != 0);
    const int64_t all = product(args.batch, perSequence);
    v.number(F::Page, "page_size", args.page_size);
    v.derived(F::PoolPages, "page_count", args.page_count, all);
    s.tableColumns =
        v.derived(F::TableCols, "page_table_columns", args.page_table_columns,
                  s.hasList ? all : perSequence);
  }

  template <class Visitor>
  KILN_INLINE static void visitTensors(const Stated &s, Visitor &v) {
    const Args &args = s.args;
    const bool hasKeyBatches = s.hasPages || !s.hasKeyOffsets;
    const int64_t keyRows = s.hasPages ? args.page_size : args.keys;
    v.heads({.name = "q",
             .given = args.q,
             .index = Operand::Q,
             .type = s.in,
             .typeOf = "q",
             .rows = args.queries,
             .planes = args.heads,
             .rowLength = args.head_dim,
             .field = F::LdQ,
             .hasBatches = !s.hasQueryOffsets,
             .hasScales = true});
    v.heads({.name = "k",
             .given = args.k,
             .index = Operand::K,
             .type = s.kv,
             .typeOf = args.k.type ? "k" : "q",
             .rows = keyRows,
             .planes = s.kvHeads,
             .rowLength = args.head_dim,
             .field = F::LdK,
             .hasBatches = hasKeyBatches,
             .isUsed = args.keys != 0,
             .hasScales = true,
             .isConstant = s.hasCachedKeys});
    v.number(F::Latent, "latent", s.isLatent);
    if (s.isLatent) {
      for (int field : {F::LdV, F::HsV, F::BsV})
        v.absent(field);
      v.unread("v", args.v);
      v.require(s.valueDim <= args.head_dim, ErrorCode::InvalidArgument,
                "value_dim is {}, above head_dim {}: V is a part of K",
                s.valueDim, args.head_dim);
    } else {
      visitValues(s, keyRows, hasKeyBatches, v);
    }
    const kiln_dtype out = s.in == KILN_E4M3 ? KILN_BF16 : s.in;
    v.heads({.name = "o",
             .given = args.o,
             .index = Operand::O,
             .type = args.o.type ? args.o.type : out,
             .typeOf = "q",
             .rows = args.queries,
             .planes = args.heads,
             .rowLength = s.valueDim,
             .field = F::LdO,
             .hasBatches = !s.hasQueryOffsets,
             .isWritten = true});
  }

  template <class Visitor>
  KILN_INLINE static void visitValues(const Stated &s, int64_t keyRows,
                                      bool hasKeyBatches, Visitor &v) {
    const Args &args = s.args;
    v.heads({.name = "v",
             .given = args.v,
             .index = Operand::V,
             .type = s.kv,
             .typeOf = "k",
             .rows = keyRows,
             .planes = s.kvHeads,
             .rowLength = s.valueDim,
             .field = F::LdV,
             .hasBatches = hasKeyBatches,
             .isUsed = args.keys != 0,
             .hasScales = true,
             .isConstant = s.hasCachedKeys});
  }

  template <class Visitor>
  KILN_INLINE static void visitArrays(const Stated &s, Visitor &v) {
    const Args &args = s.args;
    auto array = [&](bool isThere, const char *name, const void *address,
                     int index, int64_t rowLength, bool isWritten = false,
                     bool isConstant = false) {
      if (isThere)
        v.array({.name = name,
                 .address = address,
                 .index = index,
                 .rowLength = rowLength,
                 .isWritten = isWritten,
                 .isConstant = isConstant});
    };
    // The arrays that lead to the keys of a sequence.
    auto path = [&](bool isThere, const char *name, const void *address,
                    int index, int64_t rowLength) {
      array(isThere, name, address, index, rowLength, /*isWritten=*/false,
            s.hasCachedKeys);
    };
    v.number(F::Lse, "lse", s.hasLse);
    v.number(F::Sinks, "sinks", s.hasSinks);
    v.number(F::Alibi, "alibi", s.hasAlibi);
    const int64_t offsets = args.batch + 1;
    array(s.hasLse, "lse", args.lse, Operand::Lse, 1, /*isWritten=*/true);
    path(s.hasQueryOffsets, "query_offsets", args.query_offsets,
         Operand::QueryOffsets, offsets);
    path(s.hasKeyOffsets, "key_offsets", args.key_offsets, Operand::KeyOffsets,
         offsets);
    path(s.hasKeyLengths, "key_lengths", args.key_lengths, Operand::KeyLengths,
         args.batch);
    path(s.hasPages, "page_table", args.page_table, Operand::PageTable,
         s.tableColumns);
    path(s.hasList, "page_offsets", args.page_offsets, Operand::PageOffsets,
         offsets);
    array(s.hasSinks, "sinks", args.sinks, Operand::Sinks, args.heads);
    array(s.hasAlibi, "alibi", args.alibi, Operand::Alibi, args.heads);
  }

  /// All operands of e4m3 have scales, or none has.
  template <class Visitor>
  KILN_INLINE static void visitScales(const Stated &s, Visitor &v) {
    const Args &args = s.args;
    const kiln_scale *q = v.scaleOf("q.scale", args.q.scale);
    const kiln_scale *k = v.scaleOf("k.scale", args.k.scale);
    // A part of K has K's scales.
    const kiln_scale *own = v.scaleOf("v.scale", args.v.scale);
    const kiln_scale *values = own || !s.isLatent ? own : k;
    const kiln_scale *first = q ? q : k ? k : values;
    const bool isOfHead = first && first->granularity == KILN_GRANULARITY_HEAD;
    v.number(F::Scales, "scales",
             int64_t(!first     ? Scales::None
                     : isOfHead ? Scales::Head
                                : Scales::Tensor));
    if (!first)
      return;
    auto scales = [&](const char *name, const kiln_scale *given,
                      kiln_dtype type, int index) {
      v.require(!given || type == KILN_E4M3, ErrorCode::Unsupported,
                "{} is given for type {:#x}: only e4m3 has scales", name, type);
      if (type == KILN_E4M3)
        v.scales({.name = name,
                  .given = given,
                  .index = index,
                  .type = type,
                  .granularity = isOfHead ? int(KILN_GRANULARITY_HEAD)
                                          : int(KILN_GRANULARITY_TENSOR),
                  .count = isOfHead ? s.kvHeads : 1});
    };
    scales("q.scale", q, s.in, Operand::QScale);
    scales("k.scale", k, s.kv, Operand::KScale);
    scales("v.scale", values, s.kv, Operand::VScale);
  }
};

} // namespace

constexpr CallReader kAttentionCall =
    makeCallReader<AttentionVisit>(KILN_FAMILY_ATTENTION);

} // namespace kiln
