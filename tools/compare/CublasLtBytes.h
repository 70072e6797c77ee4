//===- CublasLtBytes.h - the fp8 and int8 of cuBLASLt ---------------------===//
//
// Products of one-byte types have rules of their own in cuBLASLt: which layouts
// and types, and how scales lie in memory. Sources: "Narrow Precision Data
// Types Usage" and cublasLtMatmul() in the cuBLAS documentation of 13.0.
//
// cuBLASLt computes D^T, so that its A is Kiln's B and its M is Kiln's n. Its
// scales of A are Kiln's scales of B, and the other way round.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/MatrixProduct.h"

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>

namespace kiln::cli {

/// cublasLtMatmulMatrixScale_t.
enum class CublasLtScaleMode : int32_t {
  Scalar = 0,       ///< one fp32
  OuterVector = 3,  ///< an fp32 for each row of its A, or column of its B
  Vector128 = 4,    ///< for each 128 steps of k of such a row
  Block128x128 = 5, ///< for each 128 rows by 128 steps of k
};

/// The scales of one operand in the terms of cuBLASLt.
struct CublasLtScales {
  CublasLtScaleMode mode = CublasLtScaleMode::Scalar;
  int operand = -1; ///< its index in Kiln's operand table; -1: no scales
};

/// The scales of both operands, in cuBLASLt's order.
struct CublasLtScalePair {
  CublasLtScales a, b;
};

/// Success if cuBLASLt may know \p product by its types and layout: always,
/// unless they are of one byte. Error Unsupported, which names the type or
/// layout that cuBLASLt does not take.
llvm::Error checkCublasLtTypes(const MatrixProduct &product);

/// The scales of \p product in the terms of cuBLASLt \p version (130002:
/// 13.0.2). Error Unsupported: it takes no such scales, or not in this layout;
/// the error says how they should lie in memory.
llvm::Expected<CublasLtScalePair> cublasLtScalesOf(const MatrixProduct &product,
                                                   size_t version);

} // namespace kiln::cli
