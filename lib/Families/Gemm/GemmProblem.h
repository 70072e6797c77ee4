//===- GemmProblem.h - a GEMM problem, typed ------------------------------===//
//
// The typed form of the records "gemm m=.. n=.. k=.." and of their signature.
// D = pointwise(alpha * op(A) op(B) + beta * C). n is the width of the product,
// which a chain that joins columns halves.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Chain.h"
#include "Kernel/Values.h"
#include "common/PackedWeights.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// The scales of A or B: a matrix of rows by steps of k, stored along k unless
/// they are in the order of rows. Those of D are the same of its columns.
struct GemmScales {
  ScaleKind kind = ScaleKind::None;
  bool alongRows = false; ///< neighbours in memory are of neighbouring rows
  int64_t ld = 0;         ///< from one line in memory to the next, in scales
};

/// Sizes and leading dimensions in elements. Leading dimensions are resolved:
/// never 0 in a problem that canonicalise() made, except where a row is empty.
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::BF16, typeB = DType::BF16, out = DType::BF16;
  ComputeMode compute = ComputeMode::Native;
  Layout layout = Layout::NN;
  PointwiseChain pointwise;
  double alpha = 1, beta = 0;
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0, ldResidual = 0;
  /// Every pointer and batch stride is a multiple of this many bytes, and of
  /// its own element's.
  int64_t align = 16;
  GemmScales scaleA, scaleB;
  /// Of packed weights (common/PackedWeights.h), the type of whose scales is
  /// resolved.
  WeightOrder orderB = WeightOrder::Plain;
  DType scaleTypeB = DType::FP32;
  int groupB = 0; ///< steps of k that share a scale; 0: all
  bool zeroB = false;
  /// Zero points of A: none, one, or one for each of its rows.
  ScaleKind zeroA = ScaleKind::None;
  // Groups of rows, as many as batch (gemm/Groups.cuh).
  GroupKind groups = GroupKind::None;
  int64_t groupAlign = 1; ///< a group begins at a multiple of it
  int64_t room = 0;       ///< masked: rows of each matrix of A and D; else m
  int64_t batchA = 1;     ///< matrices of A and D: groups with ends share one
  int64_t batchB = 1;     ///< matrices of B, those of groups without rows too
  /// Of a part of the rows of groups with ends (GemmRounds.h): its first row,
  /// and how many rows there are in all.
  int64_t firstRow = 0, allRows = 0;
  int64_t divisor = 1; ///< of the index where A's rows are
  bool gathers = false, scatters = false, hasRowWeights = false;
  /// Of an e4m3 D: that of the tensor is given, others are written.
  GemmScales scaleD;

  bool quantizes() const { return scaleD.kind != ScaleKind::None; }
  bool writesScalesD() const {
    return quantizes() && scaleD.kind != ScaleKind::Tensor;
  }
  /// The type of C, bias and residual: D's, or that of the product whose
  /// results are quantised.
  DType sideType() const;
  bool hasGroups() const { return groups != GroupKind::None; }
  /// Rows of A, which its scales count: those that there are to gather from, or
  /// those of the product.
  int64_t scaledRowsA() const {
    return !gathers ? room : m == 0 ? 0 : (allRows - 1) / divisor + 1;
  }

  bool isPacked() const { return orderB != WeightOrder::Plain; }
  // Packed weights, and their scales and zero points, as matrices with a row
  // for every 64 rows of W[n, k].
  int64_t packedRows() const { return PackedWeights::blocksOf(n); }
  int64_t packedRowBytes() const {
    return PackedWeights::blocksOf(k) *
           PackedWeights::blockBytes(bitsOf(typeB));
  }
  int64_t packedRowScales() const {
    return PackedWeights::groups(k, groupB) * PackedWeights::kRows;
  }

  // Rows and columns of A and B as they are stored.
  int64_t rowsA() const { return isTransposedA(layout) ? k : room; }
  int64_t colsA() const { return isTransposedA(layout) ? room : k; }
  int64_t rowsB() const { return isTransposedB(layout) ? n : k; }
  int64_t colsB() const { return isTransposedB(layout) ? k : n; }

  /// Columns of D.
  int64_t outCols() const { return n / pointwise.columnsPerResult(); }
  /// Columns of what the chain's \p op acts on, and so of its operand.
  int64_t linkCols(PointwiseOp op) const {
    return n / pointwise.columnsBefore(pointwise.find(op));
  }

  // Batch strides, contiguous.
  int64_t strideA() const { return rowsA() * lda; }
  int64_t strideB() const { return rowsB() * ldb; }
  int64_t strideC() const { return room * ldc; }
  int64_t strideD() const { return room * ldd; }
  int64_t strideResidual() const { return room * ldResidual; }

  /// Rows that scales of an operand count, and their steps along k.
  static int64_t scaleRows(const GemmScales &scales, int64_t extent);
  int64_t scaleDepths(const GemmScales &scales) const;
  /// Scales of a row of D.
  int64_t rowScalesD() const;

  double flops() const { return 2.0 * m * n * k * batchA; }

  /// Of a typicalProduct() the mean rows of several groups with ends; else 0.
  double meanRows = 0;
  /// Tiles of \p tile rows that a matrix has, or that groups with ends have on
  /// average.
  double tilesAlongM(int64_t tile) const;
};

