//===- GemmShape.cpp ------------------------------------------------------===//
#include "Families/Gemm/GemmShape.h"

#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"
#include "Kernel/TypeName.h"
#include "Support/Error.h"

namespace kiln {

void GemmShape::addFields(llvm::MutableArrayRef<Field> fields) {
  using F = GemmField;
  fields[F::M] = extentField("m", FieldRole::DynamicExtent);
  fields[F::N] = extentField("n", FieldRole::Extent);
  fields[F::K] = extentField("k", FieldRole::Extent);
  fields[F::DType] = enumField("dtype", true, kGemmTypeNames);
  fields[F::TypeB] = enumField("b", false, kGemmTypeNamesB);
  fields[F::Out] = enumField("out", false, kGemmOutNames);
  fields[F::Compute] = enumField("compute", false, kGemmComputeNames);
  fields[F::Layout] = enumField("layout", false, kGemmLayoutNames);
  fields[F::Batch] = {.key = "batch",
                      .role = FieldRole::Batch,
                      .defaultValue = 1,
                      .maximum = kMaxExtent};
}

llvm::Error GemmShape::check(const GemmProblem &p) {
  bool isByte = bytesOf(p.dtype) == 1;
  if (!p.isPacked() && // PackedB reports it
      (isFp8(p.dtype) ? !isFp8(p.typeB) : p.typeB != p.dtype))
    return makeError(ErrorCode::Unsupported,
                     "gemm: b={} does not go with dtype={}", nameOf(p.typeB),
                     nameOf(p.dtype));
  if (!p.quantizes() && !isByte && p.out != p.dtype && p.out != DType::FP32)
    return makeError(ErrorCode::Unsupported,
                     "gemm: out is neither dtype nor fp32");
  if (p.compute == ComputeMode::TF32 && p.dtype != DType::FP32)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: compute=tf32 needs dtype=fp32");
  if (p.compute == ComputeMode::FastFp8 && !isFp8(p.dtype))
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: compute=fast_fp8 needs dtype=e4m3 or e5m2");
  return llvm::Error::success();
}

void GemmShape::reset(const GemmProblem &p, Values &values) {
  resetIf(p.out == defaultOut(p.dtype), GemmField::Out, values);
  resetIf(p.typeB == p.dtype, GemmField::TypeB, values);
}

} // namespace kiln
