//===- gemm/GemmSignature.h - the signature of GEMM -----------------------===//
//
// D = pointwise(alpha * op(A) op(B) + beta * C), fp32 accumulation. Shared by
// the host and every GEMM kernel, so it includes nothing but shared types.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/PackedWeights.h"
#include "common/Types.h"

namespace kiln {

/// The most groups of a launch.
inline constexpr int kMostGroups = 1024;

/// The part of a GEMM problem for which its kernels are specialised. Sizes,
/// leading dimensions, strides and scalars are run-time parameters.
///
/// An alignment class is a power of two in bytes, at least the width of the
/// element and at most 16. For an operand it promises that the base pointer,
/// the leading dimension and (with more than one batch) the batch stride, each
/// in bytes, are multiples of it. Extents of inputs need not be: a ragged end
/// of a row is masked. `alignD` is the common class of D and all operands of
/// the epilogue: C when it is read, the residual and the bias when the chain
/// has them (for a bias: base pointer and batch stride). It divides the bytes
/// of a row of D as well, because TMA stores whole chunks of 16 bytes: behind a
/// row that ends within a chunk it would write to the gap before the next row.
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
  /// For packed weights: the layout is NT, B is W[n, k], and scales and zero
  /// points follow it. Only alignA counts.
  WeightOrder orderB = WeightOrder::Plain;
  DType scaleTypeB = DType::None; ///< None: fp32
  int groupB = 0;     ///< quantisation group size: steps of k that share a
                      ///< scale of Block1x128; 0: all
  bool zeroB = false; ///< int4 has zero points; else all are 8
  /// Grouped GEMM: a batch of matrices of B with their scales, and of A and D
  /// where they are masked.
  GroupKind groups = GroupKind::None;
  bool gathers = false;       ///< an index gives the rows of A
  bool scatters = false;      ///< the index gives the rows of D
  bool hasRowWeights = false; ///< results of the chain are multiplied by a
                              ///< weight for each row
  /// int8 has zero points of A, one for the tensor or for each row; finished
  /// sums are corrected by them.
  ScaleKind zeroA = ScaleKind::None;
  /// D is e4m3 with scales: a step behind the product makes it, so no kernel of
  /// a product has such a signature.
  ScaleKind scaleD = ScaleKind::None;

  constexpr bool hasGroups() const { return groups != GroupKind::None; }
  /// Whether the rows of A, of D and of matrices with D's shape form one
  /// matrix.
  constexpr bool hasFlatRows() const { return groups == GroupKind::Ends; }
  /// Shared memory of a block's table of groups (gemm/Groups.cuh).
  constexpr int groupTableBytes() const {
    return hasGroups() ? kMostGroups * 4 : 0;
  }
  /// Whether the row of an operand may differ from the row of the product.
  constexpr bool mapsRows() const { return gathers || scatters; }
  constexpr bool isPacked() const { return orderB != WeightOrder::Plain; }
  /// The scales of B that are applied to finished sums; kernels of packed
  /// weights apply theirs on their own.
  constexpr ScaleKind sumScaleB() const {
    return isPacked() ? ScaleKind::None : scaleB;
  }
  constexpr DType typeB() const { return inB == DType::None ? in : inB; }
  constexpr bool hasZeroPointsA() const { return zeroA != ScaleKind::None; }
  /// True where scales are read in the loop over k.
  constexpr bool hasBlockScales() const {
    return isBlockScale(scaleA) || isBlockScale(scaleB);
  }
  /// Whether the tensor core sums fewer bits than fp32 has, so that its sums
  /// are added to registers after a fixed number of steps of k.
  constexpr bool isPromoted() const {
    return isFp8(in) && compute != ComputeMode::FastFp8;
  }

  /// True when consecutive elements of A in memory are consecutive in k.
  constexpr bool isKMajorA() const { return !isTransposedA(layout); }
  /// True when consecutive elements of B in memory are consecutive in k.
  constexpr bool isKMajorB() const { return isTransposedB(layout); }

  /// Columns of the product for one column of D: 2 where the chain joins them.
  constexpr int columnsPerOutput() const {
    return pointwise.columnsPerResult();
  }

  /// True where the types of A, B and D can be combined.
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
  /// True where the scales of A, of B and the types can be combined. Block
  /// scales need fp8, and belong to both operands.
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
  /// True where groups can be combined with the rest: their rows run along k,
  /// without C. Only groups with ends may have an index, and a residual only if
  /// D's rows are in place.
  constexpr bool areGroupsValid() const {
    if (!hasGroups())
      return !mapsRows() && !hasRowWeights;
    if (!isKMajorA() || readsC || compute == ComputeMode::TF32)
      return false;
    if (groups == GroupKind::Masked && (mapsRows() || hasRowWeights))
      return false;
    return !scatters || !pointwise.contains(PointwiseOp::Residual);
  }
  /// True for the combinations that every GEMM template accepts: types and
  /// scales as above, tf32 only for fp32 data, narrow sums only for fp8,
  /// columns joined at most once and without C, groups as above, and alignment
  /// classes as described above.
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

  /// Zero points of A need int8 times int8, and are one, or one for each row.
  constexpr bool hasGoodZeroPointsA() const {
    return zeroA == ScaleKind::None ||
           (in == DType::INT8 && !isPacked() && !hasGroups() &&
            (zeroA == ScaleKind::Tensor || zeroA == ScaleKind::Row));
  }

private:
  /// Scales of packed weights belong to rows, or to quantisation groups along
  /// k. e2m1 has groups of 32 and scales that are powers of two.
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