/// Values of scale_b that only packed weights have. A signature has them as
/// Block1x128 with groups of 32 and 64.
inline constexpr int kScale1x32 = 50, kScale1x64 = 60;

/// Greatest alignment of a group.
inline constexpr int64_t kMaxGroupAlign = 4096;

/// Indices of the fields of problemSchema(), in its order.
struct GemmField {
  enum : int {
    M,
    N,
    K,
    DType,
    Out,
    Compute,
    Layout,
    Batch,
    Pointwise,
    Alpha,
    Beta,
    Lda,
    Ldb,
    Ldc,
    Ldd,
    LdResidual,
    Align,
    TypeB,
    ScaleA,
    ScaleB,
    ScaleOrderA,
    ScaleOrderB,
    LdScaleA,
    LdScaleB,
    OrderB,
    ScaleTypeB,
    ZeroB,
    Groups,
    Room,
    GroupAlign,
    Gather,
    Divisor,
    Scatter,
    RowWeights,
    ZeroA,
    ScaleD,
    ScaleOrderD,
    LdScaleD,
    Count,
    // Values that only a part of the rows of groups with ends has: such
    // problems have neither a C nor a room.
    FirstRow = Ldc,
    AllRows = Room,
  };
};

/// Operands in the order of Arguments::operands.
struct GemmOperand {
  enum : int {
    A,
    B,
    C,
    D,
    Bias,
    Residual,
    ScaleA,
    ScaleB,
    ZeroB,
    GroupSizes,
    RowIndex,
    RowWeights,
    ZeroA,
    ColumnSumsB, ///< where A has zero points
    ScaleD,
    Count
  };
};

/// Scalars in the order of Arguments::scalars.
struct GemmScalar {
  enum : int { Alpha, Beta };
};

/// The type of D where a problem does not name it.
constexpr DType defaultOut(DType in) {
  return bytesOf(in) == 1 ? DType::BF16 : in;
}

inline DType GemmProblem::sideType() const {
  return quantizes() ? defaultOut(dtype) : out;
}

/// The type of scales of B where a problem does not name it.
constexpr DType defaultScaleType(WeightOrder order, DType typeB) {
  return order == WeightOrder::Plain ? DType::FP32
         : typeB == DType::E2M1      ? DType::E8M0
                                     : DType::FP16;
}

const Schema &gemmProblemSchema();
const Schema &gemmSignatureSchema();

/// Reads the values of a problem record, in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
GemmProblem readGemmProblem(const int64_t *values);

/// Makes of the values of a problem with a quantised output those of the
/// product that comes first: the same with D of sideType(), in packed rows of
/// whole vectors of 16 bytes. Nanoseconds: called on every launch.
void toProduct(int64_t *values);

/// The batch that takes as long as the groups of \p problem do, as far as
/// anybody knows who has not seen their sizes: those that have rows if these
/// are drawn at random, each with somewhat more than their mean. Spaces and
/// estimates take its m and batch; without groups it is the problem.
GemmProblem typicalProduct(const GemmProblem &problem);

/// tilesAlongM() for derivations.
std::string tilesAlongMText(const GemmProblem &problem, int64_t tile);

/// Signature of a problem: alignment classes from `align` and leading
/// dimensions.
GemmSignature signatureOf(const GemmProblem &problem);

Values toValues(const GemmSignature &signature);
GemmSignature readGemmSignature(const Values &values);

/// "{.in = kiln::DType::BF16, ...}": the signature as a designated initialiser.
std::string initializerText(const GemmSignature &signature);

} // namespace kiln
