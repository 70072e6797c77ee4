//===- MatrixProduct.h - a problem as a BLAS library is asked for it ------===//
//
// D = epilogue(alpha * op(A) op(B) + beta * C), accumulated in fp32, or int32
// of int8; A and B are multiplied by their scales. The bench's
// peer reads this, which knows matrix products and no family.
// Shapes, types and strides in memory are the operand table's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

#include <cstdint>

namespace kiln {

/// The scales of A or B: one fp32 for all, for each row, or for each block of a
/// row or of 128 rows by 128 steps of k.
struct ProductScales {
  ScaleKind kind = ScaleKind::None;
  /// For blocks: neighbours in memory belong to neighbouring rows, else to
  /// neighbouring blocks along k.
  bool alongRows = false;
  int64_t ld = 0;   ///< for blocks: from one line in memory to the next
  int operand = -1; ///< its index in the operand table
};

/// A problem that is one matrix product, or a batch of them.
struct MatrixProduct {
  DType type = DType::FP32, typeB = DType::FP32; ///< of A, and of B
  DType out = DType::FP32;                       ///< of C and D
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Layout layout = Layout::NN;
  ComputeMode compute = ComputeMode::Native;
  double alpha = 1, beta = 0;
  PointwiseChain epilogue;
  // Indices in the operand table. C is read unless beta is 0; bias and residual
  // are read by the links of these names, of which there is at most one each.
  int a = -1, b = -1, c = -1, d = -1, bias = -1, residual = -1;
  ProductScales scalesA, scalesB;

  /// Whether there is nothing to multiply.
  bool isEmpty() const { return m == 0 || n == 0 || k == 0 || batch == 0; }
  bool hasScales() const {
    return scalesA.kind != ScaleKind::None || scalesB.kind != ScaleKind::None;
  }
};

} // namespace kiln
