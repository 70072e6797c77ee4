//===- ElementwiseCall.cpp - kiln_elementwise_args as a call --------------===//
#include "Families/Elementwise/ElementwiseFamily.h"

#include "Call/Visit.h"
#include "Families/Elementwise/ElementwiseProblem.h"

namespace kiln {

/// It had no y_scale.
template <>
inline constexpr size_t kFirstVersionSize<kiln_elementwise_args> = 216;

static_assert(int(KILN_ELEMENTWISE_X) == int(ElementwiseOperand::X) &&
              int(KILN_ELEMENTWISE_Y) == int(ElementwiseOperand::Y) &&
              int(KILN_ELEMENTWISE_POINTWISE) ==
                  int(ElementwiseOperand::FirstLink) &&
              int(KILN_ELEMENTWISE_SCALES) == int(ElementwiseOperand::Scales) &&
              int(KILN_ELEMENTWISE_SLOT_COUNT) ==
                  int(ElementwiseOperand::Count));

namespace {
struct ElementwiseVisit {
  using Args = kiln_elementwise_args;
  static constexpr int kFields = ElementwiseField::Align + 1;
  static constexpr int kOperands = ElementwiseOperand::Count;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_elementwise_args"))
      return;
    const kiln_dtype in = args.x.type, out = args.y.type ? args.y.type : in;
    v.type(ElementwiseField::DType, "x.type", in, in);
    v.type(ElementwiseField::Out, "y.type", out, out == in ? 0 : out);
    v.number(ElementwiseField::Rows, "rows", args.rows);
    v.number(ElementwiseField::Cols, "cols", args.cols);
    v.isEmpty(args.rows == 0 || args.cols == 0);
    visitChain(args, v);
    v.factors({.name = "y_scale",
               .given = v.scaleOf("y_scale", args.y_scale),
               .index = ElementwiseOperand::Scales,
               .kind = ElementwiseField::ScaleY,
               .order = ElementwiseField::ScaleOrderY,
               .ld = ElementwiseField::LdScaleY,
               .rows = args.rows,
               .depth = args.cols,
               .areWritten = true,
               .hasBatches = false,
               .keepsRows = true});
    v.operand({.name = "x",
               .given = args.x,
               .index = ElementwiseOperand::X,
               .type = in,
               .typeOf = "x",
               .rowLength = args.cols,
               .field = ElementwiseField::LdX});
    v.operand({.name = "y",
               .given = args.y,
               .index = ElementwiseOperand::Y,
               .type = out,
               .typeOf = "y",
               .rowLength = args.cols,
               .field = ElementwiseField::LdY,
               .isWritten = true,
               .mayBe = ElementwiseOperand::X,
               .mayBeType = in,
               .mayBeName = "x"});
    v.alignment(ElementwiseField::Align);
  }

  template <class Visitor>
  KILN_INLINE static void visitChain(const Args &args, Visitor &v) {
    StatedScalar scale = {.name = "scale",
                          .value = 1,
                          .field = ElementwiseField::Scale,
                          .index = ElementwiseScalar::Scale};
    const kiln_operand *matrix = nullptr;
    v.absent(ElementwiseField::LdOperand);
    auto visitLink = [&](const kiln_pointwise &link, int i, int position) {
      const LinkShape shape = shapeOf(static_cast<PointwiseOp>(link.op));
      if (shape == LinkShape::Scalar) {
        scale.name = {"pointwise[{}].params[0]", i};
        scale.value = link.params[0];
      }
      const StatedName name = {"pointwise[{}].operand", i};
      if (shape == LinkShape::Scalar || shape == LinkShape::None)
        return v.unread(name, link.operand);
      const bool isMatrix = shape == LinkShape::Matrix;
      if (isMatrix) {
        const int64_t own = resolveRow(link.operand.leading_dim, args.cols);
        const int64_t first =
            matrix ? resolveRow(matrix->leading_dim, args.cols) : own;
        v.require(own == first, ErrorCode::Unsupported,
                  "pointwise[{}].operand.leading_dim is {}, that of another "
                  "link is {}: matrices of a chain share one",
                  i, own, first);
        matrix = &link.operand;
      }
      v.operand({.name = name,
                 .given = link.operand,
                 .index = ElementwiseOperand::FirstLink + position,
                 .type = args.x.type,
                 .typeOf = "x",
                 .rowLength = isMatrix ? args.cols : 0,
                 .field = isMatrix ? int(ElementwiseField::LdOperand) : -1});
    };
    v.chain(ElementwiseField::Op, args, visitLink);
    v.scalar(scale);
  }
};
} // namespace

constexpr CallReader kElementwiseCall =
    makeCallReader<ElementwiseVisit>(KILN_FAMILY_ELEMENTWISE);

} // namespace kiln
