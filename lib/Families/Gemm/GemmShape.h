//===- GemmShape.h - sizes and types of a GEMM ----------------------------===//
//
// The part of a GEMM problem that says how large a product of which types is.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmFields.h"
#include "Kernel/Values.h"
#include "common/Types.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

struct GemmProblem;

/// Sizes in elements. n is the width of the product, which a chain that joins
/// columns halves.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::BF16, typeB = DType::BF16, out = DType::BF16;
  ComputeMode compute = ComputeMode::Native;
  Layout layout = Layout::NN;

  static void addFields(llvm::MutableArrayRef<Field> fields);
  template <class P> static void read(const int64_t *values, P &p);
  static llvm::Error check(const GemmProblem &p);
  static void reset(const GemmProblem &p, Values &values);
};

/// The type of D where a problem does not name it.
constexpr DType defaultOut(DType in) {
  return bytesOf(in) == 1 ? DType::BF16 : in;
}

// Names of values in texts.
inline constexpr FieldName kGemmTypeNames[] = {
    {int64_t(DType::BF16), "bf16"}, {int64_t(DType::FP16), "fp16"},
    {int64_t(DType::FP32), "fp32"}, {int64_t(DType::E4M3), "e4m3"},
    {int64_t(DType::E5M2), "e5m2"}, {int64_t(DType::INT8), "int8"}};
inline constexpr FieldName kGemmTypeNamesB[] = {
    {int64_t(DType::BF16), "bf16"}, {int64_t(DType::FP16), "fp16"},
    {int64_t(DType::FP32), "fp32"}, {int64_t(DType::E4M3), "e4m3"},
    {int64_t(DType::E5M2), "e5m2"}, {int64_t(DType::INT8), "int8"},
    {int64_t(DType::INT4), "int4"}, {int64_t(DType::E2M1), "e2m1"}};
inline constexpr FieldName kGemmOutNames[] = {{int64_t(DType::BF16), "bf16"},
                                              {int64_t(DType::FP16), "fp16"},
                                              {int64_t(DType::FP32), "fp32"},
                                              {int64_t(DType::E4M3), "e4m3"}};
inline constexpr FieldName kGemmComputeNames[] = {
    {int64_t(ComputeMode::Native), "native"},
    {int64_t(ComputeMode::TF32), "tf32"},
    {int64_t(ComputeMode::FastFp8), "fast_fp8"}};
inline constexpr FieldName kGemmLayoutNames[] = {{int64_t(Layout::NN), "NN"},
                                                 {int64_t(Layout::NT), "NT"},
                                                 {int64_t(Layout::TN), "TN"},
                                                 {int64_t(Layout::TT), "TT"}};

template <class P> void GemmShape::read(const int64_t *values, P &p) {
  using F = GemmField;
  p.m = values[F::M];
  p.n = values[F::N];
  p.k = values[F::K];
  p.batch = values[F::Batch];
  p.dtype = static_cast<DType>(values[F::DType]);
  p.typeB = typeOr(values, F::TypeB, p.dtype);
  p.out = typeOr(values, F::Out, defaultOut(p.dtype));
  p.compute = static_cast<ComputeMode>(values[F::Compute]);
  p.layout = static_cast<Layout>(values[F::Layout]);
}

} // namespace kiln
