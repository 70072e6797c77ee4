//===- AttentionOperands.cpp - operands, data and tolerances --------------===//
//
// Usual data is N(0, 1), so that scores are N(0, 1), too, and every key counts.
// Outliers make rows in which a few keys have all the weight.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionFamily.h"
#include "Families/ProblemFields.h"
#include "Families/Rounding.h"
#include "attention/ReferenceAttentionConfig.h"

#include <algorithm>
#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// Tolerances
//===----------------------------------------------------------------------===//

/// How often a trial may repeat a key of a sequence: pages repeat where a
/// sequence has more pages than exist.
static double repeatsOfKeys(const AttentionProblem &p) {
  if (!p.isPaged() || p.pageCount <= 0)
    return 1;
  int64_t pages = (p.pagesOfSequence() + p.pageCount - 1) / p.pageCount;
  return static_cast<double>(std::max<int64_t>(pages, 1));
}

/// O. The reference's bound is the root of the sum of squares of the keys'
/// contributions: weights are rounded to Q's type before the product with V,
/// each with an error of its own. Keys that repeat have equal errors: n of them
/// are off by n times the error of one, where the bound has the root.
static Tolerance toleranceOfO(const AttentionProblem &p) {
  // Such errors add up like independent draws: their deviation is 0.42 half
  // units each, and 7 deviations do not occur. Where few keys count, that is
  // more than the sum of the errors.
  constexpr double kDeviations = 3.2;
  double deviations = kDeviations * std::sqrt(repeatsOfKeys(p));
  Tolerance tolerance = roundedTolerance(p.out, deviations * halfUlp(p.dtype));
  // Sums of e4m3 products keep 14 bits and are cut off, not rounded.
  if (p.dtype == DType::E4M3)
    tolerance.relative += std::ldexp(1.0, -6);
  return tolerance;
}

