//===- RowCall.cpp - reductions, softmax, norms, quantisation as calls ----===//
#include "Families/Rows/RowFamily.h"

#include "Call/Visit.h"
#include "rows/RowParams.h"
#include "rows/RowSignature.h"

#include <cassert>

namespace kiln {

static_assert(int(KILN_ROW_X) == int(RowOperand::X) &&
              int(KILN_ROW_Y) == int(RowOperand::Y) &&
              int(KILN_ROW_WEIGHT) == int(RowOperand::Weight) &&
              int(KILN_ROW_BIAS) == int(RowOperand::Bias) &&
              int(KILN_ROW_RESIDUAL) == int(RowOperand::Residual) &&
              int(KILN_ROW_RESIDUAL_OUT) == int(RowOperand::ResidualOut) &&
              int(KILN_ROW_MASK) == int(RowOperand::Mask) &&
              int(KILN_ROW_SCALES) == int(RowOperand::Scales) &&
              int(KILN_ROW_SLOT_COUNT) == int(RowOperand::Count));

namespace {

/// The parts that the structs of these families share.
template <RowKind kKind, class ArgsOf> struct RowVisit {
  using Args = ArgsOf;
  static constexpr int kFields = fieldsOf(kKind).count;
  static constexpr int kOperands = RowOperand::Count;
  /// Index of a RowField among the family's fields.
  template <int kField> static constexpr int kAt = fieldIndex(kKind, kField);

  static kiln_dtype outOf(const Args &args) {
    return args.y.type ? args.y.type : args.x.type;
  }

  /// Visits types, extents and x.
  template <class Visitor>
  KILN_INLINE static void visitShape(const Args &args, Visitor &v) {
    const kiln_dtype in = args.x.type, out = outOf(args);
    v.type(kAt<RowField::DType>, "x.type", in, in);
    if constexpr (kKind == RowKind::Quantize)
      v.type(kAt<RowField::Op>, "y.type", args.y.type, args.y.type);
    else
      v.type(kAt<RowField::Out>, "y.type", out, out == in ? 0 : out);
    v.number(kAt<RowField::Rows>, "rows", args.rows);
    v.number(kAt<RowField::Cols>, "cols", args.cols);
    v.isEmpty(args.rows == 0 || args.cols == 0);
    v.operand({.name = "x",
               .given = args.x,
               .index = RowOperand::X,
               .type = in,
               .typeOf = "x",
               .rowLength = args.cols,
               .field = kAt<RowField::LdX>});
  }

  /// Visits a y of rows, with its scales if it is quantised.
  template <class Visitor>
  KILN_INLINE static void visitY(const Args &args, bool mayBeX, Visitor &v) {
    v.operand({.name = "y",
               .given = args.y,
               .index = RowOperand::Y,
               .type = outOf(args),
               .typeOf = "y",
               .rowLength = args.cols,
               .field = kAt<RowField::LdY>,
               .isWritten = true,
               .mayBe = mayBeX ? int(RowOperand::X) : -1,
               .mayBeType = args.x.type,
               .mayBeName = "x"});
    v.alignment(kAt<RowField::Align>);
  }

  /// The scales of y, which only a quantised one has.
  template <class Visitor>
  KILN_INLINE static void visitScales(const Args &args, bool isQuantized,
                                      Visitor &v) {
    const kiln_scale *given = v.scaleOf("y_scale", args.y_scale);
    v.require(isQuantized || !given, ErrorCode::Unsupported,
              "y_scale is given for type {:#x}: only e4m3 and int8 have scales",
              outOf(args));
    v.require(!isQuantized || given, ErrorCode::InvalidArgument,
              "y_scale.granularity is none: type {:#x} needs a scale of each "
              "row or block",
              outOf(args));
    v.factors({.name = "y_scale",
               .given = isQuantized ? given : nullptr,
               .index = RowOperand::Scales,
               .kind = kAt<RowField::ScaleY>,
               .order = kAt<RowField::ScaleOrderY>,
               .ld = kAt<RowField::LdScaleY>,
               .rows = args.rows,
               .depth = args.cols,
               .areWritten = true,
               .hasBatches = false,
               .keepsRows = true,
               .kindDefault = ScaleKind::Row});
  }
};

struct ReduceVisit : RowVisit<RowKind::Reduce, kiln_reduce_args> {
  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    // The reductions of RowOp follow its other operations.
    constexpr int kFirst = int(RowOp::Sum) - int(KILN_REDUCTION_SUM);
    static_assert(kFirst + KILN_REDUCTION_MAX == int(RowOp::Max) &&
                  kFirst + KILN_REDUCTION_MEAN == int(RowOp::Mean) &&
                  kFirst + KILN_REDUCTION_SUM_SQUARES ==
                      int(RowOp::SumSquares));
    if (!v.begin(args, "kiln_reduce_args"))
      return;
    v.choice(kAt<RowField::Op>, "op", args.op, int64_t(args.op) + kFirst);
    v.choice(kAt<RowField::Axis>, "axis", args.axis, args.axis);
    visitShape(args, v);
    v.operand({.name = "y",
               .given = args.y,
               .index = RowOperand::Y,
               .type = outOf(args),
               .typeOf = "y",
               .rowLength = 1,
               .isWritten = true});
    v.alignment(kAt<RowField::Align>);
  }
};

struct SoftmaxVisit : RowVisit<RowKind::Softmax, kiln_softmax_args> {
  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    constexpr int kStep = KILN_MASK_MATRIX;
    static_assert(KILN_MASK_MATRIX == kStep * int(RowMask::Matrix) &&
                  KILN_MASK_ROW == kStep * int(RowMask::Row));
    if (!v.begin(args, "kiln_softmax_args"))
      return;
    const int kind = args.mask_kind % kStep ? -1 : args.mask_kind / kStep;
    const bool isMatrix = args.mask_kind == KILN_MASK_MATRIX;
    v.choice(kAt<RowField::Mask>, "mask_kind", args.mask_kind, kind);
    visitShape(args, v);
    v.absent(kAt<RowField::LdMask>);
    if (args.mask_kind != KILN_MASK_NONE)
      v.operand({.name = "mask",
                 .given = args.mask,
                 .index = RowOperand::Mask,
                 .type = args.x.type,
                 .typeOf = "x",
                 .rowLength = isMatrix ? args.cols : 0,
                 .field = isMatrix ? kAt<RowField::LdMask> : -1});
    else
      v.unread("mask", args.mask);
    visitY(args, /*mayBeX=*/true, v);
    v.require(args.scale != 0 || args.mask_kind != KILN_MASK_NONE,
              ErrorCode::InvalidArgument,
              "scale is 0 without a mask: kiln_softmax_args_init() sets it to "
              "1");
    v.scalar({.name = "scale",
              .value = args.scale,
              .field = kAt<RowField::Scale>,
              .index = 0});
  }
};

