//===- gemm/GemmSignature.h - what a GEMM fixes at compile time -----------===//
//
// D = pointwise(alpha * op(A) op(B) + beta * C), fp32 accumulation. Shared by
// the host and every GEMM kernel, so it includes nothing but shared types.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The part of a GEMM problem that its kernels are specialised for. Sizes,
/// leading dimensions, strides and scalars are run-time parameters.
///
/// An alignment class is a power of two in bytes, at least the width of the
/// element and at most 16. Of an operand it promises that the base pointer, the
/// leading dimension and (with more than one batch) the batch stride, each in
/// bytes, are multiples of it. Extents of inputs need not be: a ragged end of a
/// row is masked. `alignD` is the class that D and all that the epilogue reads
/// have in common: C when it is read, the residual and the bias when the chain
/// has them (a bias: base pointer and batch stride). It divides the bytes of a
/// row of D as well, because TMA stores whole chunks of 16 bytes: behind a row
/// that ends within one it would write to the gap before the next.
struct GemmSignature {
  DType in = DType::BF16;  ///< type of A and B
  DType out = DType::BF16; ///< type of D, C, bias and residual
  ComputeMode compute = ComputeMode::Native;
  Layout layout = Layout::NT;
  PointwiseChain pointwise{}; ///< a SwiGlu makes D half as wide as the product
  bool readsC = false;        ///< false: beta is 0 and C is never read
  int alignA = 16, alignB = 16, alignD = 16;

  /// True when consecutive elements of A in memory are consecutive in k.
  constexpr bool isKMajorA() const { return !isTransposedA(layout); }
  /// True when consecutive elements of B in memory are consecutive in k.
  constexpr bool isKMajorB() const { return isTransposedB(layout); }

  /// Columns of the product that make one of D: 2 where the chain joins them.
  constexpr int columnsPerOutput() const {
    return pointwise.columnsPerResult();
  }

  /// True for the combinations every GEMM template can be asked for: bf16,
  /// fp16 or fp32 in, out of the same type or fp32, tf32 only of fp32 data,
  /// columns joined once at most and without C, and alignment classes as
  /// described above.
  constexpr bool isWellFormed() const {
    bool typeOk = in == DType::BF16 || in == DType::FP16 || in == DType::FP32;
    bool outOk = out == in || out == DType::FP32;
    bool computeOk = compute == ComputeMode::Native ||
                     (compute == ComputeMode::TF32 && in == DType::FP32);
    int joins = 0;
    for (PointwiseOp op : pointwise.ops)
      joins += joinsColumns(op);
    bool joinOk = joins == 0 || (joins == 1 && !readsC);
    return typeOk && outOk && computeOk && joinOk &&
           isClass(alignA, bytesOf(in)) && isClass(alignB, bytesOf(in)) &&
           isClass(alignD, bytesOf(out));
  }

  friend constexpr bool operator==(const GemmSignature &,
                                   const GemmSignature &) = default;

private:
  static constexpr bool isClass(int align, int elementBytes) {
    return align >= elementBytes && align <= 16 && (align & (align - 1)) == 0;
  }
};

} // namespace kiln
