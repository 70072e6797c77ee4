//===- gemm/GemmSignature.h - what a GEMM fixes at compile time -----------===//
//
// D = pointwise(alpha * op(A) op(B) + beta * C), fp32 accumulation. Shared by
// the host and every GEMM kernel, so it includes nothing but shared types.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/PackedWeights.h"
#include "common/Types.h"

namespace kiln {

/// Most groups of a launch.
inline constexpr int kMostGroups = 1024;

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
  DType in = DType::BF16;  ///< type of A, and of B unless inB says else
  DType out = DType::BF16; ///< type of D, C, bias and residual
  ComputeMode compute = ComputeMode::Native;
  Layout layout = Layout::NT;
  PointwiseChain pointwise{}; ///< a SwiGlu makes D half as wide as the product
  bool readsC = false;        ///< false: beta is 0 and C is never read
  int alignA = 16, alignB = 16, alignD = 16;
  DType inB = DType::None; ///< None: as A
  ScaleKind scaleA = ScaleKind::None, scaleB = ScaleKind::None;
  /// Of packed weights: layout NT, B is W[n, k], and so are scales and zero
  /// points. alignA is what counts.
  WeightOrder orderB = WeightOrder::Plain;
  DType scaleTypeB = DType::None; ///< None: fp32
  int groupB = 0;     ///< steps of k that share a scale, of Block1x128; 0: all
  bool zeroB = false; ///< int4 has zero points; else they are 8
  /// Matrices of B, with what belongs to them, are those of the batch; so are
  /// those of A and D where they are masked.
  GroupKind groups = GroupKind::None;
  bool gathers = false;       ///< rows of A are where an index says
  bool scatters = false;      ///< so are rows of D
  bool hasRowWeights = false; ///< what the chain makes of a row is multiplied
  /// int8 has zero points of A, of the tensor or of its rows, which finished
  /// sums are corrected by.
  ScaleKind zeroA = ScaleKind::None;
  /// D is e4m3 with scales: a step behind the product makes it, and no kernel
  /// of a product has such a signature.
  ScaleKind scaleD = ScaleKind::None;

  constexpr bool hasGroups() const { return groups != GroupKind::None; }
  /// Rows of A, D and what has D's shape are those of one matrix.
  constexpr bool hasFlatRows() const { return groups == GroupKind::Ends; }
  /// Shared memory of a block's table of groups (gemm/Groups.cuh).
  constexpr int groupTableBytes() const {
    return hasGroups() ? kMostGroups * 4 : 0;
  }
  /// True where rows have a number other than their place.
  constexpr bool mapsRows() const { return gathers || scatters; }
  constexpr bool isPacked() const { return orderB != WeightOrder::Plain; }
  /// Scales of B that are applied to finished sums; kernels of packed weights
  /// apply their own.
  constexpr ScaleKind sumScaleB() const {
    return isPacked() ? ScaleKind::None : scaleB;
  }
  constexpr DType typeB() const { return inB == DType::None ? in : inB; }
  constexpr bool hasZeroPointsA() const { return zeroA != ScaleKind::None; }
  /// True where scales are read in the loop over k.
  constexpr bool hasBlockScales() const {
    return isBlockScale(scaleA) || isBlockScale(scaleB);
  }
  /// True where the tensor core sums fewer bits than fp32 has, so that its sums
  /// go on to registers every so many steps of k.
  constexpr bool isPromoted() const {
    return isFp8(in) && compute != ComputeMode::FastFp8;
  }

  /// True when consecutive elements of A in memory are consecutive in k.
  constexpr bool isKMajorA() const { return !isTransposedA(layout); }
  /// True when consecutive elements of B in memory are consecutive in k.
  constexpr bool isKMajorB() const { return isTransposedB(layout); }

  /// Columns of the product that make one of D: 2 where the chain joins them.
  constexpr int columnsPerOutput() const {
    return pointwise.columnsPerResult();
  }

