//===- QuantizedD.h - an e4m3 D of a GEMM ---------------------------------===//
//
// The part of a GEMM problem whose results are quantised: a step behind the
// product (QuantizeStep.h) makes D and its scales.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmFields.h"
#include "Families/Gemm/GemmScales.h"

namespace kiln {

struct QuantizedD {
  /// Scales of an e4m3 D: that of the tensor is given, others are written.
  OperandScales scaleD;

  bool quantizes() const { return scaleD.kind != ScaleKind::None; }
  bool writesScalesD() const {
    return quantizes() && scaleD.kind != ScaleKind::Tensor;
  }

  static void addFields(llvm::MutableArrayRef<Field> fields);
  template <class P> static void read(const int64_t *values, P &p);
  static llvm::Error check(const GemmProblem &p);
  static void reset(const GemmProblem &p, Values &values);
  static void describe(const GemmProblem &p, OperandTable &table);
};

/// Turns the values of a problem with a quantised output into those of the
/// product that comes first: the same problem with D of sideType(), in packed
/// rows of whole vectors of 16 bytes. Nanoseconds: called on every launch.
void toProduct(int64_t *values);

template <class P> void QuantizedD::read(const int64_t *values, P &p) {
  using F = GemmField;
  p.scaleD.kind = static_cast<ScaleKind>(values[F::ScaleD]);
  if (p.quantizes()) [[unlikely]] {
    p.scaleD.alongRows = values[F::ScaleOrderD] != 0;
    p.scaleD.ld =
        valueOr(values, F::LdScaleD, p.scaleD.packedLd(p.room, p.outCols()));
  }
}

} // namespace kiln
