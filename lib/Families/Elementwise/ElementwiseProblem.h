//===- ElementwiseProblem.h - an elementwise problem, typed ---------------===//
//
// The typed form of the values "elementwise rows=.. cols=.. op=.." and of their
// signature. y = chain(x). A y that is quantised, with scales that follow from
// its values, is made by the kernels over rows (Families/Rows), whose signature
// such problems have.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/OperandScales.h"
#include "Kernel/Values.h"
#include "elementwise/ElementwiseSignature.h"

#include <llvm/Support/Error.h>

#include <algorithm>

namespace kiln {

/// Sizes and leading dimensions in elements. Leading dimensions are resolved:
/// never 0 after canonicalise(), except where a row is empty.
struct ElementwiseProblem {
  PointwiseChain chain;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::BF16, out = DType::BF16;
  double scale = 1; ///< factor of the `scale` link
  int64_t ldx = 0, ldy = 0;
  int64_t ldOperand = 0; ///< of every matrix operand of a link
  OperandScales scaleY;  ///< of a quantised y
  /// Every pointer is a multiple of this many bytes, and of its own element's.
  int64_t align = 16;

  bool quantizes() const { return scaleY.kind != ScaleKind::None; }
  /// True when some link reads an operand of \p shape.
  bool reads(LinkShape shape) const {
    return std::any_of(std::begin(chain.ops), std::end(chain.ops),
                       [&](PointwiseOp op) { return shapeOf(op) == shape; });
  }
};

/// Indices of the fields of the problem's schema, in its order.
struct ElementwiseField {
  enum : int {
    Op,
    Rows,
    Cols,
    DType,
    Out,
    Scale,
    LdX,
    LdY,
    LdOperand,
    ScaleY,
    ScaleOrderY,
    LdScaleY,
    Align,
  };
};

/// Operands in the order of Arguments::operands: x, y, then one for each link
/// of the chain, present if the link reads one, and the scales of y.
struct ElementwiseOperand {
  enum : int {
    X,
    Y,
    FirstLink,
    Scales = FirstLink + PointwiseChain::kMaxOps,
    Count
  };
};

/// Scalars in the order of Arguments::scalars.
struct ElementwiseScalar {
  enum : int { Scale };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &elementwiseProblemSchema();

/// Replaces the name of a cast ("cast_fp32_bf16") by its meaning: an empty
/// chain, dtype and out. Errors: InvalidArgument if the cast is not alone in
/// its chain or contradicts other values, and if no type is given.
llvm::Error resolveCast(Values &values);

/// Reads the values of a problem after resolveCast(), in schema order, and
/// resolves derived defaults. Nanoseconds: called on every launch.
ElementwiseProblem readElementwiseProblem(const int64_t *values);

/// The part of \p problem, which is not quantised, that is fixed at compile
/// time.
ElementwiseSignature signatureOf(const ElementwiseProblem &problem);
/// Converts a signature to values, and back.
Values toValues(const ElementwiseSignature &signature);
ElementwiseSignature readElementwiseSignature(const Values &values);

/// The signature as a designated initialiser: "{.in = kiln::DType::BF16, ...}".
std::string initializerText(const ElementwiseSignature &signature);

/// The most elements of one access, a power of two up to 16: every pointer and,
/// unless all matrices are packed, the start of every row are aligned to
/// accessBytes of that many elements of either type.
int64_t widestVector(const ElementwiseProblem &problem);

} // namespace kiln
