//===- GemmEpilogue.h - the epilogue of a GEMM ----------------------------===//
//
// The part of a GEMM problem that acts on finished sums:
// D = pointwise(alpha * sums + beta * C).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Chain.h"
#include "Families/Gemm/GemmFields.h"
#include "Kernel/Operand.h"
#include "Kernel/Values.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

struct GemmProblem;

/// Leading dimensions in elements.
struct GemmEpilogue {
  PointwiseChain pointwise;
  double alpha = 1, beta = 0;
  int64_t ldc = 0, ldResidual = 0;

  static void addFields(llvm::MutableArrayRef<Field> fields);
  template <class P> static void read(const int64_t *values, P &p);
  static llvm::Error check(const GemmProblem &p);
  static void reset(const GemmProblem &p, Values &values);
  static void describe(const GemmProblem &p, OperandTable &table);
};

// Names of values in texts.
inline constexpr FieldName kGemmPointwiseNames[] = {
    {int64_t(PointwiseOp::Bias), "bias"},
    {int64_t(PointwiseOp::Residual), "residual"},
    {int64_t(PointwiseOp::Relu), "relu"},
    {int64_t(PointwiseOp::GeluErf), "gelu_erf"},
    {int64_t(PointwiseOp::GeluTanh), "gelu_tanh"},
    {int64_t(PointwiseOp::Silu), "silu"},
    {int64_t(PointwiseOp::SwiGlu), "swiglu"},
    {int64_t(PointwiseOp::SwiGluClamped), "swiglu_clamped"}};

template <class P> void GemmEpilogue::read(const int64_t *values, P &p) {
  p.pointwise = decodeChain(values[GemmField::Pointwise]);
  p.alpha = decodeReal(values[GemmField::Alpha]);
  p.beta = decodeReal(values[GemmField::Beta]);
  p.ldc = valueOr(values, GemmField::Ldc, p.n);
  p.ldResidual =
      valueOr(values, GemmField::LdResidual, p.linkCols(PointwiseOp::Residual));
}

} // namespace kiln