  /// True where the types of A, B and D go together.
  constexpr bool hasTypes() const {
    if (isPacked())
      return (in == DType::BF16 || in == DType::FP16) &&
             (out == in || out == DType::FP32) &&
             (inB == DType::INT4 || inB == DType::INT8 || inB == DType::E4M3 ||
              inB == DType::E2M1);
    if (in == DType::BF16 || in == DType::FP16 || in == DType::FP32)
      return typeB() == in && (out == in || out == DType::FP32);
    bool isByte = isFp8(in) ? isFp8(typeB())
                            : in == DType::INT8 && typeB() == DType::INT8;
    return isByte &&
           (out == DType::BF16 || out == DType::FP16 || out == DType::FP32);
  }
  /// True where the scales of A and B go together, and with the types: those of
  /// blocks are of fp8 and of both.
  constexpr bool hasScales() const {
    if (!hasGoodZeroPointsA())
      return false;
    if (isPacked())
      return hasPackedScales();
    if (zeroB || groupB != 0 || scaleTypeB != DType::None)
      return false;
    if (hasBlockScales())
      return isPromoted() && scaleA == ScaleKind::Block1x128 &&
             scaleB == ScaleKind::Block128x128;
    bool isScaled = scaleA != ScaleKind::None || scaleB != ScaleKind::None;
    return !isScaled || bytesOf(in) == 1;
  }
  /// True where groups go with the rest: of rows along k, without C; only those
  /// with ends have rows elsewhere, and a residual where D's rows are.
  constexpr bool areGroupsValid() const {
    if (!hasGroups())
      return !mapsRows() && !hasRowWeights;
    if (!isKMajorA() || readsC || compute == ComputeMode::TF32)
      return false;
    if (groups == GroupKind::Masked && (mapsRows() || hasRowWeights))
      return false;
    return !scatters || !pointwise.contains(PointwiseOp::Residual);
  }
  /// True for the combinations every GEMM template can be asked for: types and
  /// scales as above, tf32 only of fp32 data and narrow sums of fp8, columns
  /// joined once at most and without C, groups as above, and alignment classes
  /// as described above.
  constexpr bool isWellFormed() const {
    bool computeOk = compute == ComputeMode::Native ||
                     (compute == ComputeMode::TF32 && in == DType::FP32) ||
                     (compute == ComputeMode::FastFp8 && isFp8(in));
    int joins = 0;
    for (PointwiseOp op : pointwise.ops)
      joins += joinsColumns(op);
    bool joinOk = joins == 0 || (joins == 1 && !readsC);
    if (scaleD != ScaleKind::None || (isPacked() && layout != Layout::NT))
      return false;
    return hasTypes() && hasScales() && computeOk && joinOk &&
           areGroupsValid() && isClass(alignA, bytesOf(in)) &&
           isClass(alignB, bytesOf(in)) && isClass(alignD, bytesOf(out));
  }

  friend constexpr bool operator==(const GemmSignature &,
                                   const GemmSignature &) = default;

  /// Zero points of A are of int8 times int8, one or one for each row.
  constexpr bool hasGoodZeroPointsA() const {
    return zeroA == ScaleKind::None ||
           (in == DType::INT8 && !isPacked() && !hasGroups() &&
            (zeroA == ScaleKind::Tensor || zeroA == ScaleKind::Row));
  }

private:
  /// Scales of packed weights are of rows or of groups along k, those of e2m1
  /// of 32 and powers of two.
  constexpr bool hasPackedScales() const {
    bool isGroup = scaleB == ScaleKind::Block1x128 &&
                   (groupB == 32 || groupB == 64 || groupB == 128);
    if (scaleA != ScaleKind::None ||
        !(isGroup || (scaleB == ScaleKind::Row && groupB == 0)))
      return false;
    if (inB == DType::E2M1)
      return groupB == 32 && scaleTypeB == DType::E8M0 && !zeroB;
    return (scaleTypeB == DType::FP16 || scaleTypeB == DType::BF16 ||
            scaleTypeB == DType::FP32) &&
           (!zeroB || inB == DType::INT4);
  }
  static constexpr bool isClass(int align, int elementBytes) {
    return align >= elementBytes && align <= 16 && (align & (align - 1)) == 0;
  }
};

} // namespace kiln
