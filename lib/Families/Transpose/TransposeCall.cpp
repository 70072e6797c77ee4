//===- TransposeCall.cpp - kiln_transpose_args as a call ------------------===//
#include "Families/Transpose/TransposeFamily.h"

#include "Call/Visit.h"
#include "Families/Transpose/TransposeProblem.h"

namespace kiln {

static_assert(int(KILN_TRANSPOSE_X) == int(TransposeOperand::X) &&
              int(KILN_TRANSPOSE_Y) == int(TransposeOperand::Y));

namespace {
struct TransposeVisit {
  using Args = kiln_transpose_args;
  static constexpr int kFields = TransposeField::Align + 1;
  static constexpr int kOperands = TransposeOperand::Count;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_transpose_args"))
      return;
    const kiln_dtype type = args.x.type;
    v.type(TransposeField::DType, "x.type", type, type);
    v.number(TransposeField::Rows, "rows", args.rows);
    v.number(TransposeField::Cols, "cols", args.cols);
    v.isEmpty(args.rows == 0 || args.cols == 0);
    v.operand({.name = "x",
               .given = args.x,
               .index = TransposeOperand::X,
               .type = type,
               .typeOf = "x",
               .rowLength = args.cols,
               .field = TransposeField::Ldx});
    v.operand({.name = "y",
               .given = args.y,
               .index = TransposeOperand::Y,
               .type = type,
               .typeOf = "x",
               .rowLength = args.rows,
               .field = TransposeField::Ldy,
               .isWritten = true});
    v.alignment(TransposeField::Align);
  }
};
} // namespace

constexpr CallReader kTransposeCall =
    makeCallReader<TransposeVisit>(KILN_FAMILY_TRANSPOSE);

} // namespace kiln
