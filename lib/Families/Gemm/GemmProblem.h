//===- GemmProblem.h - a GEMM problem, typed ------------------------------===//
//
// The typed form of the values "gemm m=.. n=.. k=.." and of their signature.
// D = pointwise(alpha * op(A) op(B) + beta * C).
//
// A problem is made of parts. Each part is a struct of its members, in a file
// of its own, with these static functions:
//   addFields  puts its fields in the places that GemmField has for them
//   read       sets its members from values and from the parts before it
//   check      returns an error for a problem that the family does not compute
//   reset      sets values that equal a default, or are never read, to it
//   describe   puts its operands in the places that GemmOperand has for them
// (GemmShape has no operands. read() runs on every launch, so that it is a
// template in the header: GemmProblem is complete once its parts are.)
//
// Another part is a base of GemmProblem and a line in each of gemmFields(),
// readGemmProblem(), GemmFamily::canonicalise() and gemmOperands(). Its check
// goes into checkParts(), whose order is deliberate: where several parts are at
// fault, the error is that of the rarer feature. It has members in
// GemmSignature where kernels are compiled for it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmEpilogue.h"
#include "Families/Gemm/GemmFields.h"
#include "Families/Gemm/GemmGroups.h"
#include "Families/Gemm/GemmMatrices.h"
#include "Families/Gemm/GemmScales.h"
#include "Families/Gemm/GemmShape.h"
#include "Families/Gemm/PackedB.h"
#include "Families/Gemm/QuantizedD.h"
#include "gemm/GemmSignature.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLExtras.h>

#include <cassert>
#include <cstring>
#include <optional>
#include <string>

namespace kiln {

/// All parts, and what follows from several of them. Leading dimensions are
/// resolved: never 0 in a problem that canonicalise() made, except where a row
/// is empty.
struct GemmProblem : GemmShape,
                     GemmGroups,
                     GemmEpilogue,
                     PackedB,
                     GemmMatrices,
                     GemmScales,
                     QuantizedD {
  /// The type of C, bias and residual: D's, or that of the product whose
  /// results are quantised.
  DType sideType() const { return quantizes() ? defaultOut(dtype) : out; }

  /// Rows of A, which its scales count: the rows to gather from, or the rows of
  /// the product.
  int64_t scaledRowsA() const {
    return !gathers ? room : m == 0 ? 0 : (allRows - 1) / divisor + 1;
  }

  // Rows and columns of A and B as they are stored.
  int64_t rowsA() const { return isTransposedA(layout) ? k : room; }
  int64_t colsA() const { return isTransposedA(layout) ? room : k; }
  int64_t rowsB() const { return isTransposedB(layout) ? n : k; }
  int64_t colsB() const { return isTransposedB(layout) ? k : n; }

  /// Columns of D.
  int64_t outCols() const { return n / pointwise.columnsPerResult(); }
  /// Columns that the chain's \p op acts on, and so those of its operand.
  int64_t linkCols(PointwiseOp op) const {
    return n / pointwise.columnsBefore(pointwise.find(op));
  }
  /// Scales of a row of D.
  int64_t rowScalesD() const { return scaleD.depthsOf(outCols()); }

  // Batch strides, contiguous.
  int64_t strideA() const { return rowsA() * lda; }
  int64_t strideB() const { return rowsB() * ldb; }
  int64_t strideC() const { return room * ldc; }
  int64_t strideD() const { return room * ldd; }
  int64_t strideResidual() const { return room * ldResidual; }

  double flops() const { return 2.0 * m * n * k * batchA; }
};

const Schema &gemmProblemSchema();

/// Reads the values of a problem, in schema order, and resolves derived
/// defaults. Takes nanoseconds: it runs on launches.
GemmProblem readGemmProblem(const int64_t *values);

/// The problem of a plan, read once: many launches repeat it.
struct PlannedGemm {
  explicit PlannedGemm(llvm::ArrayRef<int64_t> given)
      : problem(readGemmProblem(given.data())) {
    assert(given.size() == GemmField::Count && "values of another schema");
    llvm::copy(given, values);
  }

  int64_t values[GemmField::Count];
  GemmProblem problem;
};

/// The problem of a launch: the plan's, which has to outlive this object, or
/// read where its values differ.
class LaunchedGemm {
public:
  LaunchedGemm(const PlannedGemm &planned, const int64_t *values)
      : problem(&planned.problem) {
    if (std::memcmp(values, planned.values, sizeof(planned.values)) != 0)
      problem = &own.emplace(readGemmProblem(values));
  }
  LaunchedGemm(const LaunchedGemm &) = delete;
  LaunchedGemm &operator=(const LaunchedGemm &) = delete;

  const GemmProblem &operator*() const { return *problem; }

private:
  const GemmProblem *problem;
  std::optional<GemmProblem> own; ///< none: the plan's
};

/// Signature of a problem: alignment classes from `align` and leading
/// dimensions.
GemmSignature signatureOf(const GemmProblem &problem);

Values toValues(const GemmSignature &signature);
GemmSignature readGemmSignature(const Values &values);

/// "{.in = kiln::DType::BF16, ...}": the signature as a designated initialiser.
std::string initializerText(const GemmSignature &signature);

} // namespace kiln
