//===- FakeCublasLtRules.h - problems that the stand-in refuses -----------===//
#pragma once

#include "Fakes/FakeCublasLt.h"

namespace kiln::fake {

// cublasStatus_t.
inline constexpr int kLtSuccess = 0, kLtInvalidValue = 7, kLtNotSupported = 15;
// cudaDataType_t.
inline constexpr int kLtReal32 = 0, kLtReal16 = 2, kLtInteger8 = 3,
                     kLtInteger32 = 10, kLtRealBf16 = 14, kLtE4m3 = 28,
                     kLtE5m2 = 29;
// cublasComputeType_t.
inline constexpr int kLtCompute32 = 68, kLtComputeInteger = 72,
                     kLtComputeTf32 = 77;
// cublasLtMatmulMatrixScale_t.
inline constexpr int kLtScalar = 0, kLtOuterVector = 3, kLtVector128 = 4,
                     kLtBlock128 = 5;

/// Bytes of an element.
int ltBytesOf(int type);
inline bool isLtFp8(int type) { return type == kLtE4m3 || type == kLtE5m2; }

/// One product: layouts of A, B, C and D.
struct LtProduct {
  const KilnFakeMatmul &matmul;
  const KilnFakeLayout &a, &b, &c, &d;

  int64_t m() const { return static_cast<int64_t>(d.rows); }
  int64_t n() const { return static_cast<int64_t>(d.cols); }
  int64_t k() const {
    return static_cast<int64_t>(matmul.transA ? a.rows : a.cols);
  }
};

/// The status for \p product with the library of \p version where every
/// pointer is a multiple of \p alignment bytes.
int judge(const LtProduct &product, size_t version, uint32_t alignment);

} // namespace kiln::fake
