//===- common/Types.h - types shared by the host and every kernel ---------===//
//
// Compiled by the host compiler and by NVRTC, so it includes nothing. Values
// of the enumerations appear in kiln.h, cache keys and records: they are never
// renumbered. A DType's value carries its width: (bits << 8) | id.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

enum class DType : int {
  None = 0, ///< the default that a field names
  FP64 = 0x4001,
  FP32 = 0x2001,
  INT64 = 0x4011, ///< indices and seeds, never arithmetic
  INT32 = 0x2011,
  FP16 = 0x1001,
  BF16 = 0x1002,
  E4M3 = 0x0801,
  E5M2 = 0x0802,
  E8M0 = 0x0803, ///< a power of two, for block scales alone
  INT8 = 0x0811,
  // Two elements a byte, for packed weights alone.
  E2M1 = 0x0401,
  INT4 = 0x0411,
  UINT4 = 0x0412,
};

/// Width of one element in bits.
constexpr int bitsOf(DType type) { return static_cast<int>(type) >> 8; }

/// Width of one element in bytes; must not be called for types under 8 bits.
constexpr int bytesOf(DType type) { return bitsOf(type) / 8; }

/// True for integers that name places, counts or seeds.
constexpr bool isIndexType(DType type) {
  return type == DType::INT32 || type == DType::INT64;
}

/// True for floating-point types of one byte.
constexpr bool isFp8(DType type) {
  return type == DType::E4M3 || type == DType::E5M2;
}

/// The arithmetic of a contraction. Sums are fp32 unless noted otherwise, and
/// int32 for int8.
enum class ComputeMode : int {
  Native = 0, ///< products of the inputs as they are: exact fp32 for fp32 data
  TF32 = 10,  ///< fp32 data rounded to 10 mantissa bits, on tensor cores
  FastFp8 = 20, ///< fp8 products summed as narrowly as the tensor core does
};

/// Storage of the operands of D[m, n] = A[m, k] B[k, n]. First letter: A is
/// row-major [m, k] (N) or stored [k, m] (T); second: B is stored [k, n] (N) or
/// [n, k] (T). D is row-major [m, n].
enum class Layout : int { NN = 0, NT = 10, TN = 20, TT = 30 };

constexpr bool isTransposedA(Layout layout) {
  return layout == Layout::TN || layout == Layout::TT;
}
constexpr bool isTransposedB(Layout layout) {
  return layout == Layout::NT || layout == Layout::TT;
}

/// The elements of an operand that share a scale, an fp32 factor. Rows are rows
/// of op(A) and columns of op(B). The sizes of blocks are rows by steps of k,
/// counted from the tensor's start.
enum class ScaleKind : int {
  None = 0,
  Tensor = 10,
  Row = 20,
  Block1x128 = 30,
  Block128x128 = 40,
};

/// Whether scales change along k, so that they cannot be applied to finished
/// sums.
constexpr bool isBlockScale(ScaleKind kind) {
  return kind == ScaleKind::Block1x128 || kind == ScaleKind::Block128x128;
}
/// Rows, and steps of k, that share a scale; 0 stands for all.
constexpr int scaledRows(ScaleKind kind) {
  return kind == ScaleKind::Block128x128                           ? 128
         : kind == ScaleKind::Row || kind == ScaleKind::Block1x128 ? 1
                                                                   : 0;
}
constexpr int scaledDepth(ScaleKind kind) {
  return isBlockScale(kind) ? 128 : 0;
}

/// How the rows of A and D are divided among the matrices of B: a grouped GEMM
/// has a group of rows for each. The number of rows of a group is known on the
/// device only.
enum class GroupKind : int {
  None = 0,    ///< a batch: each matrix has m rows
  Ends = 10,   ///< groups follow each other in m rows, and end where an array
               ///< says
  Masked = 20, ///< groups have room for m rows each, of which the first ones
               ///< exist
};

/// How an access treats the caches.
enum class CacheHint : int {
  Plain = 0,
  Streaming = 1, ///< once: loads stay out of L1, stored lines are dropped first
};

/// One link of a pointwise chain. It acts on fp32 values element by element,
/// except those of SwiGLU, behind which there are half as many columns.
enum class PointwiseOp : int {
  None = 0,
  Bias = 10,     ///< x + vector[column]
  Residual = 20, ///< x + matrix[row, column]
  Relu = 30,
  GeluErf = 40,
  GeluTanh = 50,
  Silu = 60,
  Mul = 70,          ///< x * matrix[row, column]
  Scale = 80,        ///< x * scalar
  RowBias = 90,      ///< x + vector[row]
  ColumnScale = 100, ///< x * vector[column]
  RowScale = 110,    ///< x * vector[row]
  SwiGlu = 120,      ///< silu(x) * y of columns 2j and 2j + 1 becomes column j
  /// g * sigmoid(1.702 g) * (u + 1) of g = min(x, 7) and u = y within +-7
  SwiGluClamped = 130,
};

/// The shape of the operand that a link reads.
enum class LinkShape { None, Matrix, Row, Column, Scalar };

/// The operand of \p op: a value for each element, a row of values (one for
/// each column), a column of values (one for each row), or a scalar.
constexpr LinkShape shapeOf(PointwiseOp op) {
  switch (op) {
  case PointwiseOp::Residual:
  case PointwiseOp::Mul:
    return LinkShape::Matrix;
  case PointwiseOp::Bias:
  case PointwiseOp::ColumnScale:
    return LinkShape::Row;
  case PointwiseOp::RowBias:
  case PointwiseOp::RowScale:
    return LinkShape::Column;
  case PointwiseOp::Scale:
    return LinkShape::Scalar;
  default:
    return LinkShape::None;
  }
}

/// True when \p op reads an operand of its own in memory.
constexpr bool hasOperand(PointwiseOp op) {
  return shapeOf(op) != LinkShape::None && op != PointwiseOp::Scale;
}

/// True when \p op makes one column of two neighbouring ones.
constexpr bool joinsColumns(PointwiseOp op) {
  return op == PointwiseOp::SwiGlu || op == PointwiseOp::SwiGluClamped;
}

/// A bounded chain of pointwise operations, applied first to last. Structural:
/// part of a kernel's signature.
struct PointwiseChain {
  static constexpr int kMaxOps = 8;
  PointwiseOp ops[kMaxOps] = {};

  constexpr int size() const {
    int count = 0;
    while (count < kMaxOps && ops[count] != PointwiseOp::None)
      ++count;
    return count;
  }
  constexpr bool contains(PointwiseOp op) const {
    for (PointwiseOp link : ops)
      if (link == op)
        return true;
    return false;
  }
  /// Index of the first link that is \p op; size() if there is no such link.
  constexpr int find(PointwiseOp op) const {
    int at = 0;
    while (at < size() && ops[at] != op)
      ++at;
    return at;
  }
  /// Index of the link that joins columns, of which a chain has at most one;
  /// size() if there is no such link.
  constexpr int joinAt() const {
    int at = 0;
    while (at < size() && !joinsColumns(ops[at]))
      ++at;
    return at;
  }
  /// Columns of the chain's input that make one of its result: 1 or 2.
  constexpr int columnsPerResult() const { return joinAt() < size() ? 2 : 1; }
  /// Columns of the chain's input for each column that link \p index acts on.
  constexpr int columnsBefore(int index) const {
    return joinAt() < index ? 2 : 1;
  }
  friend constexpr bool operator==(const PointwiseChain &,
                                   const PointwiseChain &) = default;
};

} // namespace kiln
