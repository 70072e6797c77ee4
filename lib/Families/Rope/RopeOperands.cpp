//===- RopeOperands.cpp - operands, data and tolerances -------------------===//
#include "Families/ProblemFields.h"
#include "Families/Rope/RopeFamily.h"
#include "Families/Rounding.h"

#include <algorithm>

namespace kiln {

namespace {

/// Builds the table of one problem.
class RopeTableBuilder {
public:
  RopeTableBuilder(const RopeProblem &p, OperandTable &table)
      : p(p), table(table) {}

  OperandSpec &add(int index, llvm::StringRef name, OperandRole role,
                   DType type, bool present) {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.role = role;
    spec.type = type;
    spec.present = present;
    return spec;
  }

  /// Heads of all tokens.
  OperandSpec &addHeads(int index, llvm::StringRef name, OperandRole role,
                        bool present, int64_t heads, int64_t cols,
                        const HeadStrides &strides) {
    OperandSpec &spec = add(index, name, role, p.dtype, present);
    spec.rows = p.tokens;
    spec.planes = heads;
    spec.cols = cols;
    spec.leadingDimension = strides.token;
    spec.planeStride = strides.head;
    spec.misalignment = misalignmentOf(p.align, p.dtype);
    spec.outliers.outlierPeriod = 1000;
    spec.outliers.outlier = 64;
    if (role == OperandRole::Out)
      spec.tolerance = roundedTolerance(p.dtype, kElement);
    return spec;
  }

  void addCache(int index, llvm::StringRef name, bool present, int64_t cols,
                const HeadStrides &strides) {
    OperandSpec &spec = add(index, name, OperandRole::Out, p.cache, present);
    spec.rows = p.pageSize;
    spec.planes = p.kvHeads;
    spec.batch = p.pageCount;
    spec.cols = cols;
    spec.leadingDimension = strides.token;
    spec.planeStride = strides.head;
    spec.batchStride = strides.batch;
    spec.misalignment = misalignmentOf(p.align, p.cache);
    spec.tolerance = roundedTolerance(p.cache, kElement);
  }

  OperandSpec &addMatrix(int index, llvm::StringRef name, DType type,
                         bool present, int64_t rows, int64_t cols) {
    OperandSpec &spec = add(index, name, OperandRole::Constant, type, present);
    spec.rows = rows;
    spec.cols = spec.leadingDimension = cols;
    spec.batchStride = spec.planeStride = rows * cols;
    return spec;
  }

  /// Weights and the table have the problem's alignment.
  OperandSpec &addAligned(int index, llvm::StringRef name, DType type,
                          bool present, int64_t rows, int64_t cols) {
    OperandSpec &spec = addMatrix(index, name, type, present, rows, cols);
    spec.misalignment = misalignmentOf(p.align, type);
    return spec;
  }

  void addIntegers(int index, llvm::StringRef name, DType type, bool present,
                   int64_t rows, int64_t cols, const IntegerInit &init) {
    OperandSpec &spec = addMatrix(index, name, type, present, rows, cols);
    spec.alignment = spec.misalignment = bytesOf(type);
    spec.usual.integers = spec.outliers.integers = init;
  }

  void addScale(int index, llvm::StringRef name, bool present) {
    const bool isOfHead = p.scales == ScaleKind::Row;
    OperandSpec &spec = addMatrix(index, name, DType::FP32,
                                  present && p.scales != ScaleKind::None, 1,
                                  isOfHead ? p.kvHeads : 1);
    spec.alignment = spec.misalignment = bytesOf(DType::FP32);
    // The mean is ten deviations above 0: scales are positive.
    spec.usual.mean = spec.outliers.mean = 1;
    spec.usual.deviation = spec.outliers.deviation = 0.1;
  }

private:
  /// A root, its reciprocal, products of weights, two products and a sum: ten
  /// roundings of fp32.
  static constexpr double kElement = 2e-6;

  const RopeProblem &p;
  OperandTable &table;
};

} // namespace

OperandTable ropeOperands(const RopeProblem &p) {
  using Operand = RopeOperand;
  using enum OperandRole;
  OperandTable table;
  table.operands.resize(Operand::Count);
  RopeTableBuilder builder(p, table);
  builder.addHeads(Operand::Q, "q", In, p.hasQ(), p.heads, p.headDim, p.q);
  builder.addHeads(Operand::K, "k", In, p.hasK(), p.kvHeads, p.headDim, p.k);
  builder.addHeads(Operand::V, "v", In, p.vCache, p.kvHeads, p.valueDim, p.v);
  builder
      .addHeads(Operand::QOut, "q_out", Out, p.hasQ(), p.heads, p.headDim,
                p.qOut)
      .mayBe = Operand::Q;
  builder
      .addHeads(Operand::KOut, "k_out", Out, p.kOut, p.kvHeads, p.headDim,
                p.kOutStrides)
      .mayBe = Operand::K;
  builder.addCache(Operand::KCache, "k_cache", p.kCache, p.headDim,
                   p.kCacheStrides);
  builder.addCache(Operand::VCache, "v_cache", p.vCache, p.valueDim,
                   p.vCacheStrides);
  // Cosines and sines are at most 1.
  constexpr double kAngleDeviation = 0.5;
  OperandSpec &angles =
      builder.addAligned(Operand::Table, "table", p.table, p.rotaryDim > 0,
                         p.tableRows, p.rotaryDim);
  angles.usual.deviation = angles.outliers.deviation = kAngleDeviation;
  builder.addAligned(Operand::QWeight, "q_weight", p.dtype, p.qNorm, 1,
                     p.headDim);
  builder.addAligned(Operand::KWeight, "k_weight", p.dtype, p.kNorm, 1,
                     p.headDim);
  const DType index = p.longIndices ? DType::INT64 : DType::INT32;
  using enum IntegerData;
  builder.addIntegers(Operand::Positions, "positions", index, p.hasPositions(),
                      1, p.tokens,
                      {Indices, 0, std::max<int64_t>(p.tableRows - 1, 0), 0});
  // -1 among them: a token that is not cached.
  builder.addIntegers(Operand::Slots, "slots", index,
                      p.slots == RopeSlots::Array, 1, p.tokens,
                      {Indices, -1, p.pageSize * p.pageCount - 1, 0});
  builder.addIntegers(Operand::PageTable, "page_table", DType::INT32,
                      p.slots == RopeSlots::Table, p.pageTableRows,
                      p.pageTableColumns,
                      {Indices, 0, std::max<int64_t>(p.pageCount - 1, 0), 0});
  builder.addIntegers(
      Operand::Sequences, "sequences", DType::INT32, p.sequences, 1, p.tokens,
      {Values, 0, std::max<int64_t>(p.pageTableRows - 1, 0), 0});
  builder.addScale(Operand::KScale, "k_scale", p.kCache);
  builder.addScale(Operand::VScale, "v_scale", p.vCache);
  return table;
}

} // namespace kiln
