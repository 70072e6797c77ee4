//===- rows/ThreadRows.cuh - the part of rows that one thread holds -------===//
//
// The rows and vectors of a thread, and their addresses. Code that computes
// each vector's address on its own costs more than the work on the vector: an
// address of 64 bits takes ten instructions, and compilers move them behind the
// test whether the vector exists. So the first address is computed once, opaque
// to the compiler, and the others are constant offsets, which are parts of the
// accesses. A thread issues its first load after 60 instructions instead of
// 180.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "rows/ResidentRowsConfig.h"
#include "rows/RowEnds.cuh"
#include "rows/RowMath.cuh"
#include "rows/RowScales.cuh"

namespace kiln {

template <RowSignature kSignature, ResidentRowsConfig kConfig>
class ThreadRows {
  static constexpr int kVector = kConfig.vector, kRows = kConfig.rows;
  static constexpr int kStep = kConfig.rowStep();
  static constexpr int kHeld = kConfig.vectors + kConfig.sharedVectors;
  static constexpr int kInBytes = bytesOf(kSignature.in);
  static constexpr int kBytes = kVector * kInBytes;
  static constexpr RowStart kStart = kConfig.rowStart();
  using Vectors = RowVectors<kSignature, kVector>;
  /// Operands that all rows share have another alignment than a row that may
  /// begin anywhere.
  static constexpr bool kShifted = kStart != RowStart::Aligned;
  using Order = VectorOrder<kSignature, kVector, kConfig.rowThreads>;
  /// Columns from this thread's first vector to its \p i-th.
  static constexpr long long columnsTo(int i) {
    return static_cast<long long>(Order::after(i)) * kVector;
  }

public:
  explicit ThreadRows(const RowParams &params) : params(params) {
    int lane = threadIdx.x % kConfig.rowThreads;
    int group = threadIdx.x / kConfig.rowThreads;
    int blocks = kConfig.spread ? params.ranges : kConfig.cluster;
    row =
        static_cast<long long>(blockIdx.x / blocks) * kConfig.groups() + group;
    // Groups of rows, as many as a step has, follow each other.
    if constexpr (kRows > 1)
      row = row / kStep * (kStep * kRows) + row % kStep;
    body = bodyOf<kSignature, kStart, kVector>(params, row);
    int vectorsOfRow = static_cast<int>(body.vectors);
    // The blocks of a row share it evenly, whatever they could hold.
    int perBlock = Order::wholeBlocks((vectorsOfRow + blocks - 1) / blocks);
    int first = rank() * perBlock + Order::first(lane);
    left = min(vectorsOfRow, (rank() + 1) * perBlock) - first;
    column = first * kVector + body.head;
  }

  /// Rank of this block among the blocks of its row.
  int rank() const {
    if constexpr (kConfig.cluster > 1)
      return static_cast<int>(ptx::clusterCtaRank());
    else if constexpr (kConfig.spread != 0)
      return static_cast<int>(blockIdx.x) % params.ranges;
    else
      return 0;
  }
  /// The first row of this thread, and the parts that all its rows have.
  long long firstRow() const { return row; }
  const RowBody<kVector> &parts() const { return body; }

  /// Whether no thread of the block has a row: the last blocks, where the rows
  /// of a thread lie apart.
  bool isIdle() const {
    return kRows > 1 && kConfig.groups() == 1 && row >= params.rows;
  }
  /// Whether there are rows for this thread of a block that is not idle.
  bool hasRows() const { return kConfig.groups() == 1 || row < params.rows; }
  bool hasRow(int r) const {
    return r == 0 ? hasRows() : row + r * kStep < params.rows;
  }
  /// Index of this thread's \p r-th row. A row that does not exist is replaced
  /// by the first one, so that the same values are stored twice: no instruction
  /// tests which rows exist.
  long long rowAt(int r) const { return hasRow(r) ? row + r * kStep : row; }
  /// Whether its rows have an \p i-th vector for this thread. Vectors that
  /// always exist form one basic block.
  bool isInside(int i) const {
    bool always = kConfig.exact == 1 || (kConfig.exact == 2 && i < kHeld - 1);
    return hasRows() && (always || Order::after(i) < left);
  }
  long long columnAt(int i) const { return column + columnsTo(i); }

  /// This thread's vectors in a matrix of elements of kElement bytes.
  template <int kElement, class Byte> class Matrix {
  public:
    Matrix() = default;
    Matrix(const ThreadRows &rows, Byte *base, long long ld)
        : rows(&rows), base(base), ld(ld),
          first((rows.row * ld + rows.column) * kElement) {
      ptx::opaque(first);
    }
    /// The \p i-th vector of its \p r-th row.
    Byte *at(int r, int i) const {
      long long toRow = (rows->rowAt(r) - rows->row) * ld * kElement;
      return base + first + toRow + columnsTo(i) * kElement;
    }

  private:
    const ThreadRows *rows;
    Byte *base;
    long long ld;
    long long first; ///< bytes
  };
  using Input = Matrix<kInBytes, const char>;
  Input input(const void *base, long long ld) const {
    return {*this, static_cast<const char *>(base), ld};
  }
  template <DType kType>
  Matrix<bytesOf(kType), char> output(void *base, long long ld) const {
    return {*this, static_cast<char *>(base), ld};
  }

private:
  /// This thread's vectors of an operand that all rows share.
  class Operand {
  public:
    Operand() = default;
    Operand(const ThreadRows &rows, const void *operand)
        : base(static_cast<const char *>(operand)),
          low(static_cast<long long>(rows.column) * kInBytes) {
      if constexpr (kShifted) {
        past = bytesPast(base + low, kBytes);
        low -= past;
      }
      ptx::opaque(low);
    }
    Words<kBytes> load(int i) const {
      const char *first = base + low + columnsTo(i) * kInBytes;
      if constexpr (!kShifted)
        return loadVector<kBytes>(first);
      // Ends leave room for both covering vectors, even if one is enough.
      CoveringVectors<kBytes, kInBytes> covering;
      covering.set(loadVector<kBytes>(first),
                   loadVector<kBytes>(first + kBytes));
      return covering.get(past);
    }

  private:
    const char *base;
    long long low; ///< bytes to the vector that covers the first one
    int past;
  };

public:
  /// This thread's vectors of all such operands.
  class Operands {
  public:
    explicit Operands(const ThreadRows &rows) : rows(rows) {
      // Visits the operands that there are; the vectors are of no use.
      Vectors::of(rows.params, [&](int index, const void *base) {
        each[index] = Operand(rows, base);
        return Words<kBytes>();
      });
    }
    Vectors load(int i) const {
      return Vectors::of(rows.params, [&](int index, const void *) {
        return each[index].load(i);
      });
    }

  private:
    const ThreadRows &rows;
    Operand each[Vectors::kOperands];
  };

private:
  const RowParams &params;
  long long row;
  RowBody<kVector> body;
  int column; ///< of this thread's first vector
  int left;   ///< vectors of its block from this thread's first one on
};

} // namespace kiln