/// The LSE. The reference's bound is 1 plus the mean magnitude of the scores,
/// by which the rounding of fp32 sums moves scores; over e4m3 it counts the
/// products as well, whose sums are cut.
static Tolerance toleranceOfLse(const AttentionProblem &p) {
  constexpr double kSums = 2e-5;
  // tanh.approx has 11 bits.
  double softcap = p.softcap != 0 ? std::ldexp(1.0, -10) : 0;
  return {1e-6, softcap + (p.dtype == DType::E4M3 ? kE4M3LseError : kSums),
          1e-30};
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {

/// Builds the table of one problem.
class TableBuilder {
public:
  TableBuilder(const AttentionProblem &p, OperandTable &table)
      : p(p), table(table) {}

  OperandSpec &add(int index, llvm::StringRef name, OperandRole role,
                   DType type, bool present) {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.present = present;
    // Q, K, V and O have the problem's alignment, the others that of their
    // elements.
    bool isTensor = index <= AttentionOperand::O;
    spec.alignment = isTensor ? 0 : bytesOf(type);
    spec.misalignment =
        misalignmentOf(isTensor ? p.align : spec.alignment, type);
    return spec;
  }

  /// Q or O.
  OperandSpec &addQueries(int index, llvm::StringRef name, OperandRole role,
                          DType type, int64_t cols,
                          const HeadStrides &strides) {
    OperandSpec &spec = add(index, name, role, type, true);
    bool isPacked = p.hasPackedQueries();
    spec.rows = p.queryRows();
    spec.planes = p.heads;
    spec.batch = isPacked ? 1 : p.batch;
    setStrides(spec, cols, strides);
    return spec;
  }

  /// K or V.
  OperandSpec &addKeys(int index, llvm::StringRef name, int64_t cols,
                       const HeadStrides &strides) {
    OperandSpec &spec = add(index, name, OperandRole::In, p.kv, true);
    spec.rows = p.keyRows();
    spec.planes = p.kvHeads;
    spec.batch = p.isPaged() ? p.pageCount : p.hasPackedKeys() ? 1 : p.batch;
    setStrides(spec, cols, strides);
    spec.outliers.outlierPeriod = 1000;
    spec.outliers.outlier = 64;
    return spec;
  }

  /// \p rows of \p cols integers.
  void addIntegers(int index, llvm::StringRef name, int64_t rows, int64_t cols,
                   const IntegerInit &init, bool present) {
    OperandSpec &spec =
        add(index, name, OperandRole::In, DType::INT32, present);
    spec.rows = rows;
    spec.cols = spec.leadingDimension = cols;
    spec.batchStride = spec.planeStride = rows * cols;
    spec.usual.integers = spec.outliers.integers = init;
  }

  /// \p rows of \p cols fp32 values.
  OperandSpec &addFloats(int index, llvm::StringRef name, int64_t rows,
                         int64_t cols, bool present) {
    OperandSpec &spec =
        add(index, name, OperandRole::Constant, DType::FP32, present);
    spec.rows = rows;
    spec.cols = spec.leadingDimension = cols;
    spec.batchStride = spec.planeStride = rows * cols;
    return spec;
  }

  void addLse() {
    OperandSpec &lse =
        add(AttentionOperand::Lse, "lse", OperandRole::Out, DType::FP32, p.lse);
    bool isPacked = p.hasPackedQueries();
    lse.rows = p.queryRows();
    lse.cols = lse.leadingDimension = 1;
    lse.planes = p.heads;
    lse.planeStride = lse.rows;
    lse.batch = isPacked ? 1 : p.batch;
    lse.batchStride = p.lse ? p.heads * lse.rows : 0;
    lse.tolerance = toleranceOfLse(p);
  }

  /// Adds the scale of an operand of type \p type.
  void addScale(int index, llvm::StringRef name, DType type) {
    bool isOfHead = p.scales == AttentionProblem::Scales::Head;
    OperandSpec &scale = addFloats(index, name, 1, isOfHead ? p.kvHeads : 1,
                                   p.scales != AttentionProblem::Scales::None &&
                                       type == DType::E4M3);
    // The mean is ten deviations above 0: scales are positive.
    scale.usual.mean = scale.outliers.mean = 1;
    scale.usual.deviation = scale.outliers.deviation = 0.1;
  }

private:
  static void setStrides(OperandSpec &spec, int64_t cols,
                         const HeadStrides &strides) {
    spec.cols = cols;
    spec.leadingDimension = strides.token;
    spec.planeStride = strides.head;
    spec.batchStride = strides.batch;
  }

  const AttentionProblem &p;
  OperandTable &table;
};

} // namespace

/// Adds lengths, offsets and pages. A list of pages gives all sequences equally
/// many, and lengths need no more than these. With a hint lengths differ, as in
/// real launches.
static void addIndices(const AttentionProblem &p, TableBuilder &builder) {
  using Operand = AttentionOperand;
  builder.addIntegers(Operand::QueryOffsets, "query_offsets", 1, p.batch + 1,
                      {IntegerData::Offsets, 0, p.queries, p.totalQueries},
                      p.hasPackedQueries());
  builder.addIntegers(Operand::KeyOffsets, "key_offsets", 1, p.batch + 1,
                      {IntegerData::Offsets, 0, p.keys, p.totalKeys},
                      p.hasPackedKeys());
  bool isList = p.pages == AttentionPages::List;
  int64_t pages = p.pagesOfSequence(), mostKeys = p.keys;
  if (isList && p.batch > 0) {
    pages = std::min(pages, p.pageTableCols / p.batch);
    mostKeys = std::min(mostKeys, pages * p.pageSize);
  }
  builder.addIntegers(Operand::KeyLengths, "key_lengths", 1, p.batch,
                      {IntegerData::Lengths, 0, mostKeys,
                       std::min(p.typicalKeys, mostKeys) * p.batch},
                      p.keyLengths == AttentionLengths::Used);
  builder.addIntegers(
      Operand::PageTable, "page_table", isList ? 1 : p.batch, p.pageTableCols,
      {IntegerData::Indices, 0, std::max<int64_t>(p.pageCount - 1, 0), 0},
      p.isPaged());
  builder.addIntegers(Operand::PageOffsets, "page_offsets", 1, p.batch + 1,
                      {IntegerData::Offsets, pages, pages, p.pageTableCols},
                      isList);
}

OperandTable attentionOperands(const AttentionProblem &p) {
  using Operand = AttentionOperand;
  OperandTable table;
  table.operands.resize(Operand::Count);
  TableBuilder builder(p, table);
  OperandSpec &q = builder.addQueries(Operand::Q, "q", OperandRole::In, p.dtype,
                                      p.headDim, p.q);
  q.outliers.outlierPeriod = 1000;
  q.outliers.outlier = 64;
  builder.addKeys(Operand::K, "k", p.headDim, p.k);
  builder.addKeys(Operand::V, "v", p.valueDim, p.v).present = !p.latent;
  builder.addQueries(Operand::O, "o", OperandRole::Out, p.out, p.valueDim, p.o)
      .tolerance = toleranceOfO(p);
  builder.addLse();
  addIndices(p, builder);
  OperandSpec &sinks =
      builder.addFloats(Operand::Sinks, "sinks", 1, p.heads, p.sinks);
  // One outlier sink takes all the weight, the other one none.
  sinks.outliers.outlierPeriod = 3;
  sinks.outliers.outlier = 30;
  OperandSpec &alibi =
      builder.addFloats(Operand::Alibi, "alibi", 1, p.heads, p.alibi);
  alibi.usual.deviation = 0.01;
  alibi.outliers.deviation = 0.5;
  builder.addScale(Operand::QScale, "q_scale", p.dtype);
  builder.addScale(Operand::KScale, "k_scale", p.kv);
  builder.addScale(Operand::VScale, "v_scale", p.kv);
  return table;
}

} // namespace kiln
