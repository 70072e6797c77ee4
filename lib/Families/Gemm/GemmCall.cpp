//===- GemmCall.cpp - kiln_gemm_args as a call ----------------------------===//
#include "Families/Gemm/GemmFamily.h"

#include "Call/Visit.h"
#include "Families/Gemm/GemmProblem.h"

namespace kiln {

static_assert(KILN_COMPUTE_NATIVE == int(ComputeMode::Native) &&
              KILN_COMPUTE_TF32 == int(ComputeMode::TF32) &&
              KILN_COMPUTE_FAST_FP8 == int(ComputeMode::FastFp8));
static_assert(KILN_LAYOUT_NN == int(Layout::NN) &&
              KILN_LAYOUT_NT == int(Layout::NT) &&
              KILN_LAYOUT_TN == int(Layout::TN) &&
              KILN_LAYOUT_TT == int(Layout::TT));
static_assert(KILN_ORDER_K64R16 == int(WeightOrder::K64R16));
static_assert(KILN_GROUPS_ENDS == int(GroupKind::Ends) &&
              KILN_GROUPS_MASKED == int(GroupKind::Masked));

/// The value of scale_b of packed weights, or -1.
static int packedKindOf(const kiln_scale &given) {
  if (given.granularity == KILN_GRANULARITY_ROW)
    return given.block_rows || given.block_columns ? -1 : int(ScaleKind::Row);
  if (given.granularity != KILN_GRANULARITY_BLOCK || given.block_rows != 1)
    return -1;
  switch (given.block_columns) {
  case 32:
    return kScale1x32;
  case 64:
    return kScale1x64;
  case 128:
    return int(ScaleKind::Block1x128);
  default:
    return -1;
  }
}

namespace {
struct GemmVisit {
  using Args = kiln_gemm_args;
  static constexpr int kFields = GemmField::Count;
  static constexpr int kOperands = GemmOperand::Count;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_gemm_args"))
      return;
    Parts parts;
    if (args.scales || args.packed_b || args.quantized_d) [[unlikely]]
      parts = visitParts(args, v);
    const kiln_dtype in = args.a.type, inB = args.b.type ? args.b.type : in;
    const kiln_dtype usual = kiln_dtype(defaultOut(static_cast<DType>(in)));
    const kiln_dtype out = args.d.type ? args.d.type : usual;
    // A result that is quantised has the usual type before.
    const kiln_dtype side = parts.scaleD ? usual : out;
    v.type(GemmField::DType, "a.type", in, in);
    v.type(GemmField::TypeB, "b.type", inB, inB == in ? 0 : inB);
    v.type(GemmField::Out, "d.type", out, out == usual ? 0 : out);
    v.choice(GemmField::Compute, "compute", args.compute, args.compute);
    v.choice(GemmField::Layout, "layout", args.layout, args.layout);
    visitSizes(args, v);
    const bool readsC = args.beta != 0 || args.beta_device;
    const Rows rows = visitGroups(args, parts, v);
    const int64_t cols = visitChain(args, rows, side, v);
    visitInputs(args, parts, rows, readsC, side, v);
    v.factors({.name = "quantized_d.scale",
               .given = parts.scaleD,
               .index = GemmOperand::ScaleD,
               .kind = GemmField::ScaleD,
               .order = GemmField::ScaleOrderD,
               .ld = GemmField::LdScaleD,
               .isTransposed = false,
               .rows = rows.room,
               .depth = cols,
               .areWritten = true,
               .hasBatches = !rows.areFlat});
    v.operand({.name = "d",
               .given = args.d,
               .index = GemmOperand::D,
               .type = out,
               .typeOf = "d",
               .rowLength = cols,
               .field = GemmField::Ldd,
               .isWritten = true,
               .rows = rows.room,
               .mayBe = readsC ? int(GemmOperand::C) : -1,
               .mayBeType = side,
               .mayBeName = "c",
               .hasBatches = !rows.areFlat});
    visitScalars(args, readsC, v);
    v.alignment(GemmField::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitSizes(const Args &args, Visitor &v) {
    v.number(GemmField::M, "m", args.m);
    v.number(GemmField::N, "n", args.n);
    v.number(GemmField::K, "k", args.k);
    v.number(GemmField::Batch, "batch", args.batch);
    if (args.batch == 0) [[unlikely]]
      v.require(args.alpha != 0 || args.beta != 0 || args.alpha_device ||
                    args.beta_device,
                ErrorCode::InvalidArgument,
                "batch, alpha and beta are 0: kiln_gemm_args_init() sets batch "
                "and alpha to 1");
    v.isEmpty(args.m == 0 || args.n == 0 || args.batch == 0);
    v.batches(args.batch);
  }

  template <class Visitor>
  KILN_INLINE static void visitScalars(const Args &args, bool readsC,
                                       Visitor &v) {
    v.scalar({.name = "alpha",
              .value = args.alpha,
              .field = GemmField::Alpha,
              .index = GemmScalar::Alpha,
              .address = args.alpha_device,
              .addressName = "alpha_device"});
    v.scalar({.name = "beta",
              .value = args.beta,
              .field = GemmField::Beta,
              .index = GemmScalar::Beta,
              .isUsed = readsC,
              .address = args.beta_device,
              .addressName = "beta_device"});
  }

  /// The parts of a call that a plain one does without; null: not given.
  struct Parts {
    const kiln_scale *scaleA = nullptr, *scaleB = nullptr, *scaleD = nullptr;
    const kiln_scale *zerosA = nullptr;
    const int32_t *columnSums = nullptr;
    const kiln_gemm_packed_b *packedB = nullptr;
  };

  template <class Visitor>
  [[gnu::noinline]] static Parts visitParts(const Args &args, Visitor &v) {
    Parts parts;
    if (args.scales && v.nested(*args.scales, "scales")) {
      const kiln_gemm_scales &given = *args.scales;
      parts.scaleA = v.scaleOf("scales.a", given.a);
      parts.scaleB = v.scaleOf("scales.b", given.b);
      parts.zerosA = v.scaleOf("scales.a_zeros", given.a_zeros);
      parts.columnSums = given.column_sums_b;
    }
    if (args.packed_b && v.nested(*args.packed_b, "packed_b"))
      parts.packedB = args.packed_b;
    v.require(!parts.packedB || !parts.scaleB, ErrorCode::InvalidArgument,
              "scales.b is given with packed_b: its scales are packed_b.scale");
    if (args.quantized_d && v.nested(*args.quantized_d, "quantized_d")) {
      parts.scaleD = v.scaleOf("quantized_d.scale", args.quantized_d->scale);
      v.require(parts.scaleD, ErrorCode::InvalidArgument,
                "quantized_d.scale.granularity is required");
    }
    return parts;
  }

  /// Rows that A and D have.
  struct Rows {
    int64_t room, ofA;
    bool areFlat; ///< one matrix has those of all groups
  };

  template <class Visitor>
  KILN_INLINE static Rows visitGroups(const Args &args, const Parts &parts,
                                      Visitor &v) {
    v.number(GemmField::GroupAlign, "groups.align", 1);
    v.number(GemmField::Divisor, "groups.divisor", 1);
    for (int field : {GemmField::Groups, GemmField::Room, GemmField::Gather,
                      GemmField::Scatter, GemmField::RowWeights})
      v.absent(field);
    if (!args.groups) [[likely]]
      return {args.m, args.m, false};
    return visitGiven(args, parts.scaleA, *args.groups, v);
  }

  template <class Visitor>
  [[gnu::noinline]] static Rows
  visitGiven(const Args &args, const kiln_scale *scaleA,
             const kiln_gemm_groups &groups, Visitor &v) {
    Rows rows{args.m, args.m, false};
    if (!v.nested(groups, "groups"))
      return rows;
    const bool isMasked = groups.kind == KILN_GROUPS_MASKED;
    v.require(groups.kind != 0, ErrorCode::InvalidArgument,
              "groups.kind is required");
    v.choice(GemmField::Groups, "groups.kind", groups.kind, groups.kind);
    v.require(!isMasked || args.m != 0 || groups.room == 0,
              ErrorCode::InvalidArgument,
              "m is 0: of masked groups it is how many rows to expect of each");
    v.require(isMasked || groups.room == 0, ErrorCode::Unsupported,
              "groups.room is {}, masked groups have one", groups.room);
    v.require(!isMasked || groups.align == 0, ErrorCode::Unsupported,
              "groups.align is {}, groups with ends have one", groups.align);
    if (isMasked)
      rows.room = rows.ofA =
          v.derived(GemmField::Room, "groups.room", groups.room, args.m);
    v.number(GemmField::GroupAlign, "groups.align",
             resolveRow(groups.align, 1));
    v.array({.name = "groups.sizes",
             .address = groups.sizes,
             .index = GemmOperand::GroupSizes,
             .rowLength = args.batch});
    rows.areFlat = !isMasked;
    v.require(isMasked || !scaleA || scaleA->batch_stride == 0,
              ErrorCode::Unsupported,
              "scales.a: batch_stride is set, groups share one matrix");
    visitMap(args, groups, rows, v);
    return rows;
  }

  template <class Visitor>
  static void visitMap(const Args &args, const kiln_gemm_groups &map,
                       Rows &rows, Visitor &v) {
    constexpr uint32_t kBoth = KILN_ROWS_GATHER | KILN_ROWS_SCATTER;
    constexpr uint32_t kAll = kBoth | KILN_ROWS_WEIGHTS;
    const bool gathers = map.flags & KILN_ROWS_GATHER;
    const bool hasWeights = map.flags & KILN_ROWS_WEIGHTS;
    v.require((map.flags & ~kAll) == 0, ErrorCode::Unsupported,
              "groups.flags {:#x} are unknown", map.flags);
    v.require((map.flags & kBoth) || !map.index, ErrorCode::InvalidArgument,
              "groups.index is set without a gather or a scatter");
    v.require(hasWeights || !map.weights, ErrorCode::InvalidArgument,
              "groups.weights is set without its flag");
    v.number(GemmField::Gather, "groups.flags", gathers);
    v.number(GemmField::Scatter, "groups.flags",
             (map.flags & KILN_ROWS_SCATTER) != 0);
    v.number(GemmField::RowWeights, "groups.flags", hasWeights);
    v.require(gathers || map.divisor == 0, ErrorCode::Unsupported,
              "groups.divisor is {} without a gather", map.divisor);
    const int64_t divisor = gathers ? resolveRow(map.divisor, 1) : 1;
    v.number(GemmField::Divisor, "groups.divisor", divisor);
    if (gathers && args.m > 0 && divisor > 0)
      rows.ofA = (args.m - 1) / divisor + 1;
    if (map.flags & kBoth)
      v.array({.name = "groups.index",
               .address = map.index,
               .index = GemmOperand::RowIndex,
               .rowLength = args.m});
    if (hasWeights)
      v.array({.name = "groups.weights",
               .address = map.weights,
               .index = GemmOperand::RowWeights,
               .rowLength = args.m});
  }

  template <class Visitor>
  KILN_INLINE static void visitInputs(const Args &args, const Parts &parts,
                                      const Rows &rows, bool readsC,
                                      kiln_dtype side, Visitor &v) {
    const auto layout = static_cast<Layout>(args.layout);
    v.operand({.name = "a",
               .given = args.a,
               .index = GemmOperand::A,
               .type = args.a.type,
               .typeOf = "a",
               .rowLength = isTransposedA(layout) ? args.m : args.k,
               .field = GemmField::Lda,
               .isUsed = args.k != 0,
               .hasBatches = !rows.areFlat});
    v.factors({.name = "scales.a",
               .given = parts.scaleA,
               .index = GemmOperand::ScaleA,
               .kind = GemmField::ScaleA,
               .order = GemmField::ScaleOrderA,
               .ld = GemmField::LdScaleA,
               .isTransposed = isTransposedA(layout),
               .rows = rows.ofA,
               .depth = args.k});
    visitZeroPoints(args, parts, layout, v);
    if (parts.packedB) [[unlikely]]
      visitPacked(args, *parts.packedB, v);
    else
      visitPlainB(args, parts.scaleB, layout, v);
    v.absent(GemmField::Ldc);
    if (readsC)
      v.operand({.name = "c",
                 .given = args.c,
                 .index = GemmOperand::C,
                 .type = side,
                 .typeOf = "d",
                 .rowLength = args.n,
                 .field = GemmField::Ldc});
    else
      v.unread("c", args.c);
  }

  template <class Visitor>
  KILN_INLINE static void visitZeroPoints(const Args &args, const Parts &parts,
                                          Layout layout, Visitor &v) {
    v.factors({.name = "scales.a_zeros",
               .given = parts.zerosA,
               .index = GemmOperand::ZeroA,
               .kind = GemmField::ZeroA,
               .order = -1,
               .ld = -1,
               .isTransposed = isTransposedA(layout),
               .rows = args.m,
               .depth = args.k,
               .areIntegers = true});
    v.require(parts.zerosA || !parts.columnSums, ErrorCode::InvalidArgument,
              "scales.column_sums_b is given without scales.a_zeros");
    if (parts.zerosA) [[unlikely]]
      v.array({.name = "scales.column_sums_b",
               .address = parts.columnSums,
               .index = GemmOperand::ColumnSumsB,
               .rowLength = args.n,
               .batchStride = args.b.batch_stride ? args.n : 0});
  }

  template <class Visitor>
  KILN_INLINE static void visitPlainB(const Args &args, const kiln_scale *scale,
                                      Layout layout, Visitor &v) {
    v.operand({.name = "b",
               .given = args.b,
               .index = GemmOperand::B,
               .type = args.b.type ? args.b.type : args.a.type,
               .typeOf = "b",
               .rowLength = isTransposedB(layout) ? args.k : args.n,
               .field = GemmField::Ldb,
               .isUsed = args.k != 0});
    v.factors({.name = "scales.b",
               .given = scale,
               .index = GemmOperand::ScaleB,
               .kind = GemmField::ScaleB,
               .order = GemmField::ScaleOrderB,
               .ld = GemmField::LdScaleB,
               .isTransposed = !isTransposedB(layout),
               .rows = args.n,
               .depth = args.k});
    for (int field :
         {GemmField::OrderB, GemmField::ScaleTypeB, GemmField::ZeroB})
      v.absent(field);
  }

  template <class Visitor>
  KILN_INLINE static void
  visitPacked(const Args &args, const kiln_gemm_packed_b &packed, Visitor &v) {
    for (int field :
         {GemmField::Ldb, GemmField::ScaleOrderB, GemmField::LdScaleB})
      v.absent(field);
    v.packed({.name = "b",
              .given = args.b,
              .structName = "packed_b",
              .givenOrder = packed.order,
              .scale = packed.scale,
              .zeros = v.scaleOf("packed_b.zeros", packed.zeros),
              .index = GemmOperand::B,
              .scaleIndex = GemmOperand::ScaleB,
              .zeroIndex = GemmOperand::ZeroB,
              .ld = args.k,
              .order = GemmField::OrderB,
              .kind = GemmField::ScaleB,
              .type = GemmField::ScaleTypeB,
              .hasZero = GemmField::ZeroB,
              .kindOf = packedKindOf,
              .scaleDefault = kiln_dtype(defaultScaleType(
                  WeightOrder::K64R16, static_cast<DType>(args.b.type)))});
  }

  /// Returns the columns of what the chain makes.
  template <class Visitor>
  KILN_INLINE static int64_t visitChain(const Args &args, const Rows &rows,
                                        kiln_dtype side, Visitor &v) {
    int64_t cols = args.n;
    v.absent(GemmField::LdResidual);
    v.chain(GemmField::Pointwise, args,
            [&](const kiln_pointwise &link, int i, int) {
              const bool isBias = link.op == KILN_POINTWISE_BIAS;
              if (joinsColumns(static_cast<PointwiseOp>(link.op)))
                cols = args.n / 2;
              const StatedName name = {"pointwise[{}].operand", i};
              if (!isBias && link.op != KILN_POINTWISE_RESIDUAL)
                return v.unread(name, link.operand);
              v.operand(
                  {.name = name,
                   .given = link.operand,
                   .index = isBias ? GemmOperand::Bias : GemmOperand::Residual,
                   .type = side,
                   .typeOf = "d",
                   .rowLength = cols,
                   .field = isBias ? -1 : int(GemmField::LdResidual),
                   .hasBatches = isBias || !rows.areFlat});
            });
    return cols;
  }
};
} // namespace

constexpr CallReader kGemmCall = makeCallReader<GemmVisit>(KILN_FAMILY_GEMM);

} // namespace kiln
