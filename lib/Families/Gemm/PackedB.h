//===- PackedB.h - packed weights of a GEMM -------------------------------===//
//
// The part of a GEMM problem that says how B is packed
// (common/PackedWeights.h): its order, and the type of its scales, their group
// size and its zero points. The kind of its scales is scale_b (GemmScales.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmFields.h"
#include "Families/Gemm/GemmScales.h"
#include "Kernel/Operand.h"
#include "Kernel/Values.h"
#include "common/PackedWeights.h"
#include "common/Types.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

struct GemmProblem;

struct PackedB {
  WeightOrder orderB = WeightOrder::Plain;
  DType scaleTypeB = DType::FP32;
  int groupB = 0; ///< steps of k that share a scale; 0: all
  bool zeroB = false;

  bool isPacked() const { return orderB != WeightOrder::Plain; }

  static void addFields(llvm::MutableArrayRef<Field> fields);
  template <class P> static void read(const int64_t *values, P &p);
  static llvm::Error check(const GemmProblem &p);
  static void reset(const GemmProblem &p, Values &values);
  static void describe(const GemmProblem &p, OperandTable &table);
};

/// The type of scales of B where a problem does not name it.
constexpr DType defaultScaleType(WeightOrder order, DType typeB) {
  return order == WeightOrder::Plain ? DType::FP32
         : typeB == DType::E2M1      ? DType::E8M0
                                     : DType::FP16;
}

// Names of values in texts.
inline constexpr FieldName kGemmScaleTypeNames[] = {
    {int64_t(DType::FP32), "fp32"},
    {int64_t(DType::FP16), "fp16"},
    {int64_t(DType::BF16), "bf16"},
    {int64_t(DType::E8M0), "e8m0"}};
inline constexpr FieldName kGemmOrderNames[] = {
    {int64_t(WeightOrder::Plain), "plain"},
    {int64_t(WeightOrder::K64R16), "k64r16"}};

template <class P> void PackedB::read(const int64_t *values, P &p) {
  using F = GemmField;
  p.orderB = static_cast<WeightOrder>(values[F::OrderB]);
  p.scaleTypeB =
      typeOr(values, F::ScaleTypeB, defaultScaleType(p.orderB, p.typeB));
  const int64_t kind = values[F::ScaleB];
  const bool isBlock = kind == int64_t(ScaleKind::Block1x128);
  p.groupB = kind == kScale1x32        ? 32
             : kind == kScale1x64      ? 64
             : p.isPacked() && isBlock ? 128
                                       : 0;
  p.zeroB = values[F::ZeroB] != 0;
}

} // namespace kiln
