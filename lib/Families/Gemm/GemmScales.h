//===- GemmScales.h - scales of A and B, zero points of A -----------------===//
//
// The part of a GEMM problem that says how codes of one byte become numbers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmFields.h"
#include "Families/OperandScales.h"
#include "Kernel/Operand.h"
#include "Kernel/Values.h"
#include "common/Types.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

struct GemmProblem;

struct GemmScales {
  OperandScales scaleA, scaleB;
  /// Zero points of A: none, one, or one for each of its rows. Column sums of B
  /// come with them.
  ScaleKind zeroA = ScaleKind::None;

  static void addFields(llvm::MutableArrayRef<Field> fields);
  template <class P> static void read(const int64_t *values, P &p);
  static llvm::Error check(const GemmProblem &p);
  static void reset(const GemmProblem &p, Values &values);
  static void describe(const GemmProblem &p, OperandTable &table);
};

/// Values of scale_b that only packed weights have. A signature has them as
/// Block1x128 with a group size of 32 or 64.
inline constexpr int kScale1x32 = 50, kScale1x64 = 60;

// Names of values in texts. D has the names of A.
inline constexpr FieldName kGemmScaleNames[] = {
    {int64_t(ScaleKind::None), "none"},
    {int64_t(ScaleKind::Tensor), "tensor"},
    {int64_t(ScaleKind::Row), "row"},
    {int64_t(ScaleKind::Block1x128), "1x128"},
    {int64_t(ScaleKind::Block128x128), "128x128"},
    {kScale1x32, "1x32"},
    {kScale1x64, "1x64"}};
inline constexpr FieldName kGemmScaleNamesA[] = {
    {int64_t(ScaleKind::None), "none"},
    {int64_t(ScaleKind::Tensor), "tensor"},
    {int64_t(ScaleKind::Row), "row"},
    {int64_t(ScaleKind::Block1x128), "1x128"}};
inline constexpr FieldName kGemmScaleOrderNames[] = {{0, "k"}, {1, "rows"}};
inline constexpr FieldName kGemmZeroNames[] = {
    {int64_t(ScaleKind::None), "none"},
    {int64_t(ScaleKind::Tensor), "tensor"},
    {int64_t(ScaleKind::Row), "row"}};

template <class P> void GemmScales::read(const int64_t *values, P &p) {
  using F = GemmField;
  auto scales = [&](int kind, int order, int ld, int64_t extent) {
    OperandScales s;
    const bool isNarrow =
        values[kind] == kScale1x32 || values[kind] == kScale1x64;
    s.kind =
        isNarrow ? ScaleKind::Block1x128 : static_cast<ScaleKind>(values[kind]);
    if (s.kind == ScaleKind::None) [[likely]]
      return s;
    s.alongRows = values[order] != 0;
    s.ld = valueOr(values, ld, s.packedLd(extent, p.k));
    return s;
  };
  p.scaleA = scales(F::ScaleA, F::ScaleOrderA, F::LdScaleA, p.scaledRowsA());
  p.scaleB = scales(F::ScaleB, F::ScaleOrderB, F::LdScaleB, p.n);
  p.zeroA = static_cast<ScaleKind>(values[F::ZeroA]);
}

} // namespace kiln