struct QuantizeVisit : RowVisit<RowKind::Quantize, kiln_quantize_args> {
  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_quantize_args"))
      return;
    visitShape(args, v);
    visitScales(args, /*isQuantized=*/true, v);
    visitY(args, /*mayBeX=*/false, v);
  }
};

/// Visits both norms, which have the same fields.
struct NormVisit : RowVisit<RowKind::RmsNorm, kiln_norm_args> {
  static_assert(&fieldsOf(RowKind::RmsNorm) == &fieldsOf(RowKind::LayerNorm));

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_norm_args"))
      return;
    visitShape(args, v);
    visitOptional(args, v);
    const kiln_dtype out = outOf(args);
    visitScales(args, out == KILN_E4M3 || out == KILN_INT8, v);
    visitY(args, /*mayBeX=*/true, v);
    v.scalar({.name = "epsilon",
              .value = args.epsilon,
              .field = kAt<RowField::Epsilon>,
              .index = 0,
              .least = kLeastEpsilon});
  }

  template <class Visitor>
  KILN_INLINE static void visitOptional(const Args &args, Visitor &v) {
    const bool hasResidual = args.residual.type != KILN_DTYPE_NONE;
    v.require(hasResidual == (args.residual_out.type != KILN_DTYPE_NONE),
              ErrorCode::Unsupported,
              "residual and residual_out come together: only the type of {} "
              "is set",
              hasResidual ? "residual" : "residual_out");
    v.number(
        kAt<RowField::Weight>, "weight",
        v.optional(vectorOf(args, "weight", args.weight, RowOperand::Weight)));
    v.number(kAt<RowField::Bias>, "bias",
             v.optional(vectorOf(args, "bias", args.bias, RowOperand::Bias)));
    v.number(kAt<RowField::Residual>, "residual",
             v.optional({.name = "residual",
                         .given = args.residual,
                         .index = RowOperand::Residual,
                         .type = args.x.type,
                         .typeOf = "x",
                         .rowLength = args.cols,
                         .field = kAt<RowField::LdResidual>}));
    v.optional({.name = "residual_out",
                .given = args.residual_out,
                .index = RowOperand::ResidualOut,
                .type = args.x.type,
                .typeOf = "x",
                .rowLength = args.cols,
                .field = kAt<RowField::LdResidualOut>,
                .isWritten = true,
                .mayBe = RowOperand::Residual,
                .mayBeType = args.x.type,
                .mayBeName = "residual"});
  }

  KILN_INLINE static StatedOperand vectorOf(const Args &args, const char *name,
                                            const kiln_operand &given,
                                            int index) {
    return {.name = name,
            .given = given,
            .index = index,
            .type = args.x.type,
            .typeOf = "x"};
  }
};

} // namespace

const CallReader &rowCall(RowKind kind) {
  static constexpr CallReader kRmsNorm =
      makeCallReader<NormVisit>(KILN_FAMILY_RMS_NORM);
  static constexpr CallReader kLayerNorm =
      makeCallReader<NormVisit>(KILN_FAMILY_LAYER_NORM);
  static constexpr CallReader kSoftmax =
      makeCallReader<SoftmaxVisit>(KILN_FAMILY_SOFTMAX);
  static constexpr CallReader kQuantize =
      makeCallReader<QuantizeVisit>(KILN_FAMILY_QUANTIZE);
  static constexpr CallReader kReduce =
      makeCallReader<ReduceVisit>(KILN_FAMILY_REDUCTION);
  switch (kind) {
  case RowKind::RmsNorm:
    return kRmsNorm;
  case RowKind::LayerNorm:
    return kLayerNorm;
  case RowKind::Softmax:
    return kSoftmax;
  case RowKind::Quantize:
    return kQuantize;
  case RowKind::Reduce:
    break;
  case RowKind::Pointwise:
    assert(false && "elementwise problems have a reader of their own");
  }
  return kReduce;
}

} // namespace kiln
