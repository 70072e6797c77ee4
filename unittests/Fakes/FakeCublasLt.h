//===- FakeCublasLt.h - control of the stand-in cuBLASLt ------------------===//
//
// libkiln_fake_cublaslt.so exports the functions of cuBLASLt that bench calls,
// and refuses the problems that the real one refuses on Hopper, by its
// documentation of 13.0. It also computes, on host memory and in cuBLASLt's own
// terms of column-major matrices.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

/// cublasLtMatmulDescOpaque_t as it was given, by the names of its attributes.
struct KilnFakeMatmul {
  int computeType = 0, scaleType = 0;
  int32_t transA = 0, transB = 0;
  uint32_t epilogue = 1;
  const void *bias = nullptr;
  int32_t biasType = -1;
  const float *scaleA = nullptr, *scaleB = nullptr;
  int32_t scaleModeA = 0, scaleModeB = 0;
  int8_t fastAccumulation = 0;
};

/// cublasLtMatrixLayoutOpaque_t, of a column-major matrix.
struct KilnFakeLayout {
  int type = 0;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0;
  int32_t batch = 1;
  int64_t batchStride = 0;
};

extern "C" {
/// The version from now on, as cublasLtGetVersion() tells it.
__attribute__((visibility("default"))) void
kilnFakeCublasLtSetVersion(size_t version);
/// The arguments of the last cublasLtMatmul().
__attribute__((visibility("default"))) const KilnFakeMatmul *
kilnFakeCublasLtLast();
/// Its layouts: A, B, C and D.
__attribute__((visibility("default"))) const KilnFakeLayout *
kilnFakeCublasLtLastLayout(int which);
}
